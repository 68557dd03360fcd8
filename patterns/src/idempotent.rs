//! Idempotent operations: safe to retry, because a second execution changes nothing.
//!
//! After a lost reply, [retryable writes](https://www.mongodb.com/docs/manual/core/retryable-writes/) apply the
//! write once, on a replica set or a sharded cluster with `retryWrites`, if one retry is enough. This module is for the other cases: standalone
//! servers, `retryWrites=false`, an outage that lasts longer than the driver's retry, an application that was
//! restarted. It relies on the operation itself, not on a record of the server:
//!
//! | | safe to retry because |
//! |---|---|
//! | [`find_one`] | it only reads |
//! | [`insert_one`], [`insert_many`] | the `_id` is created before the first attempt; if it exists already, that attempt was applied |
//! | [`delete_one`] | the filter identifies one document |
//! | [`update_one`] | a [check](update) finds the update idempotent: it sets values instead of changing them |
//!
//! Each is retried only after an error that [can be retried at once](crate::retry::can_retry_at_once); once by
//! default, see [`retries`](InsertOne::retries). The retry waits for a server up to `serverSelectionTimeoutMS`. A time
//! limit (`timeout`) covers all attempts.
//!
//! A result reports its evidence: an insert may be known by a [duplicate of its own
//! key](InsertEvidence::DuplicateOfOwn), and after a lost reply it is [unknown](DeleteOutcome::Unknown) whether a
//! delete found the document. The [`outcome`](steadfast::error::Error::outcome) of an error covers all attempts.
//!
//! For `delete_many` and `update_many` see [`many`](crate::many). Counting is not idempotent: see
//! [`counter`](crate::counter).
//!
//! ```no_run
//! # async fn run(orders: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
//! use steadfast::bson::doc;
//! use steadfast_patterns::idempotent;
//!
//! let order = idempotent::insert_one(&orders, doc! { "item": "kettle" }).await?;
//! let paid = doc! { "$set": { "paid": true } };
//! idempotent::update_one(&orders, doc! { "_id": &order.id }, paid).await?;
//! idempotent::delete_one(&orders, doc! { "_id": order.id }).await?;
//! # Ok(()) }
//! ```

mod counted;
mod delete_one;
mod duplicate_key;
mod filter;
mod find_one;
mod insert_many;
mod insert_one;
mod outcomes;
pub mod update;
mod update_one;

use bson::{Document, RawDocumentBuf};
use bson::{oid::ObjectId, raw::cstr};
use serde::Serialize;
use steadfast::{
    Collection,
    error::{Error, Result},
    options::WriteConcern,
};

pub use self::{
    counted::Counted,
    delete_one::{DeleteOne, DeleteOutcome, delete_one},
    find_one::{FindOne, find_one},
    insert_many::{InsertMany, insert_many},
    insert_one::{InsertEvidence, InsertOne, Inserted, insert_one},
    outcomes::{InsertManyFailure, InsertOutcome, InsertedMany},
    update_one::{UpdateOne, update_one},
};

/// Default number of retries.
pub(super) const DEFAULT_RETRIES: u32 = 1;

/// Makes an action awaitable and adds `retries`.
macro_rules! retried_action {
    ([$($generics:tt)*] $action:ty => $output:ty, $error:ty) => {
        impl<$($generics)*> $action {
            /// Sets the number of retries after an error that [can be retried at
            /// once](crate::retry::can_retry_at_once). Defaults to one.
            pub fn retries(mut self, retries: u32) -> Self {
                self.retries = retries;
                self
            }
        }

        impl<$($generics)*> std::future::IntoFuture for $action {
            type Output = std::result::Result<$output, $error>;
            type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Self::Output> + Send>>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.execute())
            }
        }
    };
}
pub(super) use retried_action;

/// Encoded document with its `_id`, the same for each attempt.
#[derive(Debug)]
struct PreparedDocument {
    bytes: RawDocumentBuf,
    id: bson::Bson,
    /// `true` if the document had an `_id`.
    is_given: bool,
}

impl PreparedDocument {
    fn new(document: &impl Serialize) -> Result<Self> {
        let mut bytes = Vec::new();
        bson::serialize_to_buffer(document, &mut bytes)?;
        let document = RawDocumentBuf::from_bytes(bytes)?;
        if let Some(id) = document.get("_id")? {
            let id = id.try_into()?;
            return Ok(Self { bytes: document, id, is_given: true });
        }
        let id = ObjectId::new();
        let mut bytes = RawDocumentBuf::new();
        bytes.append(cstr!("_id"), id);
        for element in &document {
            let (key, value) = element?;
            bson::append_ref(&mut bytes, key, value);
        }
        Ok(Self { bytes, id: id.into(), is_given: false })
    }
}

/// Rejects unacknowledged writes (`w: 0`): their result is unknown.
pub(super) fn reject_unacknowledged<T: Send + Sync>(
    collection: &Collection<T>,
    own: Option<&WriteConcern>,
) -> Result<()> {
    let concern = own.or(collection.write_concern());
    if concern.is_none_or(WriteConcern::is_acknowledged) {
        return Ok(());
    }
    Err(Error::invalid_argument(
        "write concern w: 0 is not supported: without a reply, the outcome of an attempt is unknown",
    ))
}

/// Rejects filters with random operators, which may match other documents at the next attempt.
pub(super) fn reject_random(filter: &Document, variables: Option<&Document>) -> Result<()> {
    let operator =
        filter::random_operator(filter).or_else(|| variables.and_then(filter::random_operator));
    let Some(operator) = operator else { return Ok(()) };
    Err(Error::invalid_argument(format!(
        "this operation cannot be retried safely: with {operator}, the filter may match other documents \
         at the second attempt; find the _ids first and use them in the filter"
    )))
}
