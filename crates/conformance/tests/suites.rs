//! Runs every suite, a test each.
#![allow(missing_docs)]

use std::sync::OnceLock;

use conformance::{Context, Ledger, SpecDir, Target, run, suites};

fn context() -> &'static Context {
    static CONTEXT: OnceLock<Context> = OnceLock::new();
    CONTEXT.get_or_init(|| {
        let dir = testbed::spec_tests().unwrap_or_else(|error| panic!("{error}"));
        let spec = SpecDir::open(dir).unwrap_or_else(|error| panic!("{error}"));
        Context::new(spec, Target::Mongod)
    })
}

/// The suites that take longest, most of it waiting: they have a replica set to themselves, so that
/// the others can be run at the same time.
const LONG: [&str; 2] = ["csot", "retryable_reads"];

fn passes(name: &str) {
    let suite = suites::find(name).expect("a suite has the name of its module");
    let context = context().clone();
    let context = if LONG.contains(&name) { context.apart() } else { context };
    let report = run(&suite, &context, &Ledger::of_this_repository(&context.target));
    assert!(report.is_ok(), "{}", report.complaints().join("\n"));
    // A suite that the caller has brought may be of another age.
    if std::env::var_os("STEADFAST_SPEC_TESTS").is_none() {
        let published = PUBLISHED.iter().find(|(suite, _)| *suite == name).map_or(1, |p| p.1);
        assert!(report.total() >= published, "only {} of {published} cases ran", report.total());
    }
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
