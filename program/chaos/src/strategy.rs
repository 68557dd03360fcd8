//! Retry strategies of applications, compared by the count of a counter.
//!
//! Three of them are common and wrong; they are included for comparison.
//! [`docs/resilience.md`](https://github.com/steadfast-db/steadfast/blob/main/docs/resilience.md) has the
//! measured table. Applications should use retryable writes or `steadfast-patterns`.
//!
//! | strategy | lost request | lost reply | outage | command error |
//! |---|---|---|---|---|
//! | [`DontRetry`](Strategy::DontRetry) | **under-counts** | correct | correct | correct |
//! | [`AlwaysRetry`](Strategy::AlwaysRetry) | correct | **over-counts** | **wastes time** | **wastes time** |
//! | [`RetryNetworkErrorsOnce`](Strategy::RetryNetworkErrorsOnce) | correct | **over-counts** | correct | correct |
//! | [`RetryIdempotent`](Strategy::RetryIdempotent) | correct | correct | correct | correct |
//! | [`RetryableWrites`](Strategy::RetryableWrites) | correct | correct | correct | correct |

use std::{fmt, str::FromStr};

use steadfast::{
    Collection,
    bson::{Bson, doc},
    error::{Error, Outcome, Result},
};
use steadfast_patterns::{
    counter::{CounterError, Counters},
    retry::can_retry_at_once,
};

/// Reaction of an application to the error of an operation.
///
/// ```
/// use steadfast_chaos::strategy::Strategy;
///
/// let strategy: Strategy = "retry-once".parse()?;
/// assert_eq!(strategy, Strategy::RetryNetworkErrorsOnce);
/// assert!(!strategy.retry_writes(), "for clients with retryWrites=false");
/// # Ok::<(), steadfast::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// `dont-retry`: returns the error. An event whose request was lost is never counted.
    DontRetry,
    /// `always-retry`: retries after any error. An event whose reply was lost is counted twice. In an
    /// outage, each retry waits for `serverSelectionTimeoutMS`.
    AlwaysRetry {
        /// Number of retries. [`ALL`](Strategy::ALL) has five.
        retries: u32,
    },
    /// `retry-once`: retries once after a network error or a state change error. An event whose reply was
    /// lost is counted twice.
    RetryNetworkErrorsOnce,
    /// `idempotent`: retries idempotent operations as `retry-once` does. [`Counters`] makes the increment idempotent.
    RetryIdempotent,
    /// `retryable-writes`: the driver retries, and the server recognises the retry.
    RetryableWrites,
}

impl Strategy {
    /// All strategies. The correct ones come last.
    pub const ALL: [Self; 5] = [
        Self::DontRetry,
        Self::AlwaysRetry { retries: 5 },
        Self::RetryNetworkErrorsOnce,
        Self::RetryIdempotent,
        Self::RetryableWrites,
    ];

    /// Returns the name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::DontRetry => "dont-retry",
            Self::AlwaysRetry { .. } => "always-retry",
            Self::RetryNetworkErrorsOnce => "retry-once",
            Self::RetryIdempotent => "idempotent",
            Self::RetryableWrites => "retryable-writes",
        }
    }

    /// Returns the client option `retryWrites` for this strategy. With `false`, the driver does not retry.
    pub fn retry_writes(&self) -> bool {
        matches!(self, Self::RetryableWrites)
    }

    /// Returns `true` if the application retries after this error.
    pub fn retries_after(&self, attempts_made: u32, error: &Error) -> bool {
        match self {
            Self::DontRetry | Self::RetryableWrites => false,
            Self::AlwaysRetry { retries } => attempts_made <= *retries,
            Self::RetryNetworkErrorsOnce | Self::RetryIdempotent => {
                attempts_made == 1 && can_retry_at_once(error)
            }
        }
    }

    /// Calls `operation` until it succeeds or the strategy gives up.
    ///
    /// The error is that of the last attempt. Its [`outcome`](Error::outcome) covers all attempts.
    pub async fn run<T, F>(&self, mut operation: impl FnMut() -> F) -> Tried<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut attempts = 0_u32;
        let mut failed: Option<Error> = None;
        loop {
            let result = operation().await;
            attempts = attempts.saturating_add(1);
            let Err(error) = result else { return Tried { result, attempts } };
            let goes_on = self.retries_after(attempts, &error);
            let error = match failed.take() {
                // The outcome of earlier attempts remains in doubt, even if the retry was not sent.
                Some(earlier) => error.with_earlier(&earlier),
                None => error,
            };
            if !goes_on {
                return Tried { result: Err(error), attempts };
            }
            failed = Some(error);
        }
    }

    /// Increments the field `counter` of the document with this `_id`, which it inserts if it is missing.
    pub async fn increment<T: Send + Sync>(
        &self,
        collection: &Collection<T>,
        id: impl Into<Bson>,
    ) -> Tried<(), IncrementError> {
        let id = id.into();
        match self {
            Self::RetryIdempotent => {
                // The counter retries each of its two steps by the same rule.
                let counted = Counters::new(collection).increment(id).await;
                Tried { result: counted.map_err(IncrementError::Counter), attempts: 1 }
            }
            Self::DontRetry
            | Self::AlwaysRetry { .. }
            | Self::RetryNetworkErrorsOnce
            | Self::RetryableWrites => {
                let Tried { result, attempts } = self.run(|| add_one(collection, id.clone())).await;
                Tried { result: result.map_err(IncrementError::Update), attempts }
            }
        }
    }
}

async fn add_one<T: Send + Sync>(collection: &Collection<T>, id: Bson) -> Result<()> {
    let one_more = doc! { "$inc": { "counter": 1_i64 } };
    collection.update_one(doc! { "_id": id }, one_more).upsert(true).await.map(drop)
}

/// Writes the [`name`](Strategy::name).
impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Parses a [`name`](Strategy::name).
impl FromStr for Strategy {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(|strategy| strategy.name()).join(", ");
            Error::invalid_argument(format!("{name:?} is not a strategy; strategies are {known}"))
        })
    }
}

/// Result of an operation, and the number of its attempts.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct Tried<T, E = Error> {
    /// Result of the last attempt. The [`outcome`](Error::outcome) of an error covers all attempts.
    pub result: std::result::Result<T, E>,
    /// Number of calls of the operation, without retries inside a call by the driver or by [`Counters`]. Those are in
    /// [`Error::attempts`].
    pub attempts: u32,
}

/// Error of an increment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum IncrementError {
    /// Error of the update.
    Update(Error),
    /// Error of the counter, in one of its two steps.
    Counter(CounterError),
}

impl IncrementError {
    /// Returns whether the event was counted, or may be counted later, for example by a sweep.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Update(error) => error.outcome(),
            Self::Counter(error) => error.outcome(),
        }
    }
}

impl fmt::Display for IncrementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Update(error) => error.fmt(f),
            Self::Counter(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for IncrementError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Update(error) => error.source(),
            Self::Counter(error) => error.source(),
        }
    }
}

#[cfg(test)]
mod tests;
