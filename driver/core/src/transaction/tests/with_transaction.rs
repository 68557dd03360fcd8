//! Attempts and backoffs of `withTransaction`.

use std::time::{Duration, Instant};

use crate::transaction::{AfterCommit, WithTransaction, WithTransactionTimeout};

const LIMIT: Duration = Duration::from_secs(120);

fn millis(millis: f64) -> Duration {
    Duration::from_secs_f64(millis / 1_000.0)
}

#[track_caller]
fn assert_about(found: Duration, expected: Duration) {
    assert!(found.abs_diff(expected) < Duration::from_micros(1), "{found:?}, not {expected:?}");
}

#[test]
fn with_transaction_backoff_grows_to_500_ms() {
    let now = Instant::now();
    let mut attempts = WithTransaction::new(now);
    assert_eq!(attempts.begin(now, 1.0), Ok(Duration::ZERO), "the first is not waited for");
    for expected in [7.5, 11.25, 16.875, 25.3125] {
        assert_about(attempts.begin(now, 1.0).unwrap(), millis(expected));
    }
    for _ in 0..10 {
        let _ = attempts.begin(now, 1.0);
    }
    assert_about(attempts.begin(now, 1.0).unwrap(), millis(500.0));
    assert_about(attempts.begin(now, 0.5).unwrap(), millis(250.0));
    assert_eq!(attempts.begin(now, 0.0), Ok(Duration::ZERO));
    for _ in 0..2_000 {
        let _ = attempts.begin(now, 1.0);
    }
    assert_about(attempts.begin(now, 1.0).unwrap(), millis(500.0));
}

#[test]
fn with_transaction_backoff_beyond_the_limit_is_not_started() {
    let now = Instant::now();
    let mut attempts = WithTransaction::new(now);
    assert_eq!(
        attempts.begin(now + 2 * LIMIT, 1.0),
        Ok(Duration::ZERO),
        "the first is always tried"
    );
    assert!(attempts.begin(now + LIMIT - millis(8.0), 1.0).is_ok());
    assert_eq!(attempts.begin(now + LIMIT - millis(8.0), 1.0), Err(WithTransactionTimeout));
    assert_eq!(attempts.begin(now + LIMIT, 0.0), Err(WithTransactionTimeout));
    assert_eq!(attempts.limit(), LIMIT);
}

#[test]
fn commit_with_unknown_result_is_repeated_within_the_limit() {
    let now = Instant::now();
    let attempts = WithTransaction::new(now);
    let after = |labels: &[&str], timed_out, now| {
        attempts.after_commit(|label| labels.contains(&label), timed_out, now)
    };
    let (unknown, transient) = ("UnknownTransactionCommitResult", "TransientTransactionError");
    let nearly = now + LIMIT - millis(1.0);
    assert_eq!(after(&[unknown], false, nearly), AfterCommit::RepeatCommit);
    assert_eq!(after(&[unknown], false, now + LIMIT), AfterCommit::TimedOut);
    assert_eq!(after(&[unknown], true, now), AfterCommit::Raise, "maxTimeMS is not doubled");
    assert_eq!(after(&[unknown, transient], true, now), AfterCommit::RetryTransaction);
    assert_eq!(after(&[unknown, transient], false, now), AfterCommit::RepeatCommit);
    assert_eq!(after(&[transient], false, now), AfterCommit::RetryTransaction);
    assert_eq!(after(&[], false, now), AfterCommit::Raise);
}
