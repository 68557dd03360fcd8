//! Expected figures: numbers of passed and skipped cases of each suite on each target.
//!
//! The test of a suite fails if it passes fewer or more cases. Another test compares this table with that of
//! `docs/conformance.md`.

use crate::{SuiteReport, Target};

/// Expected figures of a suite.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Name of the suite.
    pub suite: &'static str,
    /// Number of cases that pass on at least one target of real servers.
    pub on_real_servers: usize,
    /// Numbers of passed and skipped cases on each of [`Target::ALL`].
    pub on: [(usize, usize); Target::ALL.len()],
}

const fn figures(
    suite: &'static str,
    on_real_servers: usize,
    on: [(usize, usize); Target::ALL.len()],
) -> Figures {
    Figures { suite, on_real_servers, on }
}

/// Figures of all suites, in the edition of PyMongo 4.20.0.
#[rustfmt::skip]
pub const FIGURES: &[Figures] = &[
    figures("auth", 64, [(64, 6), (64, 6), (64, 6), (64, 6), (64, 6), (64, 6), (64, 6)]),
    figures("causal_consistency", 18, [(17, 1), (18, 0), (18, 0), (0, 18), (18, 0), (18, 0), (18, 0)]),
    figures("change_streams", 70, [(65, 24), (67, 22), (45, 44), (1, 88), (34, 55), (89, 0), (33, 56)]),
    figures("client-backpressure", 103, [(100, 3), (103, 0), (103, 0), (2, 101), (103, 0), (103, 0), (103, 0)]),
    figures("collection_management", 7, [(6, 1), (7, 0), (7, 0), (7, 0), (7, 0), (4, 3), (4, 3)]),
    figures("command_logging", 30, [(29, 1), (27, 3), (27, 3), (25, 5), (24, 6), (30, 0), (27, 3)]),
    figures("command_monitoring", 34, [(33, 2), (33, 2), (32, 3), (32, 3), (32, 3), (35, 0), (32, 3)]),
    figures("connection_logging", 5, [(5, 0), (0, 5), (0, 5), (5, 0), (0, 5), (5, 0), (0, 5)]),
    figures("connection_monitoring", 32, [(32, 0), (32, 0), (32, 0), (32, 0), (32, 0), (32, 0), (32, 0)]),
    figures("connection_string", 98, [(98, 0), (98, 0), (98, 0), (98, 0), (98, 0), (98, 0), (98, 0)]),
    figures("crud", 358, [(308, 129), (354, 83), (351, 86), (346, 91), (341, 96), (432, 5), (351, 86)]),
    figures("csot", 417, [(417, 16), (417, 16), (416, 17), (68, 365), (62, 371), (410, 23), (410, 23)]),
    figures("discovery_and_monitoring", 221, [(215, 8), (206, 17), (209, 14), (205, 18), (180, 43), (220, 3), (206, 17)]),
    figures("gridfs", 45, [(45, 0), (45, 0), (45, 0), (45, 0), (45, 0), (45, 0), (45, 0)]),
    figures("handshake", 1, [(1, 0), (1, 0), (1, 0), (1, 0), (1, 0), (1, 0), (1, 0)]),
    figures("index_management", 15, [(0, 15), (15, 0), (15, 0), (0, 15), (15, 0), (15, 0), (15, 0)]),
    figures("load_balancer", 37, [(2, 38), (0, 40), (2, 38), (2, 38), (35, 5), (37, 3), (2, 38)]),
    figures("max_staleness", 32, [(32, 0), (32, 0), (32, 0), (32, 0), (32, 0), (32, 0), (32, 0)]),
    figures("read_write_concern", 75, [(74, 8), (75, 7), (75, 7), (75, 7), (75, 7), (74, 8), (74, 8)]),
    figures("retryable_reads", 363, [(363, 17), (363, 17), (363, 17), (280, 100), (346, 34), (362, 18), (362, 18)]),
    figures("retryable_writes", 138, [(129, 13), (138, 4), (99, 43), (0, 142), (99, 43), (141, 1), (99, 43)]),
    figures("run_command", 21, [(18, 3), (17, 4), (18, 3), (15, 6), (18, 3), (20, 1), (17, 4)]),
    figures("sdam_monitoring", 8, [(8, 0), (8, 0), (8, 0), (8, 0), (8, 0), (8, 0), (8, 0)]),
    figures("server_selection", 103, [(103, 0), (103, 0), (103, 0), (103, 0), (103, 0), (103, 0), (103, 0)]),
    figures("server_selection_logging", 11, [(6, 5), (2, 9), (2, 9), (6, 5), (1, 10), (11, 0), (2, 9)]),
    figures("sessions", 31, [(31, 3), (28, 6), (24, 10), (5, 29), (5, 29), (34, 0), (24, 10)]),
    figures("srv_seedlist", 66, [(66, 0), (66, 0), (66, 0), (66, 0), (66, 0), (66, 0), (66, 0)]),
    figures("transactions", 255, [(173, 85), (176, 82), (254, 4), (0, 258), (182, 76), (255, 3), (254, 4)]),
    figures("transactions-convenient-api", 29, [(29, 0), (29, 0), (29, 0), (0, 29), (29, 0), (29, 0), (29, 0)]),
    figures("unified-test-format", 353, [(351, 12), (348, 15), (343, 20), (329, 34), (324, 39), (354, 9), (343, 20)]),
    figures("uri_options", 145, [(145, 0), (145, 0), (145, 0), (145, 0), (145, 0), (145, 0), (145, 0)]),
    figures("versioned-api", 41, [(40, 1), (41, 0), (41, 0), (39, 2), (41, 0), (40, 1), (39, 2)]),
];

