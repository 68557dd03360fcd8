//! Numbers of a client: retries, overload errors, backoff and time-outs.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::Executor;

/// Numbers of retries, overload errors and time-outs of a client since it was created. Operations
/// that succeed at the first attempt are not counted.
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
    /// Number of retries.
    pub retries: u64,
    /// Number of attempts that failed because the server, or the network to it, was overloaded.
    pub overload_errors: u64,
    /// Number of retries after such errors.
    pub overload_retries: u64,
    /// Number of retries that an exhausted retry budget prevented.
    pub retries_denied: u64,
    /// Sum of the backoff before retries.
    pub backoff: Duration,
    /// Number of calls whose deadline (`timeoutMS`) passed.
    pub timeouts: u64,
    /// Tokens left in the retry budget.
    pub retry_tokens: f64,
    /// Capacity of the retry budget in tokens.
    pub retry_token_capacity: u32,
}

/// Counters behind [`ClientMetrics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    retries: AtomicU64,
    overload_errors: AtomicU64,
    overload_retries: AtomicU64,
    retries_denied: AtomicU64,
    backoff_nanos: AtomicU64,
    timeouts: AtomicU64,
}

impl Counters {
    /// Counts an attempt that failed because of overload.
    pub(crate) fn count_overload(&self) {
        self.overload_errors.fetch_add(1, Relaxed);
    }

    /// Counts a retry.
    pub(crate) fn count_retry(&self, overloaded: bool) {
        self.retries.fetch_add(1, Relaxed);
        self.overload_retries.fetch_add(u64::from(overloaded), Relaxed);
    }

    /// Counts a retry that the exhausted retry budget prevented.
    pub(crate) fn count_budget_exhausted(&self) {
        self.retries_denied.fetch_add(1, Relaxed);
    }

    /// Adds the duration of a backoff.
    pub(crate) fn count_backoff(&self, waited: Duration) {
        let nanos = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        self.backoff_nanos.fetch_add(nanos, Relaxed);
    }

    /// Counts a call whose deadline passed.
    pub(crate) fn count_timeout(&self) {
        self.timeouts.fetch_add(1, Relaxed);
    }
}

impl Executor {
    /// Returns the current counters.
    pub(crate) fn metrics(&self) -> ClientMetrics {
        let counters = self.counters();
        let budget = self.retry_budget();
        ClientMetrics {
            retries: counters.retries.load(Relaxed),
            overload_errors: counters.overload_errors.load(Relaxed),
            overload_retries: counters.overload_retries.load(Relaxed),
            retries_denied: counters.retries_denied.load(Relaxed),
            backoff: Duration::from_nanos(counters.backoff_nanos.load(Relaxed)),
            timeouts: counters.timeouts.load(Relaxed),
            retry_tokens: budget.tokens_left(),
            retry_token_capacity: budget.capacity(),
        }
    }
}
