//! Which strategy tries again after which error, and how often.

use std::io;

use super::*;
use crate::error::{CommandError, ErrorKind, GridFsErrorKind, History, Outcome};

const NOT_WRITABLE_PRIMARY: i32 = 10107;
const UNAUTHORIZED: i32 = 13;

fn broken_connection() -> Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "reset").into()
}

fn refusal(code: i32) -> Error {
    Error::new(ErrorKind::Command(CommandError {
        code,
        code_name: String::new(),
        message: "no".to_owned(),
        topology_version: None,
    }))
}

fn no_server() -> Error {
    Error::new(ErrorKind::ServerSelection { message: "none".to_owned() })
}

/// How often a strategy calls an operation that fails with these errors, one after the other, and
/// then succeeds.
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
async fn a_network_error_is_tried_again_once_and_what_looks_like_one() {
    for error in [broken_connection(), refusal(NOT_WRITABLE_PRIMARY)] {
        for strategy in [Strategy::RetryNetworkErrorsOnce, Strategy::RetryIdempotent] {
            assert_eq!(attempts(strategy, &[&error]).await, (2, true), "{strategy}");
            let twice = [&error, &error];
            assert_eq!(attempts(strategy, &twice).await, (2, false), "{strategy}");
        }
    }
}

#[tokio::test]
async fn neither_a_refusal_nor_a_vain_search_for_a_server_is_tried_again() {
    for error in [refusal(UNAUTHORIZED), no_server()] {
        for strategy in [Strategy::RetryNetworkErrorsOnce, Strategy::RetryIdempotent] {
            assert_eq!(attempts(strategy, &[&error]).await, (1, false), "{strategy}");
        }
    }
}

#[tokio::test]
async fn always_is_on_any_error_and_has_an_end() {
    let errors = [&refusal(UNAUTHORIZED), &no_server(), &broken_connection()];
    let strategy = Strategy::AlwaysRetry { retries: 3 };
    assert_eq!(attempts(strategy, &errors).await, (4, true));
    let strategy = Strategy::AlwaysRetry { retries: 2 };
    assert_eq!(attempts(strategy, &errors).await, (3, false));
    let strategy = Strategy::AlwaysRetry { retries: 0 };
    assert_eq!(attempts(strategy, &errors).await, (1, false));
}

#[tokio::test]
async fn the_outcome_of_a_call_of_several_commands_speaks_of_all_attempts() {
    let lost = History { outcome: Outcome::MaybeApplied, ..History::default() };
    let lost = broken_connection().with_history(lost);
    let missing = Error::from(GridFsErrorKind::UploadStreamClosed);
    let unsent = broken_connection().within_call(Outcome::NotSent, true);
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
async fn the_application_itself_leaves_retryable_writes_to_the_driver() {
    for strategy in [Strategy::DontRetry, Strategy::RetryableWrites] {
        assert_eq!(attempts(strategy, &[&broken_connection()]).await, (1, false), "{strategy}");
    }
    let of_the_driver: Vec<_> = Strategy::ALL.into_iter().filter(Strategy::retry_writes).collect();
    assert_eq!(of_the_driver, [Strategy::RetryableWrites]);
}

#[test]
fn strategies_are_known_by_their_names() {
    for strategy in Strategy::ALL {
        assert_eq!(strategy.to_string().parse::<Strategy>().unwrap(), strategy);
    }
    let error = "never".parse::<Strategy>().unwrap_err();
    assert!(error.is_invalid_argument());
    assert!(error.to_string().contains("dont-retry, always-retry, retry-once"), "{error}");
}

/// What a second attempt says of itself does not hide what the first may have done.
#[tokio::test]
async fn the_outcome_is_that_of_all_attempts() {
    let lost = History { outcome: Outcome::MaybeApplied, ..History::default() };
    let mut errors = [broken_connection().with_history(lost), no_server()].into_iter();
    let operation = || {
        let error = errors.next().expect("it is called twice");
        async { Err::<(), _>(error) }
    };
    let error = Strategy::RetryNetworkErrorsOnce.run(operation).await.result.unwrap_err();
    assert!(error.is_server_selection_error());
    assert_eq!(error.outcome(), Outcome::MaybeApplied);

    let tried = Strategy::DontRetry.run(|| async { Err::<(), _>(no_server()) }).await;
    assert_eq!(tried.result.unwrap_err().outcome(), Outcome::NotSent);
}
