//! Retries of idempotent operations: after which errors, how often and until when.
//!
//! The patterns retry a call only after an error that [can be retried at once](can_retry_at_once). Each call is
//! one command of the driver, which may retry it itself. [`run`] does the same for an operation of the
//! application:
//!
//! ```no_run
//! # async fn run(days: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
//! use steadfast::bson::doc;
//! use steadfast_patterns::retry;
//!
//! // Idempotent: the second execution changes nothing.
//! let sunny = || async {
//!     let today = doc! { "_id": "2016-06-28" };
//!     days.update_one(today, doc! { "$set": { "sunny": true } }).upsert(true).await
//! };
//! retry::run(3, sunny).await?;
//! # Ok(()) }
//! ```

use std::time::Duration;

use steadfast::error::{Error, Outcome, Result, SYSTEM_OVERLOADED_ERROR};
use tokio::time::Instant;

/// Returns `true` if an idempotent call can be retried at once: the network failed, or the server shuts down or
/// steps down.
///
/// Other [transient errors](Error::is_transient) are not retried at once. After a server selection error, the
/// driver has already waited for `serverSelectionTimeoutMS`. After a time-out (`timeoutMS`), no time is left. After an
/// error with the label `SystemOverloadedError`, the driver itself backs off within its retry budget.
pub fn can_retry_at_once(error: &Error) -> bool {
    if error.is_timeout() {
        return false;
    }
    let is_overload = error.contains_label(SYSTEM_OVERLOADED_ERROR);
    error.is_network_error() || (error.is_retryable() && !is_overload)
}

/// Calls an idempotent operation until it succeeds, fails with an error that cannot be
/// [retried at once](can_retry_at_once), or was retried `retries` times.
///
/// # Errors
///
/// Returns the error of the last call. Its [outcome](Error::outcome) is the least certain of all calls, and its
/// [attempts](Error::attempts) are those of all calls.
///
/// # Cancellation
///
/// Dropping the future drops the call in progress; no other call follows.
///
/// ```no_run
/// # async fn run(days: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::bson::doc;
/// use steadfast_patterns::retry;
///
/// let day = retry::run(3, || days.find_one(doc! { "_id": "2016-06-28" })).await?;
/// println!("{day:?}");
/// # Ok(()) }
/// ```
pub async fn run<T, F>(retries: u32, mut operation: impl FnMut() -> F) -> Result<T>
where
    F: IntoFuture<Output = Result<T>>,
{
    RetryState::begin(retries, None, None).run(|_| operation()).await
}

/// State of one idempotent operation over its attempts, which share one deadline.
#[derive(Debug)]
pub(crate) struct RetryState {
    attempts: u32,
    retries: u32,
    limit: Option<TimeLimit>,
    /// Error of the failed attempts.
    failed: Option<Error>,
}

/// Time limit of the operation (`timeoutMS`).
#[derive(Clone, Copy, Debug)]
enum TimeLimit {
    /// Zero, which means no limit, whatever the collection's is.
    Disabled,
    Until(Instant),
}

impl TimeLimit {
    fn begin(timeout: Duration) -> Self {
        // A limit that cannot be represented is never reached.
        let until = (!timeout.is_zero()).then(|| Instant::now().checked_add(timeout)).flatten();
        until.map_or(Self::Disabled, Self::Until)
    }

    fn has_passed(self) -> bool {
        matches!(self, Self::Until(at) if at <= Instant::now())
    }

    fn remaining(self) -> Duration {
        match self {
            Self::Disabled => Duration::ZERO,
            // Zero would disable the limit.
            Self::Until(at) => {
                at.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
            }
        }
    }
}

impl RetryState {
    /// Begins the first attempt. `own` is the time limit of the action, `inherited` that of the collection.
    pub(crate) fn begin(retries: u32, own: Option<Duration>, inherited: Option<Duration>) -> Self {
        let limit = own.or(inherited).map(TimeLimit::begin);
        Self { attempts: 1, retries, limit, failed: None }
    }

    /// Returns the `timeout` option of the next attempt.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.limit.map(TimeLimit::remaining)
    }

    /// Returns the number of attempts, including the one in progress.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns `true` if a failed attempt may have been applied.
    pub(crate) fn in_doubt(&self) -> bool {
        self.failed.as_ref().is_some_and(is_in_doubt)
    }

    /// Calls `attempt`, with the time that is left, until it succeeds or cannot be retried.
    pub(crate) async fn run<T, A>(
        &mut self,
        mut attempt: impl FnMut(Option<Duration>) -> A,
    ) -> Result<T>
    where
        A: IntoFuture<Output = Result<T>>,
    {
        loop {
            match attempt(self.time_left()).into_future().await {
                Ok(result) => return Ok(result),
                Err(error) => self.retry_after(error)?,
            }
        }
    }

    /// Begins the next attempt after this error, or returns the error that the operation fails with.
    pub(crate) fn retry_after(&mut self, error: Error) -> Result<()> {
        let is_over = self.limit.is_some_and(TimeLimit::has_passed);
        let can_retry = self.attempts <= self.retries && !is_over && can_retry_at_once(&error);
        let error = match self.failed.take() {
            Some(earlier) => error.with_earlier(&earlier),
            None => error,
        };
        if !can_retry {
            return Err(error);
        }
        self.attempts += 1;
        self.failed = Some(error);
        Ok(())
    }

    /// Begins the next part of the same operation: all retries are available again.
    pub(crate) fn renew(&mut self) {
        self.attempts = 1;
        self.failed = None;
    }
}

/// Returns `true` if the failed attempt may have been applied.
pub(crate) fn is_in_doubt(error: &Error) -> bool {
    match error.outcome() {
        Outcome::NotSent | Outcome::NotApplied => false,
        Outcome::MaybeApplied | Outcome::AppliedNotDurable => true,
    }
}

#[cfg(test)]
mod tests;
