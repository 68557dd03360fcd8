//! Read of one document.

use bson::Document;
use serde::de::DeserializeOwned;

use super::{DEFAULT_RETRIES, retried_action};
use crate::retry::RetryState;
use steadfast::{
    Collection,
    error::{Error, Result},
    options::FindOneOptions,
};

/// Finds a document that matches `filter`, with retries.
///
/// With `retryReads`, the default, the driver retries once. This action is for more retries, or for a client
/// with `retryReads=false`.
///
/// # Errors
///
/// The error of the last attempt; its [attempts](Error::attempts) are those of all attempts.
///
/// ```no_run
/// # async fn run(users: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::bson::doc;
/// use steadfast_patterns::idempotent;
///
/// let ian = idempotent::find_one(&users, doc! { "name": "Ian" }).retries(3).await?;
/// # Ok(()) }
/// ```
pub fn find_one<T: DeserializeOwned + Send + Sync>(
    collection: &Collection<T>,
    filter: Document,
) -> FindOne<T> {
    FindOne { collection: collection.clone(), filter, options: None, retries: DEFAULT_RETRIES }
}

/// Action of [`find_one`](find_one()).
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct FindOne<T: Send + Sync> {
    collection: Collection<T>,
    filter: Document,
    pub(crate) options: Option<FindOneOptions>,
    retries: u32,
}

impl<T: DeserializeOwned + Send + Sync> FindOne<T> {
    async fn execute(self) -> Result<Option<T>> {
        let options = self.options.unwrap_or_default();
        let mut retry = RetryState::begin(self.retries, options.timeout, self.collection.timeout());
        let send = |timeout| {
            let mut options = options.clone();
            options.timeout = timeout;
            self.collection.find_one(self.filter.clone()).with_options(options)
        };
        retry.run(send).await
    }
}

retried_action!([T: DeserializeOwned + Send + Sync + 'static] FindOne<T> => Option<T>, Error);
