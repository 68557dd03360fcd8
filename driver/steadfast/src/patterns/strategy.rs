//! What to do about an error: five strategies for one counter, to choose from and to compare.
//!
//! An application counts events. For each, it increments a number in a document:
//!
//! ```no_run
//! # async fn run(days: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
//! # use steadfast::bson::doc;
//! let today = doc! { "_id": "2016-06-28" };
//! days.update_one(today, doc! { "$inc": { "counter": 1 } }).upsert(true).await?;
//! # Ok(()) }
//! ```
//!
//! One day that call fails. The connection broke: did the server get the request, or not? Is it a
//! hiccup, or the beginning of an outage? Or did the server itself say no? What the application then
//! does, without having thought about it or after much thought, is its [`Strategy`].
//!
//! | strategy | lost request | lost reply | outage | refusal |
//! |---|---|---|---|---|
//! | [`DontRetry`](Strategy::DontRetry) | **under-counts** | correct | correct | correct |
//! | [`AlwaysRetry`](Strategy::AlwaysRetry) | correct | **over-counts** | **wastes time** | **wastes time** |
//! | [`RetryNetworkErrorsOnce`](Strategy::RetryNetworkErrorsOnce) | correct | **over-counts** | correct | correct |
//! | [`RetryIdempotent`](Strategy::RetryIdempotent) | correct | correct | correct | correct |
//! | [`RetryableWrites`](Strategy::RetryableWrites) | correct | correct | correct | correct |
//!
//! **Which one to take:** [`RetryableWrites`](Strategy::RetryableWrites), which is what the driver does
//! unless it is told otherwise, and costs nothing. [`RetryIdempotent`](Strategy::RetryIdempotent), at
//! two round trips for one, where there are no retryable writes (a standalone server,
//! `retryWrites=false`), or where an event must be counted although the client that counts it crashes. The
//! first three are here to be shown, measured, and recognised in code that one has inherited.

mod tried;

use std::{fmt, str::FromStr};

use bson::{Bson, doc};

pub use self::tried::{IncrementError, Tried};
use super::{again::can_retry_at_once, counter::Counters};
use crate::{
    Collection,
    error::{Error, History, Result},
};

/// What an application does when an operation fails.
///
/// ```
/// use steadfast::patterns::strategy::Strategy;
///
/// let strategy: Strategy = "retry-once".parse()?;
/// assert_eq!(strategy, Strategy::RetryNetworkErrorsOnce);
/// assert!(!strategy.retry_writes(), "it is about clients that do not retry by themselves");
/// # Ok::<(), steadfast::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// `dont-retry`: raises the error. An event whose request was lost is never counted.
    DontRetry,
    /// `always-retry`: on any error, again. An event whose reply was lost is counted twice, and what
    /// cannot succeed is tried in vain, in an outage with the whole wait for a server each time.
    AlwaysRetry {
        /// How often after the first time. Five, unless it says otherwise; ten is seen, too.
        retries: u32,
    },
    /// `retry-once`: once more after a network error and what looks the same (the server is no longer
    /// primary, or is shutting down), as long as the driver looks for a server. What a server refuses
    /// is not tried again. An event whose reply was lost is still counted twice.
    RetryNetworkErrorsOnce,
    /// `idempotent`: the same, and the operation is one that may be done twice, as
    /// [`Counters`] makes the increment: two steps, each safe to repeat.
    RetryIdempotent,
    /// `retryable-writes`: the application does nothing. The driver tries once more, and the server
    /// recognises what it has done already.
    RetryableWrites,
}

impl Strategy {
    /// All of them, from the worst to the best.
    pub const ALL: [Self; 5] = [
        Self::DontRetry,
        Self::AlwaysRetry { retries: Self::FIVE_TIMES },
        Self::RetryNetworkErrorsOnce,
        Self::RetryIdempotent,
        Self::RetryableWrites,
    ];

    const FIVE_TIMES: u32 = 5;

    /// Its name, in the words of a command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::DontRetry => "dont-retry",
            Self::AlwaysRetry { .. } => "always-retry",
            Self::RetryNetworkErrorsOnce => "retry-once",
            Self::RetryIdempotent => "idempotent",
            Self::RetryableWrites => "retryable-writes",
        }
    }

    /// What the client's option `retryWrites` must be, so that it is this strategy that decides, and
    /// not the driver.
    pub fn retry_writes(&self) -> bool {
        matches!(self, Self::RetryableWrites)
    }

    /// Whether the application tries again when it has tried so many times, and got this error.
    pub fn again(&self, attempts_made: u32, error: &Error) -> bool {
        match self {
            Self::DontRetry | Self::RetryableWrites => false,
            Self::AlwaysRetry { retries } => attempts_made <= *retries,
            // The second try takes as long as the driver looks for a server. If it found none, neither
            // would a third.
            Self::RetryNetworkErrorsOnce | Self::RetryIdempotent => {
                attempts_made == 1 && can_retry_at_once(error)
            }
        }
    }

    /// Calls `operation` until it succeeds, or the strategy gives up. The error is then that of the last
    /// attempt, as applications raise it; its [`outcome`](Error::outcome) speaks of all of them.
    ///
    /// With [`RetryIdempotent`](Self::RetryIdempotent), the operation must be safe to do twice;
    /// [`idempotent`](super::idempotent) says which ones are.
    ///
    /// ```no_run
    /// # async fn run(days: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, patterns::strategy::Strategy};
    ///
    /// let sunny = || async {
    ///     let today = doc! { "_id": "2016-06-28" };
    ///     days.update_one(today, doc! { "$set": { "sunny": true } }).upsert(true).await
    /// };
    /// let tried = Strategy::RetryIdempotent.run(sunny).await;
    /// println!("{} attempts", tried.attempts);
    /// tried.result?;
    /// # Ok(()) }
    /// ```
    pub async fn run<T, F>(&self, mut operation: impl FnMut() -> F) -> Tried<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut attempts = 0_u32;
        let mut failed = History::default();
        loop {
            let result = operation().await;
            attempts = attempts.saturating_add(1);
            let Err(error) = result else { return Tried { result, attempts } };
            failed.append(&History::of(&error));
            if !self.again(attempts, &error) {
                // That no server was found this time does not hide what may have happened before.
                let error = if attempts > 1 { error.with_history(failed) } else { error };
                return Tried { result: Err(error), attempts };
            }
        }
    }

    /// Counts one event in the document with this `_id`: increments its field `counter`, and makes
    /// the document if there is none.
    pub async fn increment<T: Send + Sync>(
        &self,
        collection: &Collection<T>,
        id: impl Into<Bson>,
    ) -> Tried<(), IncrementError> {
        let id = id.into();
        match self {
            Self::RetryIdempotent => {
                // It repeats each of its two steps by this same strategy.
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

/// Its [`name`](Strategy::name).
impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Reads a [`name`](Strategy::name).
impl FromStr for Strategy {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(|strategy| strategy.name()).join(", ");
            Error::invalid_argument(format!("{name:?} is no strategy; there are {known}"))
        })
    }
}

#[cfg(test)]
mod tests;
