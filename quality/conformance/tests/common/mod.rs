//! Functions that the tests of all targets share.

use std::{env, io};

use conformance::{Context, SpecDir, SuiteReport, Target, figures};

/// Opens the folder of the suites for runs on this target.
pub(crate) fn context(target: &Target) -> Context {
    let dir = testbed::spec_tests().unwrap_or_else(|error| panic!("{error}"));
    let spec = SpecDir::open(dir).unwrap_or_else(|error| panic!("{error}"));
    Context::new(spec, target.clone())
}

/// Asserts that a suite has passed on this target with the expected figures. These apply to the fetched servers and suites
/// only, not to those of the environment variables.
pub(crate) fn check(report: &SuiteReport, target: &Target, variables: &[&str]) {
    if !report.second_tries.is_empty() {
        // Standard error is not captured, so that second tries are visible although the test passes.
        report.write(&mut io::stderr()).expect("the standard error can be written to");
    }
    assert!(report.is_ok(), "{}", report.complaints().join("\n"));
    if variables.iter().all(|variable| env::var_os(variable).is_none()) {
        figures::check(report, target).unwrap_or_else(|differ| panic!("{differ}"));
    }
}

/// Declares a test for each suite, which calls `passes` with its name.
#[macro_export]
macro_rules! test_each_suite {
    ($($name:ident,)*) => {
        $(
            #[test]
            fn $name() {
                passes(stringify!($name));
            }
        )*
    };
}
