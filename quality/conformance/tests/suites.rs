//! Runs every suite on `mongod` 6.0, a test each.
#![allow(missing_docs)]

use std::{
    env, io,
    panic::resume_unwind,
    sync::{Mutex, OnceLock, PoisonError},
    thread::{self, JoinHandle},
};

use conformance::{Context, Ledger, SpecDir, SuiteReport, Target, figures, run, suites};

fn context() -> &'static Context {
    static CONTEXT: OnceLock<Context> = OnceLock::new();
    CONTEXT.get_or_init(|| {
        let dir = testbed::spec_tests().unwrap_or_else(|error| panic!("{error}"));
        let spec = SpecDir::open(dir).unwrap_or_else(|error| panic!("{error}"));
        Context::new(spec, Target::Mongod6_0)
    })
}

/// The suites that take longest, most of it waiting. Each has a replica set to itself, and begins with the
/// first of the others, so that the time is not the sum of all.
const LONG: [&str; 2] = ["csot", "retryable_reads"];

type Begun = (&'static str, JoinHandle<SuiteReport>);

fn passes(name: &str) {
    static BEGUN_EARLY: OnceLock<Mutex<Vec<Begun>>> = OnceLock::new();
    let early = BEGUN_EARLY.get_or_init(|| {
        let all_are_asked_for = env::args().skip(1).all(|argument| argument.starts_with('-'));
        let long = LONG.into_iter().filter(|_| all_are_asked_for);
        Mutex::new(long.map(|name| (name, thread::spawn(|| report(name)))).collect())
    });
    let begun = {
        let mut early = early.lock().unwrap_or_else(PoisonError::into_inner);
        let place = early.iter().position(|(long, _)| *long == name);
        place.map(|place| early.swap_remove(place).1)
    };
    let report = match begun {
        Some(begun) => begun.join().unwrap_or_else(|panic| resume_unwind(panic)),
        None => report(name),
    };
    if !report.second_tries.is_empty() {
        // Written past the capture of passing tests: the figures of first tries are published.
        report.write(&mut io::stderr()).expect("standard error takes lines");
    }
    assert!(report.is_ok(), "{}", report.complaints().join("\n"));
    // The figures are those of the servers and suites that the tests fetch.
    let other = ["STEADFAST_SPEC_TESTS", "STEADFAST_MONGOD", "STEADFAST_TEST_URI"];
    if other.iter().all(|variable| env::var_os(variable).is_none()) {
        figures::check(&report, &Target::Mongod6_0).unwrap_or_else(|differ| panic!("{differ}"));
    }
}

fn report(name: &str) -> SuiteReport {
    let suite = suites::find(name).expect("a suite has the name of its module");
    let context = context().clone();
    let context = match LONG.iter().position(|long| *long == name) {
        Some(number) => context.apart(number),
        None => context,
    };
    run(&suite, &context, &Ledger::of_this_repository(&context.target))
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
