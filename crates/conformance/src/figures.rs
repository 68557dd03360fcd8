//! Expected figures: the cases of each suite that pass and that are skipped, on each target.
//!
//! A suite that passes fewer cases fails its test, and so does one that passes more: the table below and that of
//! `docs/conformance.md`, which a test compares with it, are measured figures.

use crate::{SuiteReport, Target};

/// Expected figures of a suite.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Name of the suite.
    pub suite: &'static str,
    /// Cases that pass on at least one target of real servers.
    pub on_real_servers: usize,
    /// Cases passed and cases skipped, on each of [`Target::ALL`].
    pub on: [(usize, usize); Target::ALL.len()],
}

const fn figures(
    suite: &'static str,
    on_real_servers: usize,
    on: [(usize, usize); Target::ALL.len()],
) -> Figures {
    Figures { suite, on_real_servers, on }
}

/// Figures of all suites, in PyMongo 4.20.0's edition.
#[rustfmt::skip]
pub const FIGURES: &[Figures] = &[
    figures("auth", 64, [(64, 0), (64, 0), (64, 0), (64, 0), (64, 0), (64, 0), (64, 0)]),
    figures("causal_consistency", 17, [(17, 1), (17, 1), (17, 1), (17, 1), (17, 1), (18, 0), (18, 0)]),
    figures("change_streams", 65, [(65, 24), (65, 24), (65, 24), (65, 24), (65, 24), (89, 0), (89, 0)]),
    figures("client-backpressure", 100, [(100, 3), (100, 3), (100, 3), (100, 3), (100, 3), (103, 0), (103, 0)]),
    figures("collection_management", 6, [(6, 1), (6, 1), (6, 1), (6, 1), (6, 1), (4, 3), (4, 3)]),
    figures("command_logging", 29, [(29, 1), (29, 1), (29, 1), (29, 1), (29, 1), (30, 0), (30, 0)]),
    figures("command_monitoring", 33, [(33, 2), (33, 2), (33, 2), (33, 2), (33, 2), (35, 0), (35, 0)]),
    figures("connection_logging", 5, [(5, 2), (5, 2), (5, 2), (5, 2), (5, 2), (5, 2), (5, 2)]),
    figures("connection_monitoring", 32, [(32, 0), (32, 0), (32, 0), (32, 0), (32, 0), (32, 0), (32, 0)]),
    figures("connection_string", 98, [(98, 0), (98, 0), (98, 0), (98, 0), (98, 0), (98, 0), (98, 0)]),
    figures("crud", 308, [(308, 129), (308, 129), (308, 129), (308, 129), (308, 129), (432, 5), (432, 5)]),
    figures("csot", 417, [(417, 16), (417, 16), (417, 16), (417, 16), (417, 16), (410, 23), (410, 23)]),
    figures("discovery_and_monitoring", 215, [(215, 8), (215, 8), (215, 8), (215, 8), (215, 8), (220, 3), (220, 3)]),
    figures("gridfs", 45, [(45, 0), (45, 0), (45, 0), (45, 0), (45, 0), (45, 0), (45, 0)]),
    figures("handshake", 1, [(1, 0), (1, 0), (1, 0), (1, 0), (1, 0), (1, 0), (1, 0)]),
    figures("index_management", 0, [(0, 15), (0, 15), (0, 15), (0, 15), (0, 15), (15, 0), (15, 0)]),
    figures("load_balancer", 2, [(2, 38), (2, 38), (2, 38), (2, 38), (2, 38), (37, 3), (37, 3)]),
    figures("max_staleness", 32, [(32, 0), (32, 0), (32, 0), (32, 0), (32, 0), (32, 0), (32, 0)]),
    figures("read_write_concern", 38, [(38, 0), (38, 0), (38, 0), (38, 0), (38, 0), (38, 0), (38, 0)]),
    figures("retryable_reads", 360, [(360, 20), (360, 20), (360, 20), (360, 20), (360, 20), (360, 20), (360, 20)]),
    figures("retryable_writes", 129, [(129, 13), (129, 13), (129, 13), (129, 13), (129, 13), (141, 1), (141, 1)]),
    figures("run_command", 18, [(18, 3), (18, 3), (18, 3), (18, 3), (18, 3), (20, 1), (20, 1)]),
    figures("sdam_monitoring", 8, [(8, 0), (8, 0), (8, 0), (8, 0), (8, 0), (8, 0), (8, 0)]),
    figures("server_selection", 103, [(103, 0), (103, 0), (103, 0), (103, 0), (103, 0), (103, 0), (103, 0)]),
    figures("server_selection_logging", 6, [(6, 5), (6, 5), (6, 5), (6, 5), (6, 5), (11, 0), (11, 0)]),
    figures("sessions", 31, [(31, 3), (31, 3), (31, 3), (31, 3), (31, 3), (34, 0), (34, 0)]),
    figures("srv_seedlist", 64, [(64, 0), (64, 0), (64, 0), (64, 0), (64, 0), (64, 0), (64, 0)]),
    figures("transactions", 173, [(173, 85), (173, 85), (173, 85), (173, 85), (173, 85), (255, 3), (255, 3)]),
    figures("transactions-convenient-api", 29, [(29, 0), (29, 0), (29, 0), (29, 0), (29, 0), (29, 0), (29, 0)]),
    figures("unified-test-format", 351, [(351, 12), (351, 12), (351, 12), (351, 12), (351, 12), (354, 9), (354, 9)]),
    figures("uri_options", 145, [(145, 0), (145, 0), (145, 0), (145, 0), (145, 0), (145, 0), (145, 0)]),
    figures("versioned-api", 39, [(39, 2), (39, 2), (39, 2), (39, 2), (39, 2), (40, 1), (40, 1)]),
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
/// Names the suite and both figures if they differ, or if none are expected of the suite on this target. Names the
/// figure of first tries if more than 5 % of the cases that passed needed a second one.
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

/// Compares the cases that passed on at least one target of real servers with the expected figure.
///
/// # Errors
///
/// Names the suite and both figures if they differ.
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
    use crate::{markdown, report::Failure, suites};

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
        report.second_tries.push(Failure { file, case, why });
        let rare = check(&report, &Target::Embedded).unwrap_err();
        assert_eq!(rare, "handshake on embedded: only 0 of 1 passed at the first try");
    }

    #[test]
    fn every_suite_has_its_line_with_as_many_cases_on_each_target() {
        let lines: Vec<_> = FIGURES.iter().map(|figures| figures.suite).collect();
        let suites: Vec<_> = suites::ALL.iter().map(|suite| suite.name).collect();
        assert_eq!(lines, suites);
        for figures in FIGURES {
            let totals = figures.on.map(|(passed, skipped)| passed + skipped);
            assert_eq!(totals, [figures.total(); Target::ALL.len()], "{}", figures.suite);
        }
    }

    #[test]
    fn a_real_sharded_cluster_passes_no_fewer_cases_than_an_embedded_one() {
        for figures in FIGURES {
            let on = |target| figures.on(&target).unwrap().0;
            let (real, embedded) = (on(Target::Mongod8_2Sharded), on(Target::EmbeddedSharded));
            assert!(real >= embedded, "{}: {real} and {embedded}", figures.suite);
        }
    }

    #[test]
    fn the_table_of_the_document_has_the_expected_figures() {
        let document = include_str!("../../../docs/conformance.md");
        let expected = markdown::figures_table(FIGURES);
        assert!(document.contains(&expected), "docs/conformance.md lacks this table:\n{expected}");
    }
}
