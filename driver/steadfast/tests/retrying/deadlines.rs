//! With `timeoutMS`, retryable errors are retried until the command succeeds or the deadline passes.

use std::{pin::pin, time::Duration};

use super::*;

/// Time-out that no test reaches.
const LONG_TIMEOUT: &str = "timeoutMS=600000";

#[tokio::test]
async fn with_a_timeout_a_write_is_retried_until_it_succeeds_and_applied_once() {
    with_each(retryable_writes(), async |write| {
        for options in [LONG_TIMEOUT, "timeoutMS=0"] {
            let faults = [Fault::LostReply, Fault::LostRequest, Fault::LostReply, Fault::LostReply];
            let (deployment, observed, result) = run_with(&write, options, &faults).await;
            result.unwrap_or_else(|error| panic!("{}: {error}", write.name));
            let applied = deployment.applied();
            assert!(applied.values().all(|times| *times == 1), "{}: {applied:?}", write.name);
            let numbers = observed.numbers(write.command);
            assert!(numbers.len() >= 5, "{}: {numbers:?}", write.name);
            assert!(numbers[..5].iter().all(|number| *number == numbers[0]), "{}", write.name);
        }
    })
    .await;
}

#[tokio::test]
async fn with_a_timeout_a_read_is_retried_until_it_succeeds() {
    with_each(reads(), async |read| {
        let faults = [Fault::LostReply; 4];
        let (_deployment, _watched, result) = run_with(&read, LONG_TIMEOUT, &faults).await;
        result.unwrap_or_else(|error| panic!("{}: {error}", read.name));
    })
    .await;
}

#[tokio::test]
async fn with_a_timeout_other_writes_are_not_retried() {
    with_each(other_writes(), async |write| {
        let (deployment, _, result) = run_with(&write, LONG_TIMEOUT, &[Fault::LostReply]).await;
        let error = result.expect_err(write.name);
        assert!(!error.is_timeout(), "{}: {error}", write.name);
        assert_eq!(deployment.requests(write.command).len(), 1, "{}", write.name);
    })
    .await;
}

#[tokio::test]
async fn a_timeout_during_a_retry_has_the_outcome_of_all_attempts() {
    let deployment = Deployment::primary();
    deployment
        .inject(&[Fault::CommandError(HOST_UNREACHABLE, NO_WRITES_PERFORMED), Fault::NoReply]);
    let clock = Clock::stopped();
    let observed = ObservedClient::new(&deployment, "").await;
    let limit = Duration::from_millis(300);
    let insert = observed.books.insert_one(doc! { "_id": 1 }).timeout(limit);
    let (ended, ()) =
        tokio::join!(bounded(insert), deployment.expire_without_reply(&clock, "insert", 2, limit));
    let error = ended.expect_err("the second attempt is not answered");
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
    assert_eq!(error.attempts().len(), 2);
    assert_eq!(deployment.applied().len(), 1);
}

#[tokio::test]
async fn retries_until_the_deadline_back_off() {
    const EXCEEDED_TIME_LIMIT: i32 = 262;
    let deployment = Deployment::primary();
    deployment.inject(&vec![Fault::CommandError(EXCEEDED_TIME_LIMIT, RETRYABLE); 100_000]);
    let clock = Clock::stopped();
    let observed = ObservedClient::new(&deployment, "").await;
    let limit = Duration::from_secs(10);
    let insert = observed.books.insert_one(doc! { "_id": 1 }).timeout(limit);
    let mut insert = pin!(insert.into_future());
    let error = loop {
        tokio::select! {
            ended = &mut insert => break ended.unwrap_err(),
            () = clock.pass(Duration::from_millis(5)) => {}
        }
    };
    let sent = deployment.requests("insert").len();
    // 10, 20, 40 ms … 1 s, with an average jitter of one half.
    assert!((8..60).contains(&sent), "{sent} attempts in {limit:?}");
    assert_eq!(error.attempt_count(), sent);
    assert!(error.attempts().len() <= 20, "{} attempts are kept", error.attempts().len());
    assert!(error.attempts().iter().skip(2).all(|it| it.backoff <= Duration::from_secs(1)));
}
