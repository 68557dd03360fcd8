//! Update of one document.

use bson::Document;

use super::{
    Counted, DEFAULT_RETRIES, reject_unacknowledged, retried_action, update::of_update_one,
};
use crate::retry::RetryState;
use steadfast::{
    Collection,
    error::{Error, Result},
    options::{UpdateModifications, UpdateOptions},
    results::UpdateResult,
};

/// Updates the document that `filter` identifies, with retries, if the [check](super::update) finds the update
/// idempotent.
///
/// ```no_run
/// # async fn run(days: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::bson::doc;
/// use steadfast_patterns::idempotent;
///
/// let today = doc! { "_id": "2016-06-28" };
/// idempotent::update_one(&days, today, doc! { "$set": { "sunny": true } }).upsert(true).await?;
/// # Ok(()) }
/// ```
///
/// If another client writes between two attempts, the second attempt overwrites its change.
///
/// # Errors
///
/// An [invalid argument](Error::is_invalid_argument) if the update is not idempotent; nothing is sent then.
/// Otherwise the error of the last attempt, whose [outcome](Error::outcome) covers all attempts.
///
/// # Cancellation
///
/// A dropped update may be applied or not. Repeat it.
pub fn update_one<T: Send + Sync>(
    collection: &Collection<T>,
    filter: Document,
    update: impl Into<UpdateModifications>,
) -> UpdateOne {
    UpdateOne {
        collection: collection.clone_with_type(),
        filter,
        update: update.into(),
        options: None,
        retries: DEFAULT_RETRIES,
    }
}

/// Action of [`update_one`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct UpdateOne {
    collection: Collection<Document>,
    filter: Document,
    update: UpdateModifications,
    pub(crate) options: Option<UpdateOptions>,
    retries: u32,
}

impl UpdateOne {
    async fn execute(self) -> Result<Counted<UpdateResult>> {
        let options = self.options.clone().unwrap_or_default();
        reject_unacknowledged(&self.collection, options.write_concern.as_ref())?;
        let check = of_update_one(&self.filter, &self.update, Some(&options));
        if !check.is_idempotent() {
            return Err(Error::invalid_argument(format!(
                "this update_one cannot be retried safely, it is {check}; use Collection::update_one with \
                 retryable writes, or steadfast_patterns::counter, or a transaction"
            )));
        }
        let mut retry = RetryState::begin(self.retries, options.timeout, self.collection.timeout());
        let send = |timeout| {
            let mut options = options.clone();
            options.timeout = timeout;
            let updating = self.collection.update_one(self.filter.clone(), self.update.clone());
            updating.with_options(options)
        };
        let last = retry.run(send).await?;
        Ok(Counted::new(last, &retry))
    }
}

retried_action!([] UpdateOne => Counted<UpdateResult>, Error);
