//! The convenient transaction API (`withTransaction`): retries until the transaction is committed
//! or the time limit has passed.

use std::time::{Duration, Instant};

use crate::retry::TRANSIENT_TRANSACTION_ERROR;

use super::UNKNOWN_TRANSACTION_COMMIT_RESULT;

/// Time limit of the retries.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// Initial backoff, growth factor and maximum backoff between attempts.
const INITIAL_BACKOFF: Duration = Duration::from_millis(5);
const BACKOFF_FACTOR: f64 = 1.5;
const MAX_BACKOFF: Duration = Duration::from_millis(500);

/// Retry state of one transaction.
///
/// ```text
///     loop: begin(now, jitter)        -> backoff (zero before the first attempt) | timed out
///           start, call the application
///             failed                  -> abort; next attempt if TransientTransactionError, else raise
///           loop: commit
///             failed                  -> after_commit(..): repeat commit | next attempt | raise | timed out
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WithTransaction {
    start: Instant,
    limit: Duration,
    attempts: u32,
}

/// The time limit does not allow another attempt. The driver raises a time-out with the last error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WithTransactionTimeout;

/// Next step after a failed commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum AfterCommit {
    /// Repeat the commit: its outcome is unknown.
    RepeatCommit,
    /// Run the transaction again: it was not committed.
    RetryTransaction,
    /// Raise the error.
    Raise,
    /// Raise a time-out with this error.
    TimedOut,
}

impl WithTransaction {
    /// Starts the time limit of 120 seconds.
    pub fn new(now: Instant) -> Self {
        Self::within(TIME_LIMIT, now)
    }

    /// Starts a time limit.
    pub fn within(limit: Duration, now: Instant) -> Self {
        Self { start: now, limit, attempts: 0 }
    }

    /// Returns the time limit.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Begins an attempt and returns the backoff before it. `jitter` is a random number from 0 to
    /// 1.
    ///
    /// # Errors
    ///
    /// The backoff would not end before the time limit.
    pub fn begin(&mut self, now: Instant, jitter: f64) -> Result<Duration, WithTransactionTimeout> {
        let wait = backoff(self.attempts, jitter);
        if self.attempts > 0 && self.time_since_start(now) + wait >= self.limit {
            return Err(WithTransactionTimeout);
        }
        self.attempts = self.attempts.saturating_add(1);
        Ok(wait)
    }

    /// Returns the next step after a failed commit. `timed_out` is `true` if the commit exceeded
    /// `maxTimeMS`; it is not repeated then.
    pub fn after_commit(
        &self,
        has_label: impl Fn(&str) -> bool,
        timed_out: bool,
        now: Instant,
    ) -> AfterCommit {
        if has_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) && !timed_out {
            let in_time = self.time_since_start(now) < self.limit;
            return if in_time { AfterCommit::RepeatCommit } else { AfterCommit::TimedOut };
        }
        if has_label(TRANSIENT_TRANSACTION_ERROR) {
            AfterCommit::RetryTransaction
        } else {
            AfterCommit::Raise
        }
    }

    fn time_since_start(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.start)
    }
}

/// Returns the backoff after this number of attempts. Zero before the first.
fn backoff(attempts: u32, jitter: f64) -> Duration {
    if attempts == 0 {
        return Duration::ZERO;
    }
    let exponent = i32::try_from(attempts).unwrap_or(i32::MAX);
    let grown = INITIAL_BACKOFF.as_secs_f64() * BACKOFF_FACTOR.powi(exponent);
    // `grown` can be infinite; `min` limits it.
    Duration::from_secs_f64(grown.min(MAX_BACKOFF.as_secs_f64()) * jitter.clamp(0.0, 1.0))
}
