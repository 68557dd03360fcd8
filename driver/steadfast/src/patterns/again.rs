//! Which failures may pass by themselves, so that an operation that is safe to repeat is worth another
//! try; and how often, and until when, it is tried.

use std::time::Duration;

use steadfast_core::retry;

use crate::{
    deadline::{Deadline, TimeLimit},
    error::{Error, History, Outcome, Result},
};

/// Returns `true` if an idempotent call is worth an attempt at once: the network broke, or the server shuts
/// down or steps down. Of the other [transient errors](Error::is_transient), that no server was found came
/// after a search of its own; a call whose time is over has none for another attempt; and an overloaded
/// server is for the driver, which waits and has a retry budget.
pub(crate) fn can_retry_at_once(error: &Error) -> bool {
    if error.is_timeout() {
        return false;
    }
    let is_overload = error.contains_label(retry::SYSTEM_OVERLOADED_ERROR);
    let is_retryable = error.contains_label(retry::RETRYABLE_WRITE_ERROR)
        || error.code().is_some_and(retry::is_retryable_code);
    error.is_network_error() || (is_retryable && !is_overload)
}

/// The sendings of one call that is safe to repeat. All of them together have the time of one.
#[derive(Debug)]
pub(super) struct Sendings {
    made: u32,
    retries: u32,
    deadline: Option<Deadline>,
    /// What is known of those that failed.
    failed: Option<History>,
}

impl Sendings {
    /// The first sending and so many retries. `own` is the time limit that the call was given,
    /// `inherited` that of the collection.
    pub(super) fn begin(retries: u32, own: Option<Duration>, inherited: Option<Duration>) -> Self {
        let deadline = TimeLimit::of(own, inherited).map(|limit| Deadline::begin(limit.timeout));
        Self { made: 1, retries, deadline, failed: None }
    }

    /// The time limit of the next sending, if it has one.
    pub(super) fn time_left(&self) -> Option<Duration> {
        // Zero would be without end.
        let at_least = Duration::from_millis(1);
        self.deadline.map(|deadline| match deadline.remaining() {
            Some(remaining) => remaining.max(at_least),
            None => Duration::ZERO,
        })
    }

    /// The sendings so far, the one under way included.
    pub(super) fn made(&self) -> u32 {
        self.made
    }

    /// Whether one that failed may have been carried out, or may be yet.
    pub(super) fn in_doubt(&self) -> bool {
        self.failed.as_ref().is_some_and(|failed| !failed.outcome.is_certainly_not_applied())
    }

    /// Sends until an answer comes, or a failure that does not pass.
    pub(super) async fn until_answered<T, A>(
        &mut self,
        mut send: impl FnMut(Option<Duration>) -> A,
    ) -> Result<T>
    where
        A: IntoFuture<Output = Result<T>>,
    {
        loop {
            match send(self.time_left()).into_future().await {
                Ok(answer) => return Ok(answer),
                Err(error) => self.again(error)?,
            }
        }
    }

    /// Goes on to the next sending after this failure; or gives the error that the call ends with.
    pub(super) fn again(&mut self, error: Error) -> Result<()> {
        let is_over = self.deadline.is_some_and(Deadline::has_passed);
        if self.made > self.retries || is_over || !can_retry_at_once(&error) {
            return Err(self.conclude(error));
        }
        self.made += 1;
        self.failed = Some(self.with_attempts_of(&error));
        Ok(())
    }

    /// A new supply of retries, for the next part of the same call.
    pub(super) fn renew(&mut self) {
        self.made = 1;
        self.failed = None;
    }

    /// The error that the call ends with: it tells of all sendings.
    pub(super) fn conclude(&self, error: Error) -> Error {
        if self.failed.is_none() {
            return error;
        }
        let history = self.with_attempts_of(&error);
        error.with_history(history)
    }

    fn with_attempts_of(&self, error: &Error) -> History {
        let mut all = self.failed.clone().unwrap_or_default();
        all.append(&History::of(error));
        all
    }
}

/// Whether nothing certain can be said of what a sending that failed so has done.
pub(super) fn is_in_doubt(error: &Error) -> bool {
    match error.outcome() {
        Outcome::NotSent | Outcome::NotApplied => false,
        Outcome::MaybeApplied | Outcome::AppliedNotDurable => true,
    }
}

#[cfg(test)]
mod tests;
