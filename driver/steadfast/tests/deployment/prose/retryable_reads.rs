//! Prose tests of retryable reads.
//!
//! 2.1 and 2.2 require mongos and are in `mongos`.

use steadfast::options::{ReadPreference, SelectionCriteria};

use super::*;

#[tokio::test]
async fn prose_1_a_read_is_retried_when_the_pool_is_cleared_during_checkout() {
    testbed::require!(V6_0);
    let app_name = "retryable reads, prose 1";
    let observed = ProseClient::new(app_name, |options| {
        options.max_pool_size = Some(1);
        options.retry_reads = Some(true);
    })
    .await;
    let data = doc! {
        "failCommands": ["find"], "errorCode": 91, "blockConnection": true, "blockTimeMS": 1_000,
    };
    let _point = FailPoint::on_primary(1, data, app_name).await;
    let numbers = observed.collection("reads_prose_1");
    let find = || numbers.find_one(doc! {}).into_future();
    check_cleared_pool(&observed, "find", async { tokio::join!(find(), find()).into() }).await;
}

/// Runs a read that an overloaded primary rejects. Returns the servers of the successful and of the failed attempt,
/// and the primary.
async fn after_overload(
    app_name: &'static str,
    retargeting: bool,
) -> (Vec<ServerAddress>, Vec<ServerAddress>, ServerAddress) {
    let observed = ProseClient::new(app_name, |options| {
        let preference = ReadPreference::primary_preferred(None);
        options.selection_criteria = Some(SelectionCriteria::from(preference));
        options.retry_reads = Some(true);
        options.enable_overload_retargeting = Some(retargeting);
    })
    .await;
    // Waits until a secondary is discovered.
    let secondary = SelectionCriteria::from(ReadPreference::secondary(None));
    let ping = doc! { "ping": 1 };
    observed
        .client
        .database("admin")
        .run_command(ping)
        .selection_criteria(secondary)
        .await
        .unwrap();
    let data = doc! {
        "failCommands": ["find"], "errorCode": 6,
        "errorLabels": ["RetryableError", "SystemOverloadedError"],
    };
    let point = FailPoint::on_primary(1, data, app_name).await;
    bounded(observed.collection("reads_prose_3").find_one(doc! {})).await.unwrap();
    let (succeeded, failed) = observed.ends("find");
    (succeeded, failed, address(point.members[0]))
}

#[tokio::test]
async fn prose_3_1_an_overload_error_retargets_the_retry() {
    testbed::require!(V6_0);
    let (succeeded, failed, primary) = after_overload("retryable reads, prose 3.1", true).await;
    assert_eq!((failed, succeeded.len()), (vec![primary.clone()], 1));
    assert_ne!(succeeded, [primary]);
}

#[tokio::test]
async fn prose_3_2_an_error_without_overload_does_not_retarget_the_retry() {
    testbed::require!(V6_0);
    let app_name = "retryable reads, prose 3.2";
    let observed = ProseClient::new(app_name, |options| {
        let preference = ReadPreference::primary_preferred(None);
        options.selection_criteria = Some(SelectionCriteria::from(preference));
        options.retry_reads = Some(true);
    })
    .await;
    let data = doc! { "failCommands": ["find"], "errorCode": 6, "errorLabels": ["RetryableError"] };
    let point = FailPoint::on_primary(1, data, app_name).await;
    bounded(observed.collection("reads_prose_3").find_one(doc! {})).await.unwrap();
    let primary = vec![address(point.members[0])];
    assert_eq!(observed.ends("find"), (primary.clone(), primary));
}

#[tokio::test]
async fn prose_3_3_overload_retargeting_can_be_disabled() {
    testbed::require!(V6_0);
    let (succeeded, failed, primary) = after_overload("retryable reads, prose 3.3", false).await;
    assert_eq!((failed, succeeded), (vec![primary.clone()], vec![primary]));
}

#[tokio::test]
async fn prose_4_and_5_an_overload_error_sets_the_retry_limit_but_only_its_own_backoff() {
    testbed::require!(V6_0);
    let app_name = "retryable reads, prose 4 and 5";
    let data =
        |labels: &[&str]| doc! { "failCommands": ["find"], "errorCode": 91, "errorLabels": labels };
    let overloaded = data(&["RetryableError", "SystemOverloadedError"]);
    let point = FailPoint::on_primary(1, overloaded, app_name).await;
    let observed = with_two_fail_points(&point, "find", data(&["RetryableError"]), |options| {
        options.max_adaptive_retries = Some(2);
        options.enable_overload_retargeting = Some(false);
    })
    .await;
    let error = bounded(observed.collection("reads_prose_4").find_one(doc! {})).await.unwrap_err();
    assert_eq!(observed.started("find"), 3, "{error:?}");
    let waited: Vec<bool> =
        error.attempts().iter().map(|attempt| !attempt.backoff.is_zero()).collect();
    assert_eq!(waited, [false, true, false], "{error:?}");
}
