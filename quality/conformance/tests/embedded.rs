//! Runs every suite on deployments in this process, a test each.
#![allow(missing_docs)]

use std::{env, io, sync::OnceLock};

use conformance::{Context, Ledger, SpecDir, Target, figures, run, suites};

fn context() -> &'static Context {
    static CONTEXT: OnceLock<Context> = OnceLock::new();
    CONTEXT.get_or_init(|| {
        let dir = testbed::spec_tests().unwrap_or_else(|error| panic!("{error}"));
        let spec = SpecDir::open(dir).unwrap_or_else(|error| panic!("{error}"));
        Context::new(spec, Target::Embedded)
    })
}

fn passes(name: &str) {
    let suite = suites::find(name).expect("a suite has the name of its module");
    let report = run(&suite, context(), &Ledger::of_this_repository(&Target::Embedded));
    if !report.second_tries.is_empty() {
        // Written past the capture of passing tests: the figures of first tries are published.
        report.write(&mut io::stderr()).expect("standard error takes lines");
    }
    assert!(report.is_ok(), "{}", report.complaints().join("\n"));
    // The figures are those of the suites that the tests fetch.
    if env::var_os("STEADFAST_SPEC_TESTS").is_none() {
        figures::check(&report, &Target::Embedded).unwrap_or_else(|differ| panic!("{differ}"));
    }
}

macro_rules! a_test_each {
    ($($name:ident,)*) => {
        $(
            #[test]
            fn $name() {
                passes(stringify!($name));
            }
        )*
    };
}
conformance::for_each_suite!(a_test_each);
