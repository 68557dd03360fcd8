//! Measures the table of "How To Write Resilient MongoDB Applications": each strategy in each situation, on the
//! embedded deployment and on a real replica set.

mod experiment;
mod situation;
mod table;
mod waits;

use std::time::Duration;

use steadfast_chaos::strategy::Strategy;
use steadfast_embedded::Deployment;

use self::{
    experiment::{Cell, Verdict, measure},
    situation::Situation,
    table::Table,
};
use Verdict::{Correct, OverCounts, UnderCounts, WastesTime};

/// Time-out of all measurements.
const TABLE_TIMEOUT: Duration = Duration::from_secs(900);
const GUIDE: &str = include_str!("../../../../docs/resilience.md");

/// Returns the expected verdicts in the order of [`Situation::ALL`].
fn expected(strategy: Strategy) -> [Verdict; 5] {
    match strategy {
        Strategy::DontRetry => [UnderCounts, Correct, UnderCounts, Correct, Correct],
        Strategy::AlwaysRetry { .. } => [Correct, OverCounts, Correct, WastesTime, WastesTime],
        Strategy::RetryNetworkErrorsOnce => [Correct, OverCounts, Correct, Correct, Correct],
        Strategy::RetryIdempotent | Strategy::RetryableWrites => [Correct; 5],
        other => panic!("the table has no row for {other}"),
    }
}

/// Returns the verdicts of the article on a transient network error, an outage and a command error. The article does
/// not distinguish lost requests and lost replies: its verdict is the worse one.
fn article(strategy: Strategy) -> Option<[Verdict; 3]> {
    match strategy {
        Strategy::DontRetry => Some([UnderCounts, Correct, Correct]),
        Strategy::AlwaysRetry { .. } => Some([OverCounts, WastesTime, WastesTime]),
        Strategy::RetryNetworkErrorsOnce => Some([OverCounts, Correct, Correct]),
        Strategy::RetryIdempotent => Some([Correct; 3]),
        // The article is older than retryable writes.
        _ => None,
    }
}

#[tokio::test]
async fn table_is_correct_on_the_embedded_deployment() {
    let set = Deployment::replica_set(3).start();
    check_table("the embedded deployment", set.uri()).await;
}

#[tokio::test]
async fn table_is_correct_on_a_real_replica_set() {
    testbed::require!(V6_0);
    // Not shared, because its primary steps down.
    let set = testbed::ReplicaSet::start(3, testbed::Options::new()).expect("a replica set");
    check_table("a real replica set", set.uri()).await;
}

/// Measures the table and compares it with the expectation, the article and the guide.
async fn check_table(deployment: &str, uri: String) {
    let table = tokio::time::timeout(TABLE_TIMEOUT, measured(&uri)).await.expect("no time-out");
    report(&format!("\n{deployment}:\n\n{table}\n{}", table.times()));
    table.cells().for_each(Cell::assert_plausible);
    for strategy in Strategy::ALL {
        let found = Situation::ALL.map(|situation| table.cell(strategy, situation).verdict());
        assert_eq!(found, expected(strategy), "{strategy} on {deployment}\n{table}");
        let [before, after, _, outage, command_error] = found;
        let transient = if before == Correct { after } else { before };
        if let Some(verdicts) = article(strategy) {
            assert_eq!([transient, outage, command_error], verdicts, "{strategy} on {deployment}");
        }
    }
    assert!(
        GUIDE.contains(&table.to_string()),
        "docs/resilience.md does not contain this table, measured on {deployment}; if it is correct, copy it:\n\n{table}"
    );
}

async fn measured(uri: &str) -> Table {
    let mut table = Table::default();
    for strategy in Strategy::ALL {
        for situation in Situation::ALL {
            table.add(measure(uri, strategy, situation).await);
        }
    }
    table
}

/// Prints to the output of the test (`--nocapture`).
#[allow(clippy::print_stderr)]
fn report(text: &str) {
    eprintln!("{text}");
}