impl Figures {
    /// Cases passed and cases skipped on a target; `None` if it is a connection string.
    pub fn on(&self, target: &Target) -> Option<(usize, usize)> {
        let place = Target::ALL.iter().position(|known| known == target)?;
        Some(self.on[place])
    }

    /// Number of cases.
    pub fn total(&self) -> usize {
        self.on[0].0 + self.on[0].1
    }
}

/// Compares a report with the expected figures.
///
/// # Errors
///
/// Fails if the figures differ, if the table has none for the suite on this target, or if more than 5 % of the passed
/// cases needed a second try.
pub fn check(report: &SuiteReport, target: &Target) -> Result<(), String> {
    let (suite, on) = (report.suite, target.name());
    let expected = FIGURES.iter().find(|figures| figures.suite == suite);
    let expected = expected.ok_or_else(|| format!("{suite} has no line in FIGURES"))?;
    let (passed, skipped) =
        expected.on(target).ok_or_else(|| format!("FIGURES has no figures of {on}"))?;
    let found = (report.passed, report.skipped());
    if found != (passed, skipped) {
        return Err(format!(
            "{suite} on {on}: {} passed and {} skipped, not {passed} and {skipped} as in FIGURES; skipped: {:#?}",
            found.0, found.1, report.skip_reasons
        ));
    }
    if report.second_tries.len() * 20 > passed {
        let first_tries = report.first_tries();
        return Err(format!(
            "{suite} on {on}: only {first_tries} of {passed} passed at the first try"
        ));
    }
    Ok(())
}

/// Compares the number of cases that passed on at least one target of real servers with the expected figure.
///
/// # Errors
///
/// Fails if the figures differ, and names the suite and both figures.
pub fn check_on_real_servers(suite: &str, passed: usize) -> Result<(), String> {
    let expected = FIGURES.iter().find(|figures| figures.suite == suite);
    match expected.map(|figures| figures.on_real_servers) {
        Some(expected) if expected == passed => Ok(()),
        expected => Err(format!(
            "{suite}: {passed} cases passed on at least one target of real servers, not {expected:?} as in FIGURES"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{markdown, report::CaseFailure, suites};

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
        for target in Target::ALL {
            assert!(check(&report(2, 0), &target).is_err());
            assert!(check(&report(1, 1), &target).is_err());
        }
        assert!(check(&SuiteReport::new("unknown"), &Target::Mongod8_2).is_err());
        assert!(check(&report(1, 0), &Target::Uri(String::new())).is_err());
        assert_eq!(check_on_real_servers("handshake", 1), Ok(()));
        assert!(check_on_real_servers("handshake", 0).is_err());
    }

    #[test]
    fn many_second_tries_are_an_error() {
        let mut report = report(1, 0);
        let (file, case, why) = (String::new(), String::new(), "too late".to_owned());
        report.second_tries.push(CaseFailure { file, case, why });
        let rare = check(&report, &Target::Embedded).unwrap_err();
        assert_eq!(rare, "handshake on embedded: only 0 of 1 passed at the first try");
    }

    #[test]
    fn every_suite_has_the_same_number_of_cases_on_each_target() {
        let lines: Vec<_> = FIGURES.iter().map(|figures| figures.suite).collect();
        let suites: Vec<_> = suites::ALL.iter().map(|suite| suite.name).collect();
        assert_eq!(lines, suites);
        for figures in FIGURES {
            let totals = figures.on.map(|(passed, skipped)| passed + skipped);
            assert_eq!(totals, [figures.total(); Target::ALL.len()], "{}", figures.suite);
        }
    }

    #[test]
    fn real_sharded_cluster_passes_no_fewer_cases_than_the_embedded_one() {
        for figures in FIGURES {
            let on = |target| figures.on(&target).unwrap().0;
            let (real, embedded) = (on(Target::Mongod8_2Sharded), on(Target::EmbeddedSharded));
            assert!(real >= embedded, "{}: {real} and {embedded}", figures.suite);
        }
    }

    #[test]
    fn conformance_md_has_the_expected_figures() {
        let document = include_str!("../../../docs/conformance.md");
        let expected = markdown::figures_table(FIGURES);
        assert!(document.contains(&expected), "docs/conformance.md lacks this table:\n{expected}");
    }
}
