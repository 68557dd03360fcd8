//! Errors after which each strategy retries, and its number of attempts.

use std::io;

use super::*;
use steadfast::{
    Client,
    bson::{Document, deserialize_from_document},
    error::{ErrorKind, GridFsErrorKind, WriteFailure},
};

const NOT_WRITABLE_PRIMARY: i32 = 10107;
const UNAUTHORIZED: i32 = 13;

fn broken_connection() -> Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "reset").into()
}

fn server_error(code: i32) -> Error {
    let error = deserialize_from_document(doc! { "code": code, "errmsg": "no" }).unwrap();
    Error::from(ErrorKind::Write(WriteFailure::WriteError(error)))
}

/// Returns a server selection error.
async fn no_server() -> Error {
    let uri = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=20&connectTimeoutMS=20";
    let client = Client::with_uri_str(uri).await.unwrap();
    let error = client.database("app").collection::<Document>("days").find_one(doc! {}).await;
    let error = error.unwrap_err();
    assert!(error.is_server_selection_error(), "{error}");
    error
}

/// Runs an operation that fails with each of these errors and then succeeds. Returns the number of attempts, and
/// `true` after a success.
async fn attempts(strategy: Strategy, errors: &[&Error]) -> (u32, bool) {
    let mut errors = errors.iter();
    let operation = || {
        let ended = errors.next().copied().cloned().map_or(Ok(()), Err);
        async { ended }
    };
    let tried = strategy.run(operation).await;
    (tried.attempts, tried.result.is_ok())
}

#[tokio::test]
async fn network_errors_and_state_change_errors_are_retried_once() {
    for error in [broken_connection(), server_error(NOT_WRITABLE_PRIMARY)] {
        for strategy in [Strategy::RetryNetworkErrorsOnce, Strategy::RetryIdempotent] {
            assert_eq!(attempts(strategy, &[&error]).await, (2, true), "{strategy}");
            let twice = [&error, &error];
            assert_eq!(attempts(strategy, &twice).await, (2, false), "{strategy}");
        }
    }
}

#[tokio::test]
async fn command_errors_and_server_selection_errors_are_not_retried() {
    for error in [server_error(UNAUTHORIZED), no_server().await] {
        for strategy in [Strategy::RetryNetworkErrorsOnce, Strategy::RetryIdempotent] {
            assert_eq!(attempts(strategy, &[&error]).await, (1, false), "{strategy}");
        }
    }
}

#[tokio::test]
async fn always_retry_retries_after_any_error_up_to_its_limit() {
    let errors = [&server_error(UNAUTHORIZED), &no_server().await, &broken_connection()];
    let strategy = Strategy::AlwaysRetry { retries: 3 };
    assert_eq!(attempts(strategy, &errors).await, (4, true));
    let strategy = Strategy::AlwaysRetry { retries: 2 };
    assert_eq!(attempts(strategy, &errors).await, (3, false));
    let strategy = Strategy::AlwaysRetry { retries: 0 };
    assert_eq!(attempts(strategy, &errors).await, (1, false));
}

#[tokio::test]
async fn outcome_of_an_earlier_attempt_in_doubt_is_kept() {
    let lost = broken_connection().with_outcome(Outcome::MaybeApplied);
    let missing = Error::from(GridFsErrorKind::UploadStreamClosed);
    let unsent = broken_connection().with_outcome(Outcome::NotSent);
    for second in [missing, unsent] {
        let mut errors = [lost.clone(), second].into_iter();
        let operation = || {
            let ended = errors.next().map_or(Ok(()), Err);
            async { ended }
        };
        let error = Strategy::RetryNetworkErrorsOnce.run(operation).await.result.unwrap_err();
        assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
    }
}

#[tokio::test]
async fn only_the_driver_retries_retryable_writes() {
    for strategy in [Strategy::DontRetry, Strategy::RetryableWrites] {
        assert_eq!(attempts(strategy, &[&broken_connection()]).await, (1, false), "{strategy}");
    }
    let of_the_driver: Vec<_> = Strategy::ALL.into_iter().filter(Strategy::retry_writes).collect();
    assert_eq!(of_the_driver, [Strategy::RetryableWrites]);
}

#[test]
fn strategies_are_parsed_from_their_names() {
    for strategy in Strategy::ALL {
        assert_eq!(strategy.to_string().parse::<Strategy>().unwrap(), strategy);
    }
    let error = "never".parse::<Strategy>().unwrap_err();
    assert!(error.is_invalid_argument());
    assert!(error.to_string().contains("dont-retry, always-retry, retry-once"), "{error}");
}

#[tokio::test]
async fn outcome_covers_all_attempts() {
    let lost = broken_connection().with_outcome(Outcome::MaybeApplied);
    let mut errors = [lost, no_server().await].into_iter();
    let operation = || {
        let error = errors.next().expect("it is called twice");
        async { Err::<(), _>(error) }
    };
    let error = Strategy::RetryNetworkErrorsOnce.run(operation).await.result.unwrap_err();
    assert!(error.is_server_selection_error());
    assert_eq!(error.outcome(), Outcome::MaybeApplied);

    let tried = Strategy::DontRetry.run(|| async { Err::<(), _>(no_server().await) }).await;
    assert_eq!(tried.result.unwrap_err().outcome(), Outcome::NotSent);
}
