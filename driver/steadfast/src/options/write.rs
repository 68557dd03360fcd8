//! Options of writes: `insert`, `update`, `delete`, `findAndModify` and bulk writes.

use std::time::Duration;

use bson::{Bson, Document};
use serde::{Deserialize, Serialize};
use steadfast_core::concern::WriteConcern;

use super::{Collation, Hint};

options! {
    /// How [`insert_one`](crate::Collection::insert_one) inserts.
    pub struct InsertOneOptions, InsertOneOptionsBuilder, with timeout {
        /// Whether the collection's validator is passed over.
        bypass_document_validation: bool,
        /// How durable the write must be; by default what the collection says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
    }
}

options! {
    /// How [`insert_many`](crate::Collection::insert_many) inserts.
    pub struct InsertManyOptions, InsertManyOptionsBuilder, with timeout {
        /// Whether the collection's validator is passed over.
        bypass_document_validation: bool,
        /// Whether to stop at the first document that is refused, which is the default, or to go on
        /// with the others.
        ordered: bool,
        /// How durable the writes must be; by default what the collection says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
    }
}

/// What an update does to a document: operators, or a pipeline.
///
/// Both [`Document`] and `Vec<Document>` turn into one, so calls take either as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum UpdateModifications {
    /// Update operators, such as `{ "$set": { "x": 1 } }`.
    Document(Document),
    /// The stages of a pipeline that each document goes through.
    Pipeline(Vec<Document>),
}

impl From<Document> for UpdateModifications {
    fn from(operators: Document) -> Self {
        Self::Document(operators)
    }
}

impl From<Vec<Document>> for UpdateModifications {
    fn from(stages: Vec<Document>) -> Self {
        Self::Pipeline(stages)
    }
}

options! {
    /// How [`update_one`](crate::Collection::update_one) and
    /// [`update_many`](crate::Collection::update_many) update.
    pub struct UpdateOptions, UpdateOptionsBuilder, with timeout {
        /// Which elements of arrays `$[name]` stands for.
        array_filters: Vec<Document>,
        /// Whether the collection's validator is passed over.
        bypass_document_validation: bool,
        /// Whether to insert a document if none matches.
        upsert: bool,
        /// How strings are compared.
        collation: Collation,
        /// The index to use.
        hint: Hint,
        /// How durable the write must be; by default what the collection says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// Variables that the filter and a pipeline may use as `$$name`.
        #[serde(rename = "let")]
        let_vars: Document,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
        /// Of several documents that match, the first in this order is updated. For `update_one`
        /// only, on servers from 8.0.
        sort: Document,
    }
}

options! {
    /// How [`replace_one`](crate::Collection::replace_one) replaces.
    pub struct ReplaceOptions, ReplaceOptionsBuilder, with timeout {
        /// Whether the collection's validator is passed over.
        bypass_document_validation: bool,
        /// Whether to insert the document if none matches.
        upsert: bool,
        /// How strings are compared.
        collation: Collation,
        /// The index to use.
        hint: Hint,
        /// How durable the write must be; by default what the collection says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// Variables that the filter may use as `$$name`.
        #[serde(rename = "let")]
        let_vars: Document,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
        /// Of several documents that match, the first in this order is replaced. On servers from
        /// 8.0 only.
        sort: Document,
    }
}

impl From<ReplaceOptions> for UpdateOptions {
    fn from(replace: ReplaceOptions) -> Self {
        Self {
            array_filters: None,
            bypass_document_validation: replace.bypass_document_validation,
            upsert: replace.upsert,
            collation: replace.collation,
            hint: replace.hint,
            write_concern: replace.write_concern,
            let_vars: replace.let_vars,
            comment: replace.comment,
            sort: replace.sort,
            timeout: replace.timeout,
        }
    }
}

options! {
    /// How [`delete_one`](crate::Collection::delete_one) and
    /// [`delete_many`](crate::Collection::delete_many) delete.
    pub struct DeleteOptions, DeleteOptionsBuilder, with timeout {
        /// How strings are compared.
        collation: Collation,
        /// How durable the write must be; by default what the collection says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// The index to use. On servers from 4.4 only.
        hint: Hint,
        /// Variables that the filter may use as `$$name`.
        #[serde(rename = "let")]
        let_vars: Document,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
    }
}

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
    pub struct FindOneAndUpdateOptions, FindOneAndUpdateOptionsBuilder, with timeout {
        /// Which elements of arrays `$[name]` stands for.
        array_filters: Vec<Document>,
        /// Whether the collection's validator is passed over.
        bypass_document_validation: bool,
        /// How long the server may work on it.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
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
    pub struct FindOneAndReplaceOptions, FindOneAndReplaceOptionsBuilder, with timeout {
        /// Whether the collection's validator is passed over.
        bypass_document_validation: bool,
        /// How long the server may work on it.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
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
    pub struct FindOneAndDeleteOptions, FindOneAndDeleteOptionsBuilder, with timeout {
        /// How long the server may work on it.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
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

options! {
    /// How a bulk write writes: that of a [collection](crate::Collection::bulk_write), or that of a
    /// [client](crate::Client::bulk_write).
    pub struct BulkWriteOptions, BulkWriteOptionsBuilder, with timeout {
        /// Whether to carry out the writes in their order and stop at the first that is refused,
        /// which is the default, or to carry out all of them in whichever order is fastest.
        ordered: bool,
        /// Whether the validators of collections are passed over.
        bypass_document_validation: bool,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
        /// Variables that filters and pipelines may use as `$$name`.
        #[serde(rename = "let")]
        let_vars: Document,
        /// How durable the writes must be; by default what the collection, or the client, says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
    }
}
