//! Counters that are incremented through failovers, with their count checked at the end.

use std::sync::Arc;

use testbed::{Options, ReplicaSet};

use crate::{
    bounded, report,
    storm::{Failover, Retrying, Storm},
};

/// Step-downs and kills in turn.
fn in_turn(count: usize) -> Vec<Failover> {
    [Failover::StepDown, Failover::Kill].into_iter().cycle().take(count).collect()
}

async fn storm(operations: usize, failovers: usize, retrying: Retrying) -> Storm {
    let set = Arc::new(ReplicaSet::start(3, Options::new()).unwrap());
    Storm::over(set, &in_turn(failovers), operations, retrying).await
}

/// Acknowledged increments are counted exactly once, those said not to be applied never, and those
/// that may have been applied at most once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_increments_survive_failovers() {
    testbed::require!(V6_0);
    let storm = bounded(storm(20_000, 8, Retrying::ByTheDriver)).await;
    report(&format!("increments: {storm}"));
    storm.audit.assert_clean();
    assert!(storm.failed_attempts > 0, "the failovers hit nothing");
    let acknowledged = storm.acknowledged();
    let most = acknowledged + storm.books.doubtful();
    assert!((acknowledged..=most).contains(&storm.counter), "{}", storm.counter);
    assert_eq!(storm.counter, acknowledged + storm.audit.doubtful_applied);
}

/// The same load under the same failovers, with what applications do without retryable writes: on
/// any error, again. That this is found to be wrong shows that the test above can fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_naive_retry_counts_wrong() {
    testbed::require!(V6_0);
    let storm = bounded(storm(20_000, 8, Retrying::Naively)).await;
    report(&format!("increments with a naive retry: {storm}"));
    assert!(!storm.audit.duplicated.is_empty(), "{:?}", storm.audit);
    assert!(storm.counter > storm.acknowledged(), "{}", storm.counter);
}

/// Retries leave few errors to look at. Without any, every attempt that a failover hits is an error
/// whose outcome must be right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_say_what_became_of_increments_that_nobody_repeats() {
    testbed::require!(V6_0);
    let storm = bounded(storm(6_000, 6, Retrying::Never)).await;
    report(&format!("increments that nobody repeats: {storm}"));
    storm.audit.assert_clean();
    assert!(storm.books.failed() > 0, "the failovers hit nothing");
    assert_eq!(storm.counter, storm.acknowledged() + storm.audit.doubtful_applied);
}
