//! Updating one certain document.

use bson::Document;

use super::{Counted, USUAL_RETRIES, refuse_unanswered, repeatable, update::of_update_one};
use crate::{
    Collection,
    error::{Error, Result},
    options::{UpdateModifications, UpdateOptions},
    patterns::again::Sendings,
    results::UpdateResult,
};

/// Updates the one document that `filter` is about, if the [check](super::update) finds the update to be
/// idempotent; refuses it otherwise, before anything is sent.
///
/// ```no_run
/// # async fn run(days: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::{bson::doc, patterns::idempotent};
///
/// let today = doc! { "_id": "2016-06-28" };
/// idempotent::update_one(&days, today, doc! { "$set": { "sunny": true } }).upsert(true).await?;
/// # Ok(()) }
/// ```
///
/// Between two sendings somebody else may have written; then the second one writes over that.
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
        retries: USUAL_RETRIES,
    }
}

/// Updates one document. See [`update_one`].
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
        refuse_unanswered(&self.collection, options.write_concern.as_ref())?;
        let verdict = of_update_one(&self.filter, &self.update, Some(&options));
        if !verdict.is_idempotent() {
            return Err(Error::invalid_argument(format!(
                "this update_one cannot be sent again safely, it is {verdict}; send it once, with the \
                 driver's retryable writes (Collection::update_one), or count with patterns::counter, \
                 or use a transaction"
            )));
        }
        let mut sendings =
            Sendings::begin(self.retries, options.timeout, self.collection.timeout());
        let send = |timeout| {
            let options = UpdateOptions { timeout, ..options.clone() };
            let updating = self.collection.update_one(self.filter.clone(), self.update.clone());
            updating.with_options(options)
        };
        let last = sendings.until_answered(send).await?;
        Ok(Counted::new(last, &sendings))
    }
}

repeatable!([] UpdateOne => Counted<UpdateResult>, Error);
setters!(UpdateOptions for [] UpdateOne);
