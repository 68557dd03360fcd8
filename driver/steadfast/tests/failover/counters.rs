//! Counters that are incremented during failovers, with their sum checked at the end.

use std::sync::Arc;

use testbed::{Options, ReplicaSet};

use crate::{
    bounded,
    increment_load::{Failover, IncrementLoad, RetryPolicy},
    report,
};

/// Step-downs and kills, alternating.
fn alternating(count: usize) -> Vec<Failover> {
    [Failover::StepDown, Failover::Kill].into_iter().cycle().take(count).collect()
}

async fn run_load(operations: usize, failovers: usize, retry_policy: RetryPolicy) -> IncrementLoad {
    let set = Arc::new(ReplicaSet::start(3, Options::new()).unwrap());
    IncrementLoad::over(set, &alternating(failovers), operations, retry_policy).await
}

/// An acknowledged increment is applied exactly once, one with the outcome `NotApplied` never, and one with
/// `MaybeApplied` at most once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_increments_survive_failovers() {
    testbed::require!(V6_0);
    let load = bounded(run_load(20_000, 8, RetryPolicy::Driver)).await;
    report(&format!("increments: {load}"));
    load.audit.assert_clean();
    assert!(load.failed_attempts > 0, "no failover interrupted an attempt");
    let acknowledged = load.acknowledged();
    let most = acknowledged + load.record.uncertain();
    assert!((acknowledged..=most).contains(&load.counter), "{}", load.counter);
    assert_eq!(load.counter, acknowledged + load.audit.uncertain_applied);
}

/// The same load and failovers without retryable writes, where the application retries after any error. The wrong
/// count shows that the test above can fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn naive_retry_counts_too_many_increments() {
    testbed::require!(V6_0);
    let load = bounded(run_load(20_000, 8, RetryPolicy::Application)).await;
    report(&format!("increments with a naive retry: {load}"));
    assert!(!load.audit.duplicated.is_empty(), "{:?}", load.audit);
    assert!(load.counter > load.acknowledged(), "{}", load.counter);
}

/// With retries, few errors are raised. Without them, every attempt that a failover interrupts is an error whose
/// outcome must be correct.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_of_increments_without_retries_are_correct() {
    testbed::require!(V6_0);
    let load = bounded(run_load(6_000, 6, RetryPolicy::None)).await;
    report(&format!("increments without retries: {load}"));
    load.audit.assert_clean();
    assert!(load.record.failed() > 0, "no failover interrupted an attempt");
    assert_eq!(load.counter, load.acknowledged() + load.audit.uncertain_applied);
}
