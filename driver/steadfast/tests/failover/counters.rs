//! Counters that are incremented through failovers, with their count checked at the end.

use std::sync::Arc;

use testbed::{Options, ReplicaSet};

use crate::{
    bounded,
    increment_load::{Failover, IncrementLoad, RetryPolicy},
    report,
};

/// Step-downs and kills in turn.
fn in_turn(count: usize) -> Vec<Failover> {
    [Failover::StepDown, Failover::Kill].into_iter().cycle().take(count).collect()
}

async fn run_load(operations: usize, failovers: usize, retry_policy: RetryPolicy) -> IncrementLoad {
    let set = Arc::new(ReplicaSet::start(3, Options::new()).unwrap());
    IncrementLoad::over(set, &in_turn(failovers), operations, retry_policy).await
}

/// Acknowledged increments are counted exactly once, those said not to be applied never, and those
/// that may have been applied at most once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_increments_survive_failovers() {
    testbed::require!(V6_0);
    let load = bounded(run_load(20_000, 8, RetryPolicy::Driver)).await;
    report(&format!("increments: {load}"));
    load.audit.assert_clean();
    assert!(load.failed_attempts > 0, "the failovers hit nothing");
    let acknowledged = load.acknowledged();
    let most = acknowledged + load.record.uncertain();
    assert!((acknowledged..=most).contains(&load.counter), "{}", load.counter);
    assert_eq!(load.counter, acknowledged + load.audit.uncertain_applied);
}

/// The same load under the same failovers, with what applications do without retryable writes: on
/// any error, again. That this is found to be wrong shows that the test above can fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_naive_retry_counts_wrong() {
    testbed::require!(V6_0);
    let load = bounded(run_load(20_000, 8, RetryPolicy::Application)).await;
    report(&format!("increments with a naive retry: {load}"));
    assert!(!load.audit.duplicated.is_empty(), "{:?}", load.audit);
    assert!(load.counter > load.acknowledged(), "{}", load.counter);
}

/// Retries leave few errors to look at. Without any, every attempt that a failover hits is an error
/// whose outcome must be right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_of_increments_without_retries_are_right() {
    testbed::require!(V6_0);
    let load = bounded(run_load(6_000, 6, RetryPolicy::None)).await;
    report(&format!("increments that nobody repeats: {load}"));
    load.audit.assert_clean();
    assert!(load.record.failed() > 0, "the failovers hit nothing");
    assert_eq!(load.counter, load.acknowledged() + load.audit.uncertain_applied);
}
