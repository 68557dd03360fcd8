//! Which failures are worth another try, and how many tries there are.

use std::io;

use super::*;
use crate::error::{CommandError, ErrorKind};

fn broken() -> Error {
    Error::from(io::Error::new(io::ErrorKind::ConnectionReset, "reset"))
        .with_history(History { outcome: Outcome::MaybeApplied, ..History::default() })
}

fn refused(code: i32, labels: &[&str]) -> Error {
    let reply = bson::rawdoc! { "ok": 0, "code": code, "errmsg": "no" };
    let mut error = CommandError::from_reply(&reply).unwrap();
    for label in labels {
        error.add_label(*label);
    }
    error.with_history(History { outcome: Outcome::NotApplied, ..History::default() })
}

#[test]
fn network_errors_and_step_downs_are_retried_at_once() {
    assert!(can_retry_at_once(&broken()));
    assert!(can_retry_at_once(&refused(10107, &[])));
    assert!(can_retry_at_once(&refused(112, &[retry::RETRYABLE_WRITE_ERROR])));
}

#[test]
fn what_would_be_refused_again_does_not() {
    assert!(!can_retry_at_once(&refused(13, &[])));
    assert!(!can_retry_at_once(&refused(11000, &[])));
    let nobody = ErrorKind::ServerSelection { message: "none".to_owned() };
    assert!(!can_retry_at_once(&Error::new(nobody)));
}

/// An error that is worth an attempt at once is transient; the reverse does not hold.
#[test]
fn not_every_transient_error_is_retried_at_once() {
    let deadline = Deadline::begin(Duration::from_millis(5));
    let late = deadline.exceeded(broken(), crate::error::TimeSpent::default());
    let nobody = Error::new(ErrorKind::ServerSelection { message: "none".to_owned() });
    let overloaded = refused(462, &[retry::SYSTEM_OVERLOADED_ERROR]);
    for (error, at_once, is_transient) in [
        (broken(), true, true),
        (refused(10107, &[]), true, true),
        (refused(112, &[retry::RETRYABLE_WRITE_ERROR]), true, true),
        (late, false, true),
        (nobody, false, true),
        (overloaded, false, true),
        (refused(64, &[]), false, true),
        (refused(134, &[]), false, true),
        (refused(13, &[]), false, false),
        (refused(11000, &[]), false, false),
        (Error::authentication("no"), false, false),
        (Error::invalid_argument("no"), false, false),
    ] {
        assert_eq!(can_retry_at_once(&error), at_once, "{error}");
        assert_eq!(error.is_transient(), is_transient, "{error}");
    }
}

#[test]
fn a_server_that_sheds_load_is_left_in_peace() {
    let labels = [retry::SYSTEM_OVERLOADED_ERROR, retry::RETRYABLE_WRITE_ERROR];
    assert!(!can_retry_at_once(&refused(462, &labels)));
    // Nobody knows whether a connection that broke did so for load.
    let mut cut = broken();
    cut.add_label(retry::SYSTEM_OVERLOADED_ERROR);
    assert!(can_retry_at_once(&cut));
}

#[test]
fn a_call_whose_time_is_over_is_not_begun_anew() {
    let deadline = Deadline::begin(Duration::from_millis(5));
    let error = deadline.exceeded(broken(), crate::error::TimeSpent::default());
    assert!(!can_retry_at_once(&error));
}

#[test]
fn retries_are_counted_and_the_error_tells_of_all_sendings() {
    let mut sendings = Sendings::begin(1, None, None);
    assert_eq!((sendings.made(), sendings.in_doubt()), (1, false));
    sendings.again(broken()).unwrap();
    assert_eq!((sendings.made(), sendings.in_doubt()), (2, true));
    let error = sendings.again(refused(10107, &[])).unwrap_err();
    assert_eq!(error.code(), Some(10107));
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "the first may have been carried out");
}

#[test]
fn a_failure_that_cannot_pass_ends_it_as_it_is() {
    let mut sendings = Sendings::begin(5, None, None);
    let error = sendings.again(refused(13, &[])).unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert_eq!(sendings.made(), 1);
}

#[tokio::test(start_paused = true)]
async fn all_sendings_have_the_time_of_one() {
    let limit = Duration::from_secs(10);
    let mut sendings = Sendings::begin(5, Some(limit), None);
    assert_eq!(sendings.time_left(), Some(limit));
    tokio::time::advance(Duration::from_secs(7)).await;
    sendings.again(broken()).unwrap();
    assert_eq!(sendings.time_left(), Some(Duration::from_secs(3)));
    tokio::time::advance(Duration::from_secs(3)).await;
    sendings.again(broken()).unwrap_err();
    let endless = Sendings::begin(5, Some(Duration::ZERO), Some(limit));
    assert_eq!(endless.time_left(), Some(Duration::ZERO), "zero is without end");
}
