//! With a time limit, what may be tried again is tried until it succeeds or the time is over.

use std::{pin::pin, time::Duration};

use super::*;

/// Longer than any test takes.
const LATER: &str = "timeoutMS=600000";

#[tokio::test]
async fn a_write_is_tried_until_it_succeeds_and_applied_once() {
    with_each(retryable_writes(), async |write| {
        for options in [LATER, "timeoutMS=0"] {
            let faults = [Fault::LostReply, Fault::LostRequest, Fault::LostReply, Fault::LostReply];
            let (deployment, watched, result) = run_with(&write, options, &faults).await;
            result.unwrap_or_else(|error| panic!("{}: {error}", write.name));
            let applied = deployment.applied();
            assert!(applied.values().all(|times| *times == 1), "{}: {applied:?}", write.name);
            let numbers = watched.numbers(write.command);
            assert!(numbers.len() >= 5, "{}: {numbers:?}", write.name);
            assert!(numbers[..5].iter().all(|number| *number == numbers[0]), "{}", write.name);
        }
    })
    .await;
}

#[tokio::test]
async fn a_read_is_tried_until_it_succeeds() {
    with_each(reads(), async |read| {
        let faults = [Fault::LostReply; 4];
        let (_deployment, _watched, result) = run_with(&read, LATER, &faults).await;
        result.unwrap_or_else(|error| panic!("{}: {error}", read.name));
    })
    .await;
}

#[tokio::test]
async fn what_may_not_be_tried_again_is_not_for_all_the_time_in_the_world() {
    with_each(other_writes(), async |write| {
        let (deployment, _, result) = run_with(&write, LATER, &[Fault::LostReply]).await;
        let error = result.expect_err(write.name);
        assert!(!error.is_timeout(), "{}: {error}", write.name);
        assert_eq!(deployment.requests(write.command).len(), 1, "{}", write.name);
    })
    .await;
}

#[tokio::test]
async fn when_the_time_is_over_the_last_error_and_what_became_of_the_write_are_told() {
    let deployment = Deployment::primary();
    deployment.suffer(&[Fault::Refused(HOST_UNREACHABLE, WROTE_NOTHING), Fault::Silence]);
    let clock = Clock::stopped();
    let watched = Watched::new(&deployment, "").await;
    let limit = Duration::from_millis(300);
    let insert = watched.books.insert_one(doc! { "_id": 1 }).timeout(limit);
    let (ended, ()) = tokio::join!(bounded(insert), deployment.silent(&clock, "insert", 2, limit));
    let error = ended.expect_err("the second attempt is not answered");
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
    assert_eq!(error.attempts().len(), 2);
    assert_eq!(deployment.applied().len(), 1);
}

#[tokio::test]
async fn a_server_that_keeps_failing_is_not_sent_a_storm_of_retries() {
    const EXCEEDED_TIME_LIMIT: i32 = 262;
    let deployment = Deployment::primary();
    deployment.suffer(&vec![Fault::Refused(EXCEEDED_TIME_LIMIT, RETRYABLE); 100_000]);
    let clock = Clock::stopped();
    let watched = Watched::new(&deployment, "").await;
    let limit = Duration::from_secs(10);
    let insert = watched.books.insert_one(doc! { "_id": 1 }).timeout(limit);
    let mut insert = pin!(insert.into_future());
    let error = loop {
        tokio::select! {
            ended = &mut insert => break ended.unwrap_err(),
            () = clock.pass(Duration::from_millis(5)) => {}
        }
    };
    let sent = deployment.requests("insert").len();
    // 10, 20, 40 ms … 1 s, each half as long on average.
    assert!((8..60).contains(&sent), "{sent} attempts in {limit:?}");
    assert_eq!(error.attempt_count(), sent);
    assert!(error.attempts().len() <= 20, "{} attempts are kept", error.attempts().len());
    assert!(error.attempts().iter().skip(2).all(|it| it.backoff <= Duration::from_secs(1)));
}
