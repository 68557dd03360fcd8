//! Deletes and updates of many documents, with retries.
//!
//! `delete_many` and `update_many` are not [retryable
//! writes](https://www.mongodb.com/docs/manual/core/retryable-writes/): they have no `txnNumber`, and the driver
//! never retries them after a network error. If the reply is lost, some of the documents are written, or all, or none. Most of them are
//! idempotent all the same:
//!
//! - [`delete_many`]: a second execution deletes nothing more.
//! - [`update_many`]: if the [check](super::idempotent::update) finds the update idempotent. Any other is an error
//!   before anything is sent.
//!
//! The count may be inexact. After an attempt that may have been applied, the next one counts the remaining
//! documents: [`Counted::exact`] is `None` then, and [`Counted::at_least`] is a lower bound.
//!
//! Documents that match only between two attempts are written as well, as by a single later operation.
//!
//! ```no_run
//! # async fn run(orders: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
//! use steadfast::bson::doc;
//! use steadfast_patterns::many;
//!
//! let late = doc! { "due": { "$lt": 20160628 } };
//! let marked = many::update_many(&orders, late, doc! { "$set": { "late": true } }).await?;
//! match marked.exact() {
//!     Some(result) => println!("{} orders are late", result.matched_count),
//!     None => println!("{} or more", marked.at_least().matched_count),
//! }
//! # Ok(()) }
//! ```

use bson::Document;

pub use super::idempotent::Counted;
use super::{
    idempotent::{
        DEFAULT_RETRIES, reject_random, reject_unacknowledged, retried_action,
        update::of_update_many,
    },
    retry::RetryState,
};
use steadfast::{
    Collection,
    error::{Error, Result},
    options::{DeleteOptions, UpdateModifications, UpdateOptions},
    results::{DeleteResult, UpdateResult},
};

/// Deletes every document that matches `filter`, with retries.
///
/// # Errors
///
/// The error of the last attempt, whose [outcome](Error::outcome) covers all attempts.
///
/// # Cancellation
///
/// A dropped delete may be applied in part. Repeat it.
///
/// ```no_run
/// # async fn run(orders: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::bson::doc;
/// use steadfast_patterns::many;
///
/// let gone = many::delete_many(&orders, doc! { "cancelled": true }).await?;
/// println!("at least {}", gone.at_least().deleted_count);
/// # Ok(()) }
/// ```
pub fn delete_many<T: Send + Sync>(collection: &Collection<T>, filter: Document) -> DeleteMany {
    let collection = collection.clone_with_type();
    DeleteMany { collection, filter, options: None, retries: DEFAULT_RETRIES }
}

/// Updates every document that matches `filter`, with retries, if the [check](super::idempotent::update) finds
/// the update idempotent.
///
/// ```no_run
/// # async fn run(orders: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::bson::doc;
/// use steadfast_patterns::many;
///
/// let paid = doc! { "$set": { "open": false } };
/// let closed = many::update_many(&orders, doc! { "paid": true }, paid).retries(3).await?;
/// println!("at least {}", closed.at_least().modified_count);
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// An [invalid argument](Error::is_invalid_argument) if the update is not idempotent; nothing is sent then.
/// Otherwise the error of the last attempt, whose [outcome](Error::outcome) covers all attempts.
///
/// # Cancellation
///
/// A dropped update may be applied in part. Repeat it.
pub fn update_many<T: Send + Sync>(
    collection: &Collection<T>,
    filter: Document,
    update: impl Into<UpdateModifications>,
) -> UpdateMany {
    UpdateMany {
        collection: collection.clone_with_type(),
        filter,
        update: update.into(),
        options: None,
        retries: DEFAULT_RETRIES,
    }
}

/// Action of [`delete_many`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct DeleteMany {
    collection: Collection<Document>,
    filter: Document,
    pub(crate) options: Option<DeleteOptions>,
    retries: u32,
}

/// Action of [`update_many`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct UpdateMany {
    collection: Collection<Document>,
    filter: Document,
    update: UpdateModifications,
    pub(crate) options: Option<UpdateOptions>,
    retries: u32,
}

impl DeleteMany {
    async fn execute(self) -> Result<Counted<DeleteResult>> {
        let options = self.options.unwrap_or_default();
        reject_unacknowledged(&self.collection, options.write_concern.as_ref())?;
        reject_random(&self.filter, options.let_vars.as_ref())?;
        let mut retry = RetryState::begin(self.retries, options.timeout, self.collection.timeout());
        let send = |timeout| {
            let mut options = options.clone();
            options.timeout = timeout;
            self.collection.delete_many(self.filter.clone()).with_options(options)
        };
        let last = retry.run(send).await?;
        Ok(Counted::new(last, &retry))
    }
}

impl UpdateMany {
    async fn execute(self) -> Result<Counted<UpdateResult>> {
        let options = self.options.unwrap_or_default();
        reject_unacknowledged(&self.collection, options.write_concern.as_ref())?;
        let check = of_update_many(&self.filter, &self.update, Some(&options));
        if !check.is_idempotent() {
            return Err(Error::invalid_argument(format!(
                "this update_many cannot be retried safely, it is {check}; find the documents and use a \
                 bulk_write of update_one by _id with retryable writes, or steadfast_patterns::counter, or a \
                 transaction"
            )));
        }
        let mut retry = RetryState::begin(self.retries, options.timeout, self.collection.timeout());
        let send = |timeout| {
            let mut options = options.clone();
            options.timeout = timeout;
            let updating = self.collection.update_many(self.filter.clone(), self.update.clone());
            updating.with_options(options)
        };
        let last = retry.run(send).await?;
        Ok(Counted::new(last, &retry))
    }
}

retried_action!([] DeleteMany => Counted<DeleteResult>, Error);
retried_action!([] UpdateMany => Counted<UpdateResult>, Error);
