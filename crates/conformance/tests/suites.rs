//! Runs every suite, a test each.
#![allow(missing_docs)]

use std::{
    env,
    panic::resume_unwind,
    sync::{Mutex, OnceLock, PoisonError},
    thread::{self, JoinHandle},
};

use conformance::{Context, Ledger, SpecDir, SuiteReport, Target, run, suites};

fn context() -> &'static Context {
    static CONTEXT: OnceLock<Context> = OnceLock::new();
    CONTEXT.get_or_init(|| {
        let dir = testbed::spec_tests().unwrap_or_else(|error| panic!("{error}"));
        let spec = SpecDir::open(dir).unwrap_or_else(|error| panic!("{error}"));
        Context::new(spec, Target::Mongod)
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
    assert!(report.is_ok(), "{}", report.complaints().join("\n"));
    // A suite that the caller has brought may be of another age.
    if env::var_os("STEADFAST_SPEC_TESTS").is_none() {
        let published = PUBLISHED.iter().find(|(suite, _)| *suite == name).map_or(1, |p| p.1);
        assert!(report.total() >= published, "only {} of {published} cases ran", report.total());
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

/// How many cases there are in PyMongo 4.19.0, so that none gets lost in loading.
const PUBLISHED: &[(&str, usize)] = &[
    ("auth", 64),
    ("change_streams", 89),
    ("client_backpressure", 103),
    ("collection_management", 7),
    ("command_logging", 30),
    ("command_monitoring", 35),
    ("connection_logging", 7),
    ("connection_monitoring", 32),
    ("connection_string", 98),
    ("crud", 437),
    ("csot", 433),
    ("discovery_and_monitoring", 223),
    ("gridfs", 45),
    ("handshake", 1),
    ("index_management", 15),
    ("max_staleness", 32),
    ("read_write_concern", 38),
    ("retryable_reads", 380),
    ("retryable_writes", 142),
    ("run_command", 21),
    ("sdam_monitoring", 8),
    ("server_selection", 103),
    ("server_selection_logging", 11),
    ("sessions", 34),
    ("srv_seedlist", 64),
    ("transactions", 258),
    ("transactions_convenient_api", 29),
    ("unified_test_format", 363),
    ("uri_options", 145),
    ("versioned_api", 41),
];

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
