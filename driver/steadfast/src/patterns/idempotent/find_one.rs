//! Finding one document.

use bson::Document;
use serde::de::DeserializeOwned;

use super::{USUAL_RETRIES, repeatable};
use crate::{
    Collection,
    error::{Error, Result},
    options::FindOneOptions,
    patterns::again::Sendings,
};

/// Finds a document that matches `filter`, and asks again if the answer is lost.
///
/// With `retryReads` on, which is the default, the driver does that itself, once. This is for more
/// retries, or for a client with `retryReads=false`.
///
/// ```no_run
/// # async fn run(users: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::{bson::doc, patterns::idempotent};
///
/// let ian = idempotent::find_one(&users, doc! { "name": "Ian" }).retries(3).await?;
/// # Ok(()) }
/// ```
pub fn find_one<T: DeserializeOwned + Send + Sync>(
    collection: &Collection<T>,
    filter: Document,
) -> FindOne<T> {
    FindOne { collection: collection.clone(), filter, options: None, retries: USUAL_RETRIES }
}

/// Finds one document. See [`find_one`](find_one()).
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
        let mut sendings =
            Sendings::begin(self.retries, options.timeout, self.collection.timeout());
        let send = |timeout| {
            let options = FindOneOptions { timeout, ..options.clone() };
            self.collection.find_one(self.filter.clone()).with_options(options)
        };
        sendings.until_answered(send).await
    }
}

repeatable!([T: DeserializeOwned + Send + Sync + 'static] FindOne<T> => Option<T>, Error);
setters!(FindOneOptions for [T: Send + Sync] FindOne<T>);
