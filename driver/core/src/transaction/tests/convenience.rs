//! How often a transaction is tried, and how long is waited in between.

use std::time::{Duration, Instant};

use crate::transaction::{AfterCommit, Convenience, NoTimeLeft};

const LIMIT: Duration = Duration::from_secs(120);

fn millis(millis: f64) -> Duration {
    Duration::from_secs_f64(millis / 1_000.0)
}

#[track_caller]
fn assert_about(found: Duration, wanted: Duration) {
    assert!(found.abs_diff(wanted) < Duration::from_micros(1), "{found:?}, not {wanted:?}");
}

#[test]
fn waits_grow_by_half_up_to_half_a_second() {
    let now = Instant::now();
    let mut tries = Convenience::new(now);
    assert_eq!(tries.begin(now, 1.0), Ok(Duration::ZERO), "the first is not waited for");
    for wanted in [7.5, 11.25, 16.875, 25.3125] {
        assert_about(tries.begin(now, 1.0).unwrap(), millis(wanted));
    }
    for _ in 0..10 {
        let _ = tries.begin(now, 1.0);
    }
    assert_about(tries.begin(now, 1.0).unwrap(), millis(500.0));
    assert_about(tries.begin(now, 0.5).unwrap(), millis(250.0));
    assert_eq!(tries.begin(now, 0.0), Ok(Duration::ZERO));
    for _ in 0..2_000 {
        let _ = tries.begin(now, 1.0);
    }
    assert_about(tries.begin(now, 1.0).unwrap(), millis(500.0));
}

#[test]
fn a_wait_that_would_not_end_in_time_is_not_begun() {
    let now = Instant::now();
    let mut tries = Convenience::new(now);
    assert_eq!(tries.begin(now + 2 * LIMIT, 1.0), Ok(Duration::ZERO), "the first is always tried");
    assert!(tries.begin(now + LIMIT - millis(8.0), 1.0).is_ok());
    assert_eq!(tries.begin(now + LIMIT - millis(8.0), 1.0), Err(NoTimeLeft));
    assert_eq!(tries.begin(now + LIMIT, 0.0), Err(NoTimeLeft));
    assert_eq!(tries.limit(), LIMIT);
}

#[test]
fn a_commit_is_repeated_while_it_is_open_and_there_is_time() {
    let now = Instant::now();
    let tries = Convenience::new(now);
    let after = |labels: &[&str], timed_out, now| {
        tries.after_commit(|label| labels.contains(&label), timed_out, now)
    };
    let (unknown, transient) = ("UnknownTransactionCommitResult", "TransientTransactionError");
    let nearly = now + LIMIT - millis(1.0);
    assert_eq!(after(&[unknown], false, nearly), AfterCommit::CommitAgain);
    assert_eq!(after(&[unknown], false, now + LIMIT), AfterCommit::NoTimeLeft);
    assert_eq!(after(&[unknown], true, now), AfterCommit::Raise, "maxTimeMS is not doubled");
    assert_eq!(after(&[unknown, transient], true, now), AfterCommit::RunAgain);
    assert_eq!(after(&[unknown, transient], false, now), AfterCommit::CommitAgain);
    assert_eq!(after(&[transient], false, now), AfterCommit::RunAgain);
    assert_eq!(after(&[], false, now), AfterCommit::Raise);
}
