//! The convenient way to run a transaction: again and again, until it is committed or there is no
//! time left.

use std::time::{Duration, Instant};

use crate::retry::TRANSIENT_TRANSACTION_ERROR;

use super::UNKNOWN_TRANSACTION_COMMIT_RESULT;

/// For how long a transaction is tried.
const LIMIT: Duration = Duration::from_secs(120);
/// What the waits before another try grow from, by what factor, and to what.
const FIRST_BACKOFF: Duration = Duration::from_millis(5);
const GROWTH: f64 = 1.5;
const LONGEST_BACKOFF: Duration = Duration::from_millis(500);

/// The tries of one transaction.
///
/// ```text
/// loop: begin(now, jitter)        -> wait so long (nothing before the first) | no time left
///       start, call the application
///         it failed               -> abort; again if it is labelled so, else raise
///       loop: commit
///         it failed               -> after_commit(..): commit again | run again | raise | no time left
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Convenience {
    began: Instant,
    limit: Duration,
    tries: u32,
}

/// There is no time for another try: the error is to say so, and what the last one was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTimeLeft;

/// What to do after a commit that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum AfterCommit {
    /// Commit again: it is not known whether it was committed.
    CommitAgain,
    /// Run the transaction again: it was not committed.
    RunAgain,
    /// Raise the error.
    Raise,
    /// Raise that there is no time left, for this error.
    NoTimeLeft,
}

impl Convenience {
    /// Begins now.
    pub fn new(now: Instant) -> Self {
        Self::within(LIMIT, now)
    }

    /// Begins now, and is tried for this long.
    pub fn within(limit: Duration, now: Instant) -> Self {
        Self { began: now, limit, tries: 0 }
    }

    /// For how long it is tried.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Another try begins: how long to wait before. `jitter` is a random number from 0 to 1. A wait
    /// that would not end in time is not begun.
    pub fn begin(&mut self, now: Instant, jitter: f64) -> Result<Duration, NoTimeLeft> {
        let wait = backoff(self.tries, jitter);
        if self.tries > 0 && self.time_since_start(now) + wait >= self.limit {
            return Err(NoTimeLeft);
        }
        self.tries = self.tries.saturating_add(1);
        Ok(wait)
    }

    /// A commit failed. `timed_out` says that it took longer than `maxTimeMS` allowed, which is not
    /// to be doubled by another.
    pub fn after_commit(
        &self,
        has_label: impl Fn(&str) -> bool,
        timed_out: bool,
        now: Instant,
    ) -> AfterCommit {
        if has_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) && !timed_out {
            let in_time = self.time_since_start(now) < self.limit;
            return if in_time { AfterCommit::CommitAgain } else { AfterCommit::NoTimeLeft };
        }
        if has_label(TRANSIENT_TRANSACTION_ERROR) {
            AfterCommit::RunAgain
        } else {
            AfterCommit::Raise
        }
    }

    fn time_since_start(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }
}

/// How long to wait after so many tries: nothing before the first.
fn backoff(tries: u32, jitter: f64) -> Duration {
    if tries == 0 {
        return Duration::ZERO;
    }
    let exponent = i32::try_from(tries).unwrap_or(i32::MAX);
    let grown = FIRST_BACKOFF.as_secs_f64() * GROWTH.powi(exponent);
    // Infinite in the end, and then not the smaller.
    Duration::from_secs_f64(grown.min(LONGEST_BACKOFF.as_secs_f64()) * jitter.clamp(0.0, 1.0))
}
