//! Duplicates of [local writes](super::local_writes): reads that return every event once, and removal of surplus
//! copies.
//!
//! A write that is not acknowledged in time may be applied all the same. An application that then writes to another
//! datacenter can leave two copies of the document, each with its own `_id` and datacenter. No event is lost; the
//! cost is that of reads:
//!
//! - A query must read all datacenters, because a document may be in any of them. [`Duplicates::read`] rejects a
//!   filter on the datacenter.
//! - Of the copies of an event, one is returned: the [first](Keep::First) or the [last](Keep::Last) by the
//!   timestamp of its ObjectId, then by its other bytes. Copies have the same [key](Duplicates::key), which the
//!   application gives each event, such as a `message_id`.
//!
//! [`Duplicates::trim`] deletes the other copies, so that reads skip fewer documents. It is optional: the results of
//! reads are the same without it.
//!
//! The documents and times of this example are those of MongoDB's tutorial on [distributed local
//! writes](https://www.mongodb.com/docs/manual/tutorial/sharding-high-availability-writes/):
//!
//! ```
//! use steadfast::{Client, bson::{Document, doc, oid::ObjectId}};
//! use steadfast_patterns::duplicates::{Duplicates, Keep};
//! # use steadfast_embedded::Deployment;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let deployment = Deployment::replica_set(1).start();
//! # let client = Client::with_uri_str(deployment.uri()).await?;
//! let messages = client.database("app").collection::<Document>("messages");
//! let in_alfa = ObjectId::parse_str("56f08c447fe58b2e96f595fa")?;
//! let in_bravo = ObjectId::parse_str("56f08c457fe58b2e96f595fb")?;
//! assert_eq!(in_alfa.timestamp().try_to_rfc3339_string()?, "2016-03-22T00:05:24Z");
//! assert_eq!(in_bravo.timestamp().try_to_rfc3339_string()?, "2016-03-22T00:05:25Z");
//!
//! // The acknowledgement from alfa was late, and the application wrote to bravo.
//! messages.insert_many([
//!     doc! { "_id": in_alfa, "message_id": 329620, "datacenter": "alfa", "userid": 123 },
//!     doc! { "_id": in_bravo, "message_id": 329620, "datacenter": "bravo", "userid": 123 },
//! ]).await?;
//!
//! let duplicates = Duplicates::of(&messages).key(["message_id"]);
//! let mut found = duplicates.read(doc! { "userid": 123 }).await?;
//! assert!(found.advance().await?);
//! assert_eq!(found.current().get_str("datacenter")?, "alfa");
//! assert!(!found.advance().await?);
//!
//! let mut found = duplicates.clone().keep(Keep::Last).read(doc! { "userid": 123 }).await?;
//! assert!(found.advance().await?);
//! assert_eq!(found.current().get_str("datacenter")?, "bravo");
//! assert!(!found.advance().await?);
//!
//! // By default, a trim is a dry run.
//! assert_eq!(duplicates.trim(doc! {}).await?.surplus, 1);
//! let report = duplicates.trim(doc! {}).dry_run(false).await?;
//! assert_eq!(report.deleted, 1);
//! assert_eq!(messages.find_one(doc! {}).await?.unwrap().get_str("datacenter")?, "alfa");
//! # Ok(()) }
//! ```
//!
//! # Copies
//!
//! Two documents are copies of one event if their keys are equal for a server: `1`, `1.0` and `NumberLong(1)` are
//! equal, and strings are compared byte by byte, not by the collation of the collection. A document is not a
//! copy, and is returned and kept, if
//!
//! - a field of the key is missing or null, so that its event is unknown,
//! - a field of the key is an array, or lies within one, so that it has several values (with two such fields, no
//!   server can sort, and the read fails with the server's error),
//! - its `_id` is not an ObjectId, so that the order of the copies is unknown.
//!
//! # Order and cost
//!
//! Documents are sorted by key. With an index on the key and `_id`, such as `{ message_id: 1, _id: 1 }`, servers
//! need no sort; without one they sort the matching documents, on disk if necessary. The application holds a few
//! documents at a time. Documents without a key come first; those whose key is an array come where the server
//! sorts them.

mod broadcast;
mod key;
mod merge;
mod read;
mod resolve;
mod trim;

use std::fmt;

