//! Prose tests of client backpressure.
//!
//! Their jitter cannot be set from outside: the tests of the retry state machine check the backoff for each jitter,
//! and these tests check that the driver waits for it. By default the driver retries five times, as the
//! specification first required, not twice. Omitted: 5, which requires MongoDB 9.0 (the tests of retrying use
//! scripted servers).

use std::time::{Duration, Instant};

use super::*;

const OVERLOADED: [&str; 2] = ["RetryableError", "SystemOverloadedError"];

/// Runs a read that an overloaded primary rejects always, on a client with this `maxAdaptiveRetries`. Returns the
/// error and the number of attempts.
async fn rejected_read(app_name: &'static str, retries: Option<u32>) -> (Error, usize) {
    let data = doc! { "failCommands": ["find"], "errorCode": 462, "errorLabels": &OVERLOADED[..] };
    let _point = FailPoint::on_primary(ALWAYS, data, app_name).await;
    let observed =
        ProseClient::new(app_name, |options| options.max_adaptive_retries = retries).await;
    let error = bounded(observed.collection("overload").find_one(doc! {})).await.unwrap_err();
    for label in OVERLOADED {
        assert!(error.contains_label(label), "{error:?}");
    }
    (error, observed.started("find"))
}

#[tokio::test]
async fn prose_1_the_maximum_backoff_doubles_with_each_retry() {
    testbed::require!(V6_0);
    let app_name = "overload, prose 1";
    let data = doc! { "failCommands": ["insert"], "errorCode": 2, "errorLabels": &OVERLOADED[..] };
    let _point = FailPoint::on_primary(ALWAYS, data, app_name).await;
    let observed = ProseClient::new(app_name, |_| ()).await;
    let began = Instant::now();
    let error = bounded(observed.collection("overload").insert_one(doc! { "a": 1 })).await;
    let error = error.expect_err("the server is overloaded");
    let took = began.elapsed();
    let waits: Vec<_> = error.attempts().iter().map(|attempt| attempt.backoff).collect();
    let most: Vec<_> = [0, 100, 200, 400, 800, 1_600].map(Duration::from_millis).into();
    assert_eq!(waits.len(), most.len(), "{error:?}");
    assert!(waits.iter().zip(&most).all(|(waited, most)| waited <= most), "{waits:?}");
    let waited: Duration = waits.iter().sum();
    assert!(waited > Duration::ZERO && took >= waited, "{took:?} for {waits:?}");
    assert_eq!(observed.client.metrics().backoff, waited);
}

#[tokio::test]
async fn prose_3_the_number_of_retries_is_limited() {
    testbed::require!(V6_0);
    let (error, sent) = rejected_read("overload, prose 3", None).await;
    assert_eq!((sent, error.attempts().len()), (6, 6), "{error:?}");
}

#[tokio::test]
async fn prose_4_max_adaptive_retries_limits_the_retries() {
    testbed::require!(V6_0);
    let (error, sent) = rejected_read("overload, prose 4", Some(1)).await;
    assert_eq!((sent, error.attempts().len()), (2, 2), "{error:?}");
}
