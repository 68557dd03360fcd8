//! Duplicates of [local writes](super::local_writes): reading every event once, and removing the copies
//! that are too many.
//!
//! A write that was not acknowledged in time may have been carried out all the same. An application that
//! answers by writing the document to another datacenter can leave it behind twice, with an `_id` and a
//! datacenter of its own each time. Nothing is lost that way, and so the price is paid when reading:
//!
//! - A query must ask all datacenters, because nobody knows where a document went. [`Duplicates::read`]
//!   refuses a filter that names the datacenter.
//! - Of the copies of an event, one counts: the [first](Keep::First) or the [last](Keep::Last) by the
//!   timestamp in its ObjectId, then by the rest of it. Copies are recognised by a
//!   [key](Duplicates::key) that the application gives each event, such as a `message_id`.
//!
//! [`Duplicates::trim`] deletes the other copies, so that readers have less to leave out. It is never
//! needed: the reading is right with or without it.
//!
//! The documents and times of this example are those of MongoDB's tutorial on distributed local writes:
//!
//! ```
//! use steadfast::{
//!     Client,
//!     bson::{Document, doc, oid::ObjectId},
//!     patterns::duplicates::{Duplicates, Keep},
//! };
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
//! // What would a trim delete? Unless it is told to delete, it only looks.
//! assert_eq!(duplicates.trim(doc! {}).await?.surplus, 1);
//! let report = duplicates.trim(doc! {}).dry_run(false).await?;
//! assert_eq!(report.deleted, 1);
//! assert_eq!(messages.find_one(doc! {}).await?.unwrap().get_str("datacenter")?, "alfa");
//! # Ok(()) }
//! ```
//!
//! # What is a copy
//!
//! Two documents are copies of one event if their keys are equal as a server sees it: `1`, `1.0` and
//! `NumberLong(1)` are equal, strings are compared byte by byte, whatever collation the collection has.
//! A document is nobody's copy, and is read and left alone, if
//!
//! - a field of the key is missing or null: then nothing says which event it is,
//! - a field of the key is an array, or lies within one: then there are several values (if two fields are,
//!   no server can sort it, and the reading fails with the server's reason),
//! - its `_id` is not an ObjectId: then nothing says which copy was first.
//!
//! # The order, and what it costs
//!
//! Documents come sorted by key. Have an index on the key and `_id`, such as `{ message_id: 1, _id: 1 }`,
//! and the servers have nothing to sort; without one they sort what matches, on disk if it is much. The
//! application holds a few documents at a time, however many there are. Documents without a key come
//! first, those whose key is an array where the server puts them.

mod broadcast;
mod key;
mod merge;
mod read;
mod resolve;
mod trim;

use std::fmt;

use bson::Document;
use steadfast_core::{read_preference::ReadPreference, selection::SelectionCriteria};

use crate::{Collection, error::Result};

pub use self::{
    read::Distinct,
    trim::{CopyAt, Finding, Surplus, Trim, TrimError, TrimReport},
};

/// The field that a trim marks a copy with before it deletes it. Readings leave it out.
const MARK: &str = "steadfast_trim";

/// Which copy of an event counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Keep {
    /// The one that was made first, by its ObjectId.
    #[default]
    First,
    /// The one that was made last, by its ObjectId.
    Last,
}

/// Collections that may hold several copies of an event. See [the module](self).
#[must_use]
pub struct Duplicates<T: Send + Sync> {
    collections: Vec<Collection<T>>,
    key: Vec<String>,
    keep: Keep,
    datacenter_field: String,
    criteria: SelectionCriteria,
}

impl<T: Send + Sync> Duplicates<T> {
    /// The copies in one collection: that of a sharded cluster over all datacenters.
    pub fn of(collection: &Collection<T>) -> Self {
        Self::over([collection])
    }

    /// The copies in the collections of several deployments, one for each datacenter. All of them are
    /// read, and merged by key.
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

    /// The fields that name an event: all its copies have the same values there, and nothing else has.
    /// A field of an embedded document is named with dots.
    pub fn key<F: Into<String>>(mut self, fields: impl IntoIterator<Item = F>) -> Self {
        self.key = fields.into_iter().map(Into::into).collect();
        self
    }

    /// Which copy counts; the first, unless this is set. All who read and trim the same collection should
    /// agree on it.
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// The field that routes documents to their datacenter, `datacenter` unless this is set: filters must
    /// not name it, and copies may differ in it.
    pub fn datacenter_field(mut self, field: impl Into<String>) -> Self {
        self.datacenter_field = field.into();
        self
    }

    /// Which servers are read from; the nearest, unless this is set. (What a trim deletes it looks at on
    /// primaries again.)
    pub fn selection_criteria(mut self, criteria: impl Into<SelectionCriteria>) -> Self {
        self.criteria = criteria.into();
        self
    }

    /// Reads the documents that match, one for each event, sorted by key.
    ///
    /// The filter must not name the datacenter's field. Nor should it tell copies of an event apart in
    /// other ways, such as by `_id`: what it leaves out cannot be recognised as a copy.
    ///
    /// ```no_run
    /// # async fn run(messages: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, patterns::duplicates::Duplicates};
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

    /// Deletes the copies that are too many, or, unless it is told to, only counts them. See [`Trim`].
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
