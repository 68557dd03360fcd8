//! The table of "How To Write Resilient MongoDB Applications", measured: each strategy in each
//! situation, before the embedded deployment and before a real replica set.

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

/// Only a hang takes as long.
const BOUND: Duration = Duration::from_secs(900);
const GUIDE: &str = include_str!("../../../../docs/resilience.md");

/// What is to come out, in the order of [`Situation::ALL`].
fn expected(strategy: Strategy) -> [Verdict; 5] {
    match strategy {
        Strategy::DontRetry => [UnderCounts, Correct, UnderCounts, Correct, Correct],
        Strategy::AlwaysRetry { .. } => [Correct, OverCounts, Correct, WastesTime, WastesTime],
        Strategy::RetryNetworkErrorsOnce => [Correct, OverCounts, Correct, Correct, Correct],
        Strategy::RetryIdempotent | Strategy::RetryableWrites => [Correct; 5],
        other => panic!("the table has no row for {other}"),
    }
}

/// The article's own squares: a transient network error, an outage, a command error. Whether a
/// transient error came before or after execution it does not tell apart: there, the worse of the two
/// is what *may* happen.
fn of_the_article(strategy: Strategy) -> Option<[Verdict; 3]> {
    match strategy {
        Strategy::DontRetry => Some([UnderCounts, Correct, Correct]),
        Strategy::AlwaysRetry { .. } => Some([OverCounts, WastesTime, WastesTime]),
        Strategy::RetryNetworkErrorsOnce => Some([OverCounts, Correct, Correct]),
        Strategy::RetryIdempotent => Some([Correct; 3]),
        // It is from 2016, and they came in 2017.
        _ => None,
    }
}

#[tokio::test]
async fn the_strategies_do_what_the_table_says_on_the_embedded_deployment() {
    let set = Deployment::replica_set(3).start();
    holds("the embedded deployment", set.uri()).await;
}

#[tokio::test]
async fn the_strategies_do_what_the_table_says_on_a_real_replica_set() {
    testbed::require!(V6_0);
    // Its own: the primary steps down.
    let set = testbed::ReplicaSet::start(3, testbed::Options::new()).expect("a replica set");
    holds("a real replica set", set.uri()).await;
}

/// Measures the table, and holds it against what is expected, against the article, and against the
/// guide.
async fn holds(deployment: &str, uri: String) {
    let table = tokio::time::timeout(BOUND, measured(&uri)).await.expect("it ends in time");
    report(&format!("\n{deployment}:\n\n{table}\n{}", table.times()));
    table.cells().for_each(Cell::assert_plausible);
    for strategy in Strategy::ALL {
        let found = Situation::ALL.map(|situation| table.cell(strategy, situation).verdict());
        assert_eq!(found, expected(strategy), "{strategy} on {deployment}\n{table}");
        let [before, after, _, outage, refusal] = found;
        let transient = if before == Correct { after } else { before };
        if let Some(squares) = of_the_article(strategy) {
            assert_eq!([transient, outage, refusal], squares, "{strategy} on {deployment}");
        }
    }
    assert!(
        GUIDE.contains(&table.to_string()),
        "docs/resilience.md has another table than this, measured on {deployment}; if this one is \
         right, it belongs there:\n\n{table}"
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

/// For whoever reads the output (`--nocapture`).
#[allow(clippy::print_stderr)]
fn report(text: &str) {
    eprintln!("{text}");
}
