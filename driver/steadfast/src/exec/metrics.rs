//! Numbers of a client: what failed, what was tried again, how long was waited.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::Executor;

/// Numbers of a client since it was made. Nothing is counted for what succeeds at once.
///
/// ```no_run
/// # async fn run(client: steadfast::Client) {
/// let numbers = client.metrics();
/// println!(
///     "{} retries, {:.1} of {} tokens left",
///     numbers.retries, numbers.retry_tokens, numbers.retry_token_capacity
/// );
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ClientMetrics {
    /// How many attempts were made again, for whatever reason.
    pub retries: u64,
    /// How many attempts failed because a server, or the way to it, was overloaded.
    pub overload_errors: u64,
    /// How many of the retries were after such errors.
    pub overload_retries: u64,
    /// How many retries were not made because the allowance was used up.
    pub retries_refused: u64,
    /// How long was waited in all, to give overloaded servers time.
    pub backoff: Duration,
    /// How many calls were not done when their time was over.
    pub timeouts: u64,
    /// What is left of the allowance for retries while servers are overloaded.
    pub retry_tokens: f64,
    /// How large that allowance is when it is whole.
    pub retry_token_capacity: u32,
}

/// The numbers as they are counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    retries: AtomicU64,
    overload_errors: AtomicU64,
    overload_retries: AtomicU64,
    retries_refused: AtomicU64,
    backoff_nanos: AtomicU64,
    timeouts: AtomicU64,
}

impl Counters {
    /// An attempt failed because of overload.
    pub(crate) fn count_overload(&self) {
        self.overload_errors.fetch_add(1, Relaxed);
    }

    /// A command will be tried again.
    pub(crate) fn count_retry(&self, overloaded: bool) {
        self.retries.fetch_add(1, Relaxed);
        self.overload_retries.fetch_add(u64::from(overloaded), Relaxed);
    }

    /// The allowance was used up.
    pub(crate) fn count_refusal(&self) {
        self.retries_refused.fetch_add(1, Relaxed);
    }

    /// So long was waited.
    pub(crate) fn count_backoff(&self, waited: Duration) {
        let nanos = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        self.backoff_nanos.fetch_add(nanos, Relaxed);
    }

    /// A call was not done when its time was over.
    pub(crate) fn count_timeout(&self) {
        self.timeouts.fetch_add(1, Relaxed);
    }
}

impl Executor {
    /// What was counted so far.
    pub(crate) fn metrics(&self) -> ClientMetrics {
        let counters = self.counters();
        let budget = self.retry_budget();
        ClientMetrics {
            retries: counters.retries.load(Relaxed),
            overload_errors: counters.overload_errors.load(Relaxed),
            overload_retries: counters.overload_retries.load(Relaxed),
            retries_refused: counters.retries_refused.load(Relaxed),
            backoff: Duration::from_nanos(counters.backoff_nanos.load(Relaxed)),
            timeouts: counters.timeouts.load(Relaxed),
            retry_tokens: budget.tokens_left(),
            retry_token_capacity: budget.capacity(),
        }
    }
}
