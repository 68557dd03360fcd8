//! How a document is found and changed in one step.

use std::time::Duration;

use bson::{Bson, Document};
use serde::{Deserialize, Serialize};
use steadfast_core::concern::WriteConcern;

use super::{Collation, Hint, options};
use crate::action::{FindOneAndDelete, FindOneAndReplace, FindOneAndUpdate};

/// Whether a document is returned as it was or as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ReturnDocument {
    /// As it was before the change.
    #[default]
    #[serde(rename = "before", alias = "Before")]
    Before,
    /// As it is after the change.
    #[serde(rename = "after", alias = "After")]
    After,
}

options! {
    /// How [`find_one_and_update`](crate::Collection::find_one_and_update) finds and updates.
    pub struct FindOneAndUpdateOptions, FindOneAndUpdateOptionsBuilder,
    for ['a, T: Send + Sync] FindOneAndUpdate<'a, T> {
        /// Which elements of arrays `$[name]` stands for.
        array_filters: Vec<Document>,
        /// Whether the collection's validator is passed over.
        bypass_document_validation: bool,
        /// How long the server may work on it.
        #[serde(rename = "maxTimeMS", with = "crate::options::millis")]
        max_time: Duration,
        /// Which fields of the document to return.
        projection: Document,
        /// Whether the document is returned as it was, which is the default, or as it is.
        return_document: ReturnDocument,
        /// Of several documents that match, the first in this order is updated.
        sort: Document,
        /// Whether to insert a document if none matches.
        upsert: bool,
        /// How durable the write must be; by default what the collection says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// How strings are compared.
        collation: Collation,
        /// The index to use. On servers from 4.4 only.
        hint: Hint,
        /// Variables that the filter and a pipeline may use as `$$name`.
        #[serde(rename = "let")]
        let_vars: Document,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
    }
}

options! {
    /// How [`find_one_and_replace`](crate::Collection::find_one_and_replace) finds and replaces.
    pub struct FindOneAndReplaceOptions, FindOneAndReplaceOptionsBuilder,
    for ['a, T: Send + Sync] FindOneAndReplace<'a, T> {
        /// Whether the collection's validator is passed over.
        bypass_document_validation: bool,
        /// How long the server may work on it.
        #[serde(rename = "maxTimeMS", with = "crate::options::millis")]
        max_time: Duration,
        /// Which fields of the document to return.
        projection: Document,
        /// Whether the document is returned as it was, which is the default, or as it is.
        return_document: ReturnDocument,
        /// Of several documents that match, the first in this order is replaced.
        sort: Document,
        /// Whether to insert the document if none matches.
        upsert: bool,
        /// How durable the write must be; by default what the collection says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// How strings are compared.
        collation: Collation,
        /// The index to use. On servers from 4.4 only.
        hint: Hint,
        /// Variables that the filter may use as `$$name`.
        #[serde(rename = "let")]
        let_vars: Document,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
    }
}

options! {
    /// How [`find_one_and_delete`](crate::Collection::find_one_and_delete) finds and deletes.
    pub struct FindOneAndDeleteOptions, FindOneAndDeleteOptionsBuilder,
    for ['a, T: Send + Sync] FindOneAndDelete<'a, T> {
        /// How long the server may work on it.
        #[serde(rename = "maxTimeMS", with = "crate::options::millis")]
        max_time: Duration,
        /// Which fields of the document to return.
        projection: Document,
        /// Of several documents that match, the first in this order is deleted.
        sort: Document,
        /// How durable the write must be; by default what the collection says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// How strings are compared.
        collation: Collation,
        /// The index to use. On servers from 4.4 only.
        hint: Hint,
        /// Variables that the filter may use as `$$name`.
        #[serde(rename = "let")]
        let_vars: Document,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
    }
}
