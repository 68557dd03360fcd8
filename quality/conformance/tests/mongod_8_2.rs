//! Runs some suites on MongoDB 8.2, on a replica set and on a sharded cluster, a test each.
//!
//! `cargo run --release -p conformance -- --target all` runs the other suites and targets.
#![allow(missing_docs)]

mod common;

use std::{
    collections::BTreeMap,
    env,
    sync::{
        Mutex, OnceLock, PoisonError,
        mpsc::{self, Receiver},
    },
    thread,
};

use conformance::{Ledger, SuiteReport, Target, run, suites};

macro_rules! chosen_suites {
    ($each:ident) => {
        $each! {
            client_backpressure,
            crud,
            retryable_reads,
            retryable_writes,
            sessions,
            transactions,
            transactions_convenient_api,
        }
    };
}

macro_rules! names {
    ($($name:ident,)*) => {
        const CHOSEN: &[&str] = &[$(stringify!($name),)*];
    };
}
chosen_suites!(names);

/// Longest suite on a sharded cluster. It runs on its own cluster, concurrently with the others.
const LONGEST: &str = "retryable_reads";

/// Suites that run one after the other, on a target.
struct Queue {
    target: Target,
    suites: Vec<&'static str>,
    has_own_cluster: bool,
}

type Reports = BTreeMap<(&'static str, &'static str), Receiver<SuiteReport>>;

/// Starts all queues at once, because the test harness starts tests in the order of their names.
fn start_queues() -> Mutex<Reports> {
    let others = CHOSEN.iter().copied().filter(|&name| name != LONGEST).collect();
    let queues = [
        Queue { target: Target::Mongod8_2, suites: CHOSEN.to_vec(), has_own_cluster: false },
        Queue { target: Target::Mongod8_2Sharded, suites: others, has_own_cluster: false },
        Queue { target: Target::Mongod8_2Sharded, suites: vec![LONGEST], has_own_cluster: true },
    ];
    let mut reports = Reports::new();
    for Queue { target, suites, has_own_cluster } in queues {
        let (senders, receivers): (Vec<_>, Vec<_>) = suites.iter().map(|_| mpsc::channel()).unzip();
        let keys = suites.iter().map(|&name| (target.name(), name));
        reports.extend(keys.zip(receivers));
        thread::spawn(move || {
            for (name, sender) in suites.into_iter().zip(senders) {
                // A failed test has dropped its receiver.
                let _ = sender.send(report(&target, name, has_own_cluster));
            }
        });
    }
    Mutex::new(reports)
}

fn report(target: &Target, name: &str, has_own_cluster: bool) -> SuiteReport {
    let context = common::context(target);
    let context = if has_own_cluster { context.unshared(0) } else { context };
    let suite = suites::find(name).expect("a suite has the name of its module");
    run(&suite, &context, &Ledger::of_this_repository(target))
}

fn passes(target: &Target, name: &'static str) {
    static QUEUED: OnceLock<Mutex<Reports>> = OnceLock::new();
    testbed::require!(V8_2);
    testbed::require!(testbed::spec_tests());
    let runs_all_tests = env::args().skip(1).all(|argument| argument.starts_with('-'));
    let report = if runs_all_tests {
        let queued = QUEUED.get_or_init(start_queues);
        let receiver =
            queued.lock().unwrap_or_else(PoisonError::into_inner).remove(&(target.name(), name));
        receiver.expect("each test has its suite").recv().expect("the queue has not panicked")
    } else {
        report(target, name, false)
    };
    let variables = ["STEADFAST_SPEC_TESTS", "STEADFAST_MONGOD_8_2", "STEADFAST_MONGOS_8_2"];
    common::check(&report, target, &variables);
}

macro_rules! replica_set_tests {
    ($($name:ident,)*) => {
        mod replica_set {
            $(
                #[test]
                fn $name() {
                    super::passes(&super::Target::Mongod8_2, stringify!($name));
                }
            )*
        }
    };
}
chosen_suites!(replica_set_tests);

macro_rules! sharded_tests {
    ($($name:ident,)*) => {
        mod sharded {
            $(
                #[test]
                fn $name() {
                    super::passes(&super::Target::Mongod8_2Sharded, stringify!($name));
                }
            )*
        }
    };
}
chosen_suites!(sharded_tests);
