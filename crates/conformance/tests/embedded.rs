//! Runs the unified suites on deployments in this process, and asserts which share of them passes.
#![allow(missing_docs)]

use std::sync::OnceLock;

use conformance::{Context, Ledger, SpecDir, SuiteReport, Target, run, suites};

fn context() -> &'static Context {
    static CONTEXT: OnceLock<Context> = OnceLock::new();
    CONTEXT.get_or_init(|| {
        let dir = testbed::spec_tests().unwrap_or_else(|error| panic!("{error}"));
        let spec = SpecDir::open(dir).unwrap_or_else(|error| panic!("{error}"));
        Context::new(spec, Target::Embedded)
    })
}

/// Runs a suite, of whose cases that can be run at least so many of a hundred must pass.
fn passes(name: &str, share: usize) {
    let suite = suites::find(name).expect("a suite has the name of its module");
    let report = run(&suite, context(), &Ledger::of_this_repository(&Target::Embedded));
    assert!(report.is_ok(), "{}", report.complaints().join("\n"));
    let runnable = report.total() - left_out(&report);
    let passed = report.passed;
    assert!(passed * 100 >= runnable * share, "{passed} of {runnable} pass, not {share} %");
    assert!(passed > 0, "nothing of {name} has run");
}

/// How many cases were skipped for what the driver or the runner leaves out: whatever deployment they
/// are run on, they cannot be. All other skips count against the deployment.
fn left_out(report: &SuiteReport) -> usize {
    const BY_THE_DRIVER: [&str; 6] = [
        "which the driver leaves out",
        "needs client-side encryption",
        "needs OpenTelemetry",
        "which the format has given up",
        "which happens when it is let go of",
        "DRIVERS-",
    ];
    let is_left_out =
        |reason: &str| BY_THE_DRIVER.iter().any(|gap| reason.contains(gap)) && !is_ledgers(reason);
    let skipped = report.skip_reasons.iter().filter(|(reason, _)| is_left_out(reason));
    skipped.map(|(_, count)| count).sum()
}

/// Whether it is a line of the ledger that says so.
fn is_ledgers(reason: &str) -> bool {
    include_str!("../ledger-embedded.toml").contains(&format!("\"{reason}\""))
}

macro_rules! shares {
    ($($name:ident: $share:literal,)*) => {
        $(
            #[test]
            fn $name() {
                passes(stringify!($name), $share);
            }
        )*
    };
}

shares! {
    change_streams: 95,
    client_backpressure: 95,
    collection_management: 50,
    command_logging: 95,
    command_monitoring: 95,
    connection_logging: 95,
    crud: 95,
    gridfs: 95,
    handshake: 95,
    index_management: 95,
    retryable_reads: 95,
    retryable_writes: 95,
    run_command: 90,
    server_selection_logging: 95,
    sessions: 95,
    transactions: 95,
    transactions_convenient_api: 95,
    unified_test_format: 95,
    versioned_api: 95,
}
