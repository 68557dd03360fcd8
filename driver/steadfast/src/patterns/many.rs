//! Deleting and updating many documents, so that it can be sent again.
//!
//! No server recognises a `delete_many` or an `update_many` that is sent a second time: they bear no
//! transaction number, and the driver never repeats them. If the reply is lost, some of the documents are
//! written, or all, or none. But most of them can be sent again without harm, and here they are:
//!
//! - [`delete_many`]: what is gone stays gone.
//! - [`update_many`]: if the [check](super::idempotent::update) finds the update to be idempotent. Any
//!   other is refused before anything is sent, and the error says what to do instead.
//!
//! The price is the count. After a sending in doubt, the next one tells what was left to do:
//! [`Counted::exact`] is none then, and [`Counted::at_least`] is what it says.
//!
//! Between two sendings others go on writing: documents that match by then are deleted or updated, too, as
//! if the one operation had come a little later.
//!
//! ```no_run
//! # async fn run(orders: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
//! use steadfast::{bson::doc, patterns::many};
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
    again::Sendings,
    idempotent::{
        USUAL_RETRIES, refuse_chance, refuse_unanswered, repeatable, update::of_update_many,
    },
};
use crate::{
    Collection,
    error::{Error, Result},
    options::{DeleteOptions, UpdateModifications, UpdateOptions},
    results::{DeleteResult, UpdateResult},
};

/// Deletes every document that matches `filter`, and does so again if the answer is lost.
///
/// ```no_run
/// # async fn run(orders: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::{bson::doc, patterns::many};
///
/// let gone = many::delete_many(&orders, doc! { "cancelled": true }).await?;
/// println!("at least {}", gone.at_least().deleted_count);
/// # Ok(()) }
/// ```
pub fn delete_many<T: Send + Sync>(collection: &Collection<T>, filter: Document) -> DeleteMany {
    let collection = collection.clone_with_type();
    DeleteMany { collection, filter, options: None, retries: USUAL_RETRIES }
}

/// Updates every document that matches `filter`, and does so again if the answer is lost; refuses an
/// update that the [check](super::idempotent::update) does not find to be idempotent.
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
        retries: USUAL_RETRIES,
    }
}

/// Deletes many documents. See [`delete_many`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct DeleteMany {
    collection: Collection<Document>,
    filter: Document,
    pub(crate) options: Option<DeleteOptions>,
    retries: u32,
}

/// Updates many documents. See [`update_many`].
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
        refuse_unanswered(&self.collection, options.write_concern.as_ref())?;
        refuse_chance(&self.filter, options.let_vars.as_ref())?;
        let mut sendings =
            Sendings::begin(self.retries, options.timeout, self.collection.timeout());
        let send = |timeout| {
            let options = DeleteOptions { timeout, ..options.clone() };
            self.collection.delete_many(self.filter.clone()).with_options(options)
        };
        let last = sendings.until_answered(send).await?;
        Ok(Counted::new(last, &sendings))
    }
}

impl UpdateMany {
    async fn execute(self) -> Result<Counted<UpdateResult>> {
        let options = self.options.unwrap_or_default();
        refuse_unanswered(&self.collection, options.write_concern.as_ref())?;
        let verdict = of_update_many(&self.filter, &self.update, Some(&options));
        if !verdict.is_idempotent() {
            return Err(Error::invalid_argument(format!(
                "this update_many cannot be sent again safely, it is {verdict}; find the documents and \
                 write a bulk_write of update_one by _id, which the server recognises when it is sent \
                 again, or count with patterns::counter, or use a transaction"
            )));
        }
        let mut sendings =
            Sendings::begin(self.retries, options.timeout, self.collection.timeout());
        let send = |timeout| {
            let options = UpdateOptions { timeout, ..options.clone() };
            let updating = self.collection.update_many(self.filter.clone(), self.update.clone());
            updating.with_options(options)
        };
        let last = sendings.until_answered(send).await?;
        Ok(Counted::new(last, &sendings))
    }
}

repeatable!([] DeleteMany => Counted<DeleteResult>, Error);
repeatable!([] UpdateMany => Counted<UpdateResult>, Error);
setters!(DeleteOptions for [] DeleteMany);
setters!(UpdateOptions for [] UpdateMany);
