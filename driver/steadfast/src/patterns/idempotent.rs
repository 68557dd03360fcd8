//! Operations that can be sent again: sent twice, they do what sent once they do.
//!
//! A reply is lost. Was the write carried out? The driver's retryable writes answer that for you, as long
//! as there is a replica set or a sharded cluster, `retryWrites` is on, and one repeat is enough. This
//! module is for the rest: standalone servers, `retryWrites=false`, an outage that outlasts the driver's
//! own retry, a program that was restarted. It rests on the *operation*, not on a record of the server's:
//!
//! | | why it can be sent again |
//! |---|---|
//! | [`find_one`] | reading twice is as good as once |
//! | [`insert_one`], [`insert_many`] | the `_id` is made before the first sending; if the server has it already, the first sending was carried out |
//! | [`delete_one`] | of one certain document: what is gone stays gone |
//! | [`update_one`] | if the [check](update) finds it idempotent: it says what is to be, not what is to change |
//!
//! Each is sent again only if the failure [may pass](crate::patterns): the network broke, or the server was
//! stopping or losing its office. Once, unless [`retries`](InsertOne::retries) says otherwise: that one
//! sending waits for a server to be found, for as long as the client's `serverSelectionTimeoutMS` says. A
//! time limit (`timeout`) is for all sendings together.
//!
//! A result says how it is known, because that is not always the same: an insert may be
//! [known by its key](Known::ByItsKey) only, and whether a document was deleted now or
//! [perhaps before](Deletion::PerhapsBefore) cannot be told after a lost reply. An error tells of all
//! sendings: its [`outcome`](crate::error::Error::outcome) is that of all of them together.
//!
//! For `delete_many` and `update_many` see [`many`](crate::patterns::many); for counting, which is not
//! idempotent, see [`counter`](crate::patterns::counter).
//!
//! ```no_run
//! # async fn run(orders: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
//! use steadfast::{bson::doc, patterns::idempotent};
//!
//! let order = idempotent::insert_one(&orders, doc! { "item": "kettle" }).await?;
//! let paid = doc! { "$set": { "paid": true } };
//! idempotent::update_one(&orders, doc! { "_id": &order.id }, paid).await?;
//! idempotent::delete_one(&orders, doc! { "_id": order.id }).await?;
//! # Ok(()) }
//! ```

mod counted;
mod delete_one;
mod fates;
mod filter;
mod find_one;
mod insert_many;
mod insert_one;
mod own_key;
pub mod update;
mod update_one;

use bson::{Document, RawDocumentBuf};
use serde::Serialize;
use steadfast_core::concern::WriteConcern;

use crate::{
    Collection,
    error::{Error, Result},
    operation::insert::{self, Id, IdOrigin},
};

pub use self::{
    counted::Counted,
    delete_one::{DeleteOne, Deletion, delete_one},
    fates::{Fate, InsertManyFailure, InsertedMany},
    find_one::{FindOne, find_one},
    insert_many::{InsertMany, insert_many},
    insert_one::{InsertOne, Inserted, Known, insert_one},
    update_one::{UpdateOne, update_one},
};

/// How often an operation is sent again if nothing else is said.
pub(super) const USUAL_RETRIES: u32 = 1;

/// Makes an action awaitable, and gives it its number of retries.
macro_rules! repeatable {
    ([$($generics:tt)*] $action:ty => $output:ty, $error:ty) => {
        impl<$($generics)*> $action {
            /// How often it is sent again after a failure that may pass; once, if nothing is said. None
            /// is zero.
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
pub(super) use repeatable;

/// A document as it is sent each time: bytes, with its `_id`.
#[derive(Debug)]
struct Prepared {
    bytes: RawDocumentBuf,
    id: bson::Bson,
    /// Whether the `_id` is the caller's.
    is_given: bool,
}

impl Prepared {
    fn new(document: &impl Serialize) -> Result<Self> {
        let mut bytes = Vec::new();
        let id = insert::append(document, &mut bytes, IdOrigin::default())?;
        let is_given = matches!(id, Id::Given(_));
        Ok(Self { bytes: RawDocumentBuf::from_bytes(bytes)?, id: id.into(), is_given })
    }
}

/// Refuses a write that is not answered: nothing could be told of it.
pub(super) fn refuse_unanswered<T: Send + Sync>(
    collection: &Collection<T>,
    own: Option<&WriteConcern>,
) -> Result<()> {
    let concern = own.or(collection.write_concern());
    if concern.is_none_or(WriteConcern::is_acknowledged) {
        return Ok(());
    }
    Err(Error::invalid_argument(
        "with a write concern of w: 0 no reply is awaited, so that it cannot be told whether the write \
         has to be sent again",
    ))
}

/// Refuses a filter that chance has a say in, for what such a filter is not repeatable for.
pub(super) fn refuse_chance(filter: &Document, variables: Option<&Document>) -> Result<()> {
    let chance = filter::chance(filter).or_else(|| variables.and_then(filter::chance));
    let Some(operator) = chance else { return Ok(()) };
    Err(Error::invalid_argument(format!(
        "it cannot be sent again safely: with {operator}, the filter may match other documents the \
         second time; find their _ids first, and say these in the filter"
    )))
}
