//! How documents are updated and replaced.

use bson::{Bson, Document};
use serde::{Deserialize, Serialize};
use steadfast_core::concern::WriteConcern;

use super::{Collation, Hint, options};
use crate::{
    action::{ReplaceOne, Update},
    patterns::{idempotent, many},
};

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
    pub struct UpdateOptions, UpdateOptionsBuilder,
        for ['a] Update<'a>,
        for [] idempotent::UpdateOne,
        for [] many::UpdateMany
    {
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
    pub struct ReplaceOptions, ReplaceOptionsBuilder, for ['a] ReplaceOne<'a> {
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
