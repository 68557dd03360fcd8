//! The prose tests of overload ("client backpressure").
//!
//! Their chance cannot be set from outside: how long is waited for which chance is tested on the
//! state machine of retrying, and here that what was decided on was waited for. By default the driver
//! tries five times again, as the specification first said, and not twice. Left out: 5, it needs
//! server 9.0 (servers that are played take its place in the tests of retrying).

use std::time::{Duration, Instant};

use super::*;

const OVERLOADED: [&str; 2] = ["RetryableError", "SystemOverloadedError"];

/// The error of a read that an overloaded primary refuses however often it is tried, by a client
/// with this `maxAdaptiveRetries`, and how often it was sent.
async fn refused_read(app_name: &'static str, retries: Option<u32>) -> (Error, usize) {
    let data = doc! { "failCommands": ["find"], "errorCode": 462, "errorLabels": OVERLOADED };
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
    let data = doc! { "failCommands": ["insert"], "errorCode": 2, "errorLabels": OVERLOADED };
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
    let (error, sent) = refused_read("overload, prose 3", None).await;
    assert_eq!((sent, error.attempts().len()), (6, 6), "{error:?}");
}

#[tokio::test]
async fn prose_4_max_adaptive_retries_limits_the_retries() {
    testbed::require!(V6_0);
    let (error, sent) = refused_read("overload, prose 4", Some(1)).await;
    assert_eq!((sent, error.attempts().len()), (2, 2), "{error:?}");
}