use bson::Document;
use steadfast::options::{ReadPreference, SelectionCriteria};

use steadfast::{Collection, error::Result};

pub use self::{
    read::Distinct,
    trim::{CopyLocation, Finding, Surplus, Trim, TrimError, TrimReport},
};

/// Field in which a trim marks a copy before it deletes it. Reads leave it out.
const MARK: &str = "steadfast_trim";

/// Copy of an event that reads return and trims keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Keep {
    /// The first one, by its ObjectId.
    #[default]
    First,
    /// The last one, by its ObjectId.
    Last,
}

/// Collections that may have several copies of an event. See [the module](self).
#[must_use]
pub struct Duplicates<T: Send + Sync> {
    collections: Vec<Collection<T>>,
    key: Vec<String>,
    keep: Keep,
    datacenter_field: String,
    criteria: SelectionCriteria,
}

impl<T: Send + Sync> Duplicates<T> {
    /// Creates it for one collection: that of a sharded cluster over all datacenters.
    pub fn of(collection: &Collection<T>) -> Self {
        Self::over([collection])
    }

    /// Creates it for the collections of several deployments, one for each datacenter. Reads merge them by key.
    pub fn over<'c>(collections: impl IntoIterator<Item = &'c Collection<T>>) -> Self
    where
        T: 'c,
    {
        Self {
            collections: collections.into_iter().cloned().collect(),
            key: Vec::new(),
            keep: Keep::default(),
            datacenter_field: "datacenter".to_owned(),
            criteria: ReadPreference::nearest(None).into(),
        }
    }

    /// Sets the fields of the key, whose values are the same in all copies of an event and in no other event. A
    /// field of an embedded document is named with dots.
    pub fn key<F: Into<String>>(mut self, fields: impl IntoIterator<Item = F>) -> Self {
        self.key = fields.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the copy to return. Defaults to the first. All clients that read and trim a collection should use
    /// the same.
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Sets the field that routes documents to their datacenter. Defaults to `datacenter`. Filters must not
    /// contain it, and copies may differ in it.
    pub fn datacenter_field(mut self, field: impl Into<String>) -> Self {
        self.datacenter_field = field.into();
        self
    }

    /// Sets the [read preference](https://www.mongodb.com/docs/manual/core/read-preference/) (`$readPreference`).
    /// Defaults to `nearest`. (A trim reads copies again from primaries before it
    /// deletes any.)
    pub fn selection_criteria(mut self, criteria: impl Into<SelectionCriteria>) -> Self {
        self.criteria = criteria.into();
        self
    }

    /// Reads the documents that match, one for each event, sorted by key.
    ///
    /// The filter must not contain the datacenter's field. Nor should it separate copies of an event in other
    /// ways, such as by `_id`: a copy that it excludes is not recognised.
    ///
    /// # Errors
    ///
    /// An [invalid argument](steadfast::error::Error::is_invalid_argument) if the key is missing or the filter
    /// contains the datacenter's field; otherwise the error of a `find`.
    ///
    /// ```no_run
    /// # async fn run(messages: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    /// use steadfast_patterns::duplicates::Duplicates;
    ///
    /// let duplicates = Duplicates::of(&messages).key(["message_id"]);
    /// let mut found = duplicates.read(doc! { "userid": 123 }).await?;
    /// while found.advance().await? {
    ///     println!("{}", found.deserialize_current()?);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn read(&self, filter: Document) -> Result<Distinct<T>> {
        Distinct::open(self, filter).await
    }

    /// Deletes the surplus copies, or by default only counts them. See [`Trim`].
    pub fn trim(&self, filter: Document) -> Trim<'_, T> {
        Trim::new(self, filter)
    }
}

impl<T: Send + Sync> Clone for Duplicates<T> {
    fn clone(&self) -> Self {
        Self {
            collections: self.collections.clone(),
            key: self.key.clone(),
            keep: self.keep,
            datacenter_field: self.datacenter_field.clone(),
            criteria: self.criteria.clone(),
        }
    }
}

impl<T: Send + Sync> fmt::Debug for Duplicates<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Duplicates")
            .field("collections", &self.collections)
            .field("key", &self.key)
            .field("keep", &self.keep)
            .field("datacenter_field", &self.datacenter_field)
            .finish_non_exhaustive()
    }
}
