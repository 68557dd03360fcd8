//! Errors that are retried, the number of retries, and the deadline that attempts share.

use std::{io, time::Duration};

use bson::doc;
use steadfast::{
    Client,
    error::{ErrorKind, WriteFailure},
};

use super::*;

fn network_error() -> Error {
    Error::from(io::Error::new(io::ErrorKind::ConnectionReset, "reset"))
        .with_outcome(Outcome::MaybeApplied)
}

fn server_error(code: i32) -> Error {
    let error = bson::deserialize_from_document(doc! { "code": code, "errmsg": "no" }).unwrap();
    Error::from(ErrorKind::Write(WriteFailure::WriteError(error)))
}

/// Fails as a call does for which no server is found: the address is one that nothing listens on.
async fn no_server(timeout: Option<Duration>) -> Error {
    let uri = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=20&connectTimeoutMS=20";
    let client = Client::with_uri_str(uri).await.unwrap();
    let collection = client.database("app").collection::<bson::Document>("orders");
    let call = collection.insert_one(doc! {});
    match timeout {
        Some(timeout) => call.timeout(timeout).await.unwrap_err(),
        None => call.await.unwrap_err(),
    }
}

#[test]
fn network_errors_and_step_downs_are_retried_at_once() {
    assert!(can_retry_at_once(&network_error()));
    // NotWritablePrimary, InterruptedDueToReplStateChange, ShutdownInProgress
    for code in [10107, 11602, 91] {
        assert!(can_retry_at_once(&server_error(code)), "{code}");
    }
}

#[test]
fn errors_of_the_request_are_not_retried() {
    // Unauthorized, DuplicateKey, WriteConcernTimeout, ReadConcernMajorityNotAvailableYet
    for code in [13, 11000, 64, 134] {
        assert!(!can_retry_at_once(&server_error(code)), "{code}");
    }
    assert!(!can_retry_at_once(&Error::invalid_argument("no")));
}

#[tokio::test]
async fn server_selection_errors_and_timeouts_are_transient_and_not_retried_at_once() {
    let no_server_found = no_server(None).await;
    assert!(no_server_found.is_server_selection_error(), "{no_server_found}");
    let timeout = no_server(Some(Duration::from_millis(5))).await;
    assert!(timeout.is_timeout(), "{timeout}");
    for error in [no_server_found, timeout] {
        assert!(error.is_transient() && !can_retry_at_once(&error), "{error}");
    }
}

#[test]
fn retries_are_counted_and_the_error_covers_all_attempts() {
    let mut retry = RetryState::begin(1, None, None);
    assert_eq!((retry.attempts(), retry.in_doubt()), (1, false));
    retry.retry_after(network_error()).unwrap();
    assert_eq!((retry.attempts(), retry.in_doubt()), (2, true));
    let error = retry.retry_after(server_error(10107)).unwrap_err();
    assert_eq!(error.code(), Some(10107));
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "the first may have been applied");
}

#[test]
fn an_error_that_is_not_retryable_is_returned_unchanged() {
    let mut retry = RetryState::begin(5, None, None);
    let error = retry.retry_after(server_error(13)).unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert_eq!(retry.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn all_attempts_share_one_deadline() {
    let limit = Duration::from_secs(10);
    let mut retry = RetryState::begin(5, Some(limit), None);
    assert_eq!(retry.time_left(), Some(limit));
    tokio::time::advance(Duration::from_secs(7)).await;
    retry.retry_after(network_error()).unwrap();
    assert_eq!(retry.time_left(), Some(Duration::from_secs(3)));
    tokio::time::advance(Duration::from_secs(3)).await;
    retry.retry_after(network_error()).unwrap_err();
    let unlimited = RetryState::begin(5, Some(Duration::ZERO), Some(limit));
    assert_eq!(unlimited.time_left(), Some(Duration::ZERO), "zero disables the limit");
}

#[tokio::test]
async fn an_operation_of_the_application_is_retried() {
    let mut errors = [network_error(), network_error()].into_iter();
    let mut calls = 0;
    let result = run(2, || {
        calls += 1;
        let result = errors.next().map_or(Ok(7), Err);
        async { result }
    });
    assert_eq!(result.await.unwrap(), 7);
    assert_eq!(calls, 3);
    let error = run(1, || async { Err::<(), _>(network_error()) }).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
}
