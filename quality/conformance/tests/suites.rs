//! Runs every suite on `mongod` 6.0, a test each.
#![allow(missing_docs)]

mod common;

use std::{
    env,
    panic::resume_unwind,
    sync::{Mutex, OnceLock, PoisonError},
    thread::{self, JoinHandle},
};

use conformance::{Context, Ledger, SuiteReport, Target, run, suites};

/// Suites that need no servers.
const WITHOUT_SERVERS: [&str; 9] = [
    "auth",
    "connection_monitoring",
    "connection_string",
    "discovery_and_monitoring",
    "max_staleness",
    "sdam_monitoring",
    "server_selection",
    "srv_seedlist",
    "uri_options",
];

/// Longest suites. Each runs on its own replica set, concurrently with the others.
const LONG: [&str; 2] = ["csot", "retryable_reads"];

type StartedSuite = (&'static str, JoinHandle<SuiteReport>);

fn passes(name: &str) {
    static STARTED_EARLY: OnceLock<Mutex<Vec<StartedSuite>>> = OnceLock::new();
    testbed::require!(testbed::spec_tests());
    if !WITHOUT_SERVERS.contains(&name) {
        testbed::require!(testbed::shared::servers());
    }
    let early = STARTED_EARLY.get_or_init(|| {
        let runs_all_tests = env::args().skip(1).all(|argument| argument.starts_with('-'));
        let long = LONG.into_iter().filter(|_| runs_all_tests);
        Mutex::new(long.map(|name| (name, thread::spawn(|| report(name)))).collect())
    });
    let started = {
        let mut early = early.lock().unwrap_or_else(PoisonError::into_inner);
        let place = early.iter().position(|(long, _)| *long == name);
        place.map(|place| early.swap_remove(place).1)
    };
    let report = match started {
        Some(started) => started.join().unwrap_or_else(|panic| resume_unwind(panic)),
        None => report(name),
    };
    let variables = ["STEADFAST_SPEC_TESTS", "STEADFAST_MONGOD", "STEADFAST_TEST_URI"];
    common::check(&report, &Target::Mongod6_0, &variables);
}

fn report(name: &str) -> SuiteReport {
    let suite = suites::find(name).expect("a suite has the name of its module");
    static CONTEXT: OnceLock<Context> = OnceLock::new();
    let context = CONTEXT.get_or_init(|| common::context(&Target::Mongod6_0)).clone();
    let context = match LONG.iter().position(|long| *long == name) {
        Some(number) => context.unshared(number),
        None => context,
    };
    run(&suite, &context, &Ledger::of_this_repository(&context.target))
}

conformance::for_each_suite!(test_each_suite);
