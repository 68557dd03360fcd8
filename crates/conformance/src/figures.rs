//! Expected figures: the cases of each suite that pass and that are skipped.
//!
//! A suite that passes fewer cases fails its test, and so does one that passes more: the table below and README's, which a
//! test compares with it, are measured figures.

use crate::{SuiteReport, Target};

/// Expected figures of a suite: cases passed, cases skipped.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Name of the suite.
    pub suite: &'static str,
    /// Figures on `mongod` 6.0.5.
    pub mongod: (usize, usize),
    /// Figures on the embedded deployment.
    pub embedded: (usize, usize),
}

const fn figures(suite: &'static str, mongod: (usize, usize), embedded: (usize, usize)) -> Figures {
    Figures { suite, mongod, embedded }
}

/// Figures of all suites, in PyMongo 4.19.0's edition: on `mongod`, on the embedded deployment.
pub const FIGURES: &[Figures] = &[
    figures("auth", (64, 0), (64, 0)),
    figures("causal_consistency", (17, 1), (18, 0)),
    figures("change_streams", (65, 24), (89, 0)),
    figures("client-backpressure", (100, 3), (103, 0)),
    figures("collection_management", (6, 1), (4, 3)),
    figures("command_logging", (29, 1), (30, 0)),
    figures("command_monitoring", (33, 2), (35, 0)),
    figures("connection_logging", (5, 2), (5, 2)),
    figures("connection_monitoring", (32, 0), (32, 0)),
    figures("connection_string", (98, 0), (98, 0)),
    figures("crud", (308, 129), (432, 5)),
    figures("csot", (417, 16), (410, 23)),
    figures("discovery_and_monitoring", (215, 8), (220, 3)),
    figures("gridfs", (45, 0), (45, 0)),
    figures("handshake", (1, 0), (1, 0)),
    figures("index_management", (0, 15), (15, 0)),
    figures("load_balancer", (2, 38), (37, 3)),
    figures("max_staleness", (32, 0), (32, 0)),
    figures("read_write_concern", (38, 0), (38, 0)),
    figures("retryable_reads", (360, 20), (360, 20)),
    figures("retryable_writes", (129, 13), (141, 1)),
    figures("run_command", (18, 3), (20, 1)),
    figures("sdam_monitoring", (8, 0), (8, 0)),
    figures("server_selection", (103, 0), (103, 0)),
    figures("server_selection_logging", (6, 5), (11, 0)),
    figures("sessions", (31, 3), (34, 0)),
    figures("srv_seedlist", (64, 0), (64, 0)),
    figures("transactions", (173, 85), (255, 3)),
    figures("transactions-convenient-api", (29, 0), (29, 0)),
    figures("unified-test-format", (351, 12), (354, 9)),
    figures("uri_options", (145, 0), (145, 0)),
    figures("versioned-api", (39, 2), (40, 1)),
];

/// Compares a report with the expected figures.
///
/// # Errors
///
/// Names the suite and both figures if they differ, or if none are expected of the suite. Names the figure of
/// first tries if more than 5 % of the cases that passed needed a second one.
pub fn check(report: &SuiteReport, target: &Target) -> Result<(), String> {
    let suite = report.suite;
    let expected = FIGURES.iter().find(|figures| figures.suite == suite);
    let expected = expected.ok_or_else(|| format!("{suite} has no line in FIGURES"))?;
    let (passed, skipped) = match target {
        Target::Mongod | Target::Uri(_) => expected.mongod,
        Target::Embedded => expected.embedded,
    };
    let found = (report.passed, report.skipped());
    if found != (passed, skipped) {
        return Err(format!(
            "{suite}: {} passed and {} skipped, not {passed} and {skipped} as in FIGURES; skipped: {:#?}",
            found.0, found.1, report.skip_reasons
        ));
    }
    if report.second_tries.len() * 20 > passed {
        let first_tries = report.first_tries();
        return Err(format!("{suite}: only {first_tries} of {passed} passed at the first try"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{report::Failure, suites};

    fn report(passed: usize, skipped: usize) -> SuiteReport {
        let mut report = SuiteReport::new("handshake");
        report.passed = passed;
        (0..skipped).for_each(|_| report.skip("needs something".to_owned()));
        report
    }

    #[test]
    fn fewer_and_more_passes_than_expected_are_errors() {
        assert_eq!(check(&report(1, 0), &Target::Embedded), Ok(()));
        let skipped = check(&report(0, 1), &Target::Embedded).unwrap_err();
        assert!(skipped.contains("0 passed and 1 skipped, not 1 and 0"), "{skipped}");
        assert!(check(&report(2, 0), &Target::Mongod).is_err());
        assert!(check(&report(1, 1), &Target::Mongod).is_err());
        assert!(check(&SuiteReport::new("unknown"), &Target::Mongod).is_err());
    }

    #[test]
    fn many_second_tries_are_an_error() {
        let mut report = report(1, 0);
        let (file, case, why) = (String::new(), String::new(), "too late".to_owned());
        report.second_tries.push(Failure { file, case, why });
        let rare = check(&report, &Target::Embedded).unwrap_err();
        assert_eq!(rare, "handshake: only 0 of 1 passed at the first try");
    }

    #[test]
    fn every_suite_has_its_line() {
        let lines: Vec<_> = FIGURES.iter().map(|figures| figures.suite).collect();
        let suites: Vec<_> = suites::ALL.iter().map(|suite| suite.name).collect();
        assert_eq!(lines, suites);
    }

    #[test]
    fn the_table_in_the_readme_has_the_expected_figures() {
        let readme = include_str!("../../../README.md");
        let mut table: Vec<&str> = readme
            .lines()
            .skip_while(|line| !line.starts_with("| suite | on `mongod`"))
            .take_while(|line| line.starts_with('|'))
            .skip(2)
            .collect();
        let total = table.pop();
        let or_none = |count: usize| if count == 0 { String::new() } else { format!("{count} ") };
        let line = |name: String, mongod: (usize, usize), embedded: (usize, usize)| {
            let skipped = [or_none(mongod.1), or_none(embedded.1)];
            let ((on_mongod, _), (on_embedded, _), cases) = (mongod, embedded, mongod.0 + mongod.1);
            format!(
                "| {name} | {on_mongod} | {}| {on_embedded} | {}| {cases} |",
                skipped[0], skipped[1]
            )
        };
        let lines = FIGURES.iter().map(|f| line(format!("`{}`", f.suite), f.mongod, f.embedded));
        assert_eq!(table, lines.collect::<Vec<_>>());
        let sum = |one: fn(&Figures) -> (usize, usize)| {
            FIGURES.iter().map(one).fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
        };
        let totals = line("total".to_owned(), sum(|f| f.mongod), sum(|f| f.embedded));
        assert_eq!(total, Some(totals.as_str()));
    }
}
