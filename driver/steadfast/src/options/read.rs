//! Options of reads: `find`, `aggregate`, `count` and `distinct`.

use std::time::Duration;

use bson::{Bson, Document};
use serde::{Deserialize, Serialize};
use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use super::Collation;

/// The index that a query is to use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Hint {
    /// The index on these keys.
    Keys(Document),
    /// The index of this name.
    Name(String),
}

/// Whether a cursor ends with the last document that is there, or waits for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum CursorType {
    /// It ends with the last document.
    #[default]
    NonTailable,
    /// It stays open and gives documents that are added later. For capped collections.
    Tailable,
    /// Like `Tailable`, and the server waits a while for a document before it says there is none.
    TailableAwait,
}

/// What the time limit of a call that makes a cursor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum TimeoutMode {
    /// For all of it: the call, and everything that is asked of the cursor later. The default,
    /// except for tailable cursors, which have no end.
    CursorLifetime,
    /// For each step: the call has as much time, and so has each step to the next document.
    Iteration,
}

options! {
    /// How [`find`](crate::Collection::find) finds.
    pub struct FindOptions, FindOptionsBuilder, with timeout {
        /// Whether the server may sort on disk what does not fit into its memory.
        allow_disk_use: bool,
        /// Whether a sharded cluster with shards down answers with what the others have.
        allow_partial_results: bool,
        /// How many documents come at a time.
        #[serde(skip_serializing)]
        batch_size: u32,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
        /// Whether the cursor ends with the last document, or waits for others.
        #[serde(skip_serializing)]
        cursor_type: CursorType,
        /// The index to use.
        hint: Hint,
        /// How many documents to return at most. A negative number asks for as many, in one batch.
        #[serde(skip_serializing)]
        limit: i64,
        /// The upper bound of the index in `hint`, itself left out.
        max: Document,
        /// How long the server waits for a document before it says there is none. For cursors of
        /// type [`TailableAwait`](crate::options::CursorType::TailableAwait) only.
        #[serde(rename = "maxAwaitTimeMS", with = "crate::serde_helpers::millis", skip_serializing)]
        max_await_time: Duration,
        /// How long the server may work on the query.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// The lower bound of the index in `hint`, itself included.
        min: Document,
        /// Whether the server keeps the cursor however long nobody asks it for more.
        no_cursor_timeout: bool,
        /// Which fields of the documents to return.
        projection: Document,
        /// What the query may see; by default what the collection says.
        #[serde(skip_serializing)]
        read_concern: ReadConcern,
        /// Whether to return only the keys of the index that was used.
        return_key: bool,
        /// Which servers the query may go to; by default what the collection says.
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// Whether to add to each document the server's own number for it, as `$recordId`.
        show_record_id: bool,
        /// How many documents to leave out at the beginning.
        skip: u64,
        /// The order of the documents.
        sort: Document,
        /// How strings are compared.
        collation: Collation,
        /// What the time limit is for: the cursor's whole life, or each step of it. Needs a
        /// `timeout`, be it this call's or inherited.
        #[serde(skip)]
        timeout_mode: TimeoutMode,
        /// Variables that the filter may use as `$$name`.
        #[serde(rename = "let")]
        let_vars: Document,
    }
}

options! {
    /// How [`find_one`](crate::Collection::find_one) finds.
    pub struct FindOneOptions, FindOneOptionsBuilder, with timeout {
        /// Whether a sharded cluster with shards down answers with what the others have.
        allow_partial_results: bool,
        /// How strings are compared.
        collation: Collation,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
        /// The index to use.
        hint: Hint,
        /// The upper bound of the index in `hint`, itself left out.
        max: Document,
        /// How long the server may work on the query.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// The lower bound of the index in `hint`, itself included.
        min: Document,
        /// Which fields of the document to return.
        projection: Document,
        /// What the query may see; by default what the collection says.
        #[serde(skip_serializing)]
        read_concern: ReadConcern,
        /// Whether to return only the keys of the index that was used.
        return_key: bool,
        /// Which servers the query may go to; by default what the collection says.
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// Whether to add to the document the server's own number for it, as `$recordId`.
        show_record_id: bool,
        /// How many documents to leave out at the beginning.
        skip: u64,
        /// Of several documents, the first in this order is returned.
        sort: Document,
        /// Variables that the filter may use as `$$name`.
        #[serde(rename = "let")]
        let_vars: Document,
    }
}

impl From<FindOneOptions> for FindOptions {
    /// One document in one batch: nothing is left open on the server.
    fn from(one: FindOneOptions) -> Self {
        Self {
            allow_partial_results: one.allow_partial_results,
            collation: one.collation,
            comment: one.comment,
            hint: one.hint,
            limit: Some(-1),
            max: one.max,
            max_time: one.max_time,
            min: one.min,
            projection: one.projection,
            read_concern: one.read_concern,
            return_key: one.return_key,
            selection_criteria: one.selection_criteria,
            show_record_id: one.show_record_id,
            skip: one.skip,
            sort: one.sort,
            let_vars: one.let_vars,
            timeout: one.timeout,
            ..Self::default()
        }
    }
}

options! {
    /// How [`aggregate`](crate::Collection::aggregate) runs its pipeline.
    pub struct AggregateOptions, AggregateOptionsBuilder, with timeout {
        /// Whether the server may keep on disk what does not fit into its memory.
        allow_disk_use: bool,
        /// How many documents come at a time.
        #[serde(skip_serializing)]
        batch_size: u32,
        /// Whether the validator of the collection written to is passed over.
        bypass_document_validation: bool,
        /// How strings are compared.
        collation: Collation,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
        /// The index to use.
        hint: Hint,
        /// How long the server waits for a document before it says there is none, where the cursor
        /// is one that waits.
        #[serde(rename = "maxAwaitTimeMS", with = "crate::serde_helpers::millis", skip_serializing)]
        max_await_time: Duration,
        /// How long the server may work on the pipeline.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// What the pipeline may see; by default what the collection or database says.
        #[serde(skip_serializing)]
        read_concern: ReadConcern,
        /// Which servers it may go to; by default what the collection or database says.
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// How durable must be what `$out` or `$merge` write; by default what the collection or
        /// database says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// What the time limit is for: the cursor's whole life, or each step of it. Needs a
        /// `timeout`, be it this call's or inherited.
        #[serde(skip)]
        timeout_mode: TimeoutMode,
        /// Variables that the pipeline may use as `$$name`.
        #[serde(rename = "let")]
        let_vars: Document,
    }
}

options! {
    /// How [`count_documents`](crate::Collection::count_documents) counts.
    pub struct CountOptions, CountOptionsBuilder, with timeout {
        /// The index to use.
        hint: Hint,
        /// At how many to stop.
        #[serde(skip_serializing)]
        limit: u64,
        /// How long the server may count.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// How many documents to leave out.
        #[serde(skip_serializing)]
        skip: u64,
        /// How strings are compared.
        collation: Collation,
        /// Which servers it may go to; by default what the collection says.
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// What may be seen; by default what the collection says.
        #[serde(skip_serializing)]
        read_concern: ReadConcern,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
    }
}

options! {
    /// How [`estimated_document_count`](crate::Collection::estimated_document_count) counts.
    pub struct EstimatedDocumentCountOptions, EstimatedDocumentCountOptionsBuilder, with timeout {
        /// How long the server may count.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Which servers it may go to; by default what the collection says.
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// What may be seen; by default what the collection says.
        #[serde(skip_serializing)]
        read_concern: ReadConcern,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
    }
}

options! {
    /// How [`distinct`](crate::Collection::distinct) finds values.
    pub struct DistinctOptions, DistinctOptionsBuilder, with timeout {
        /// How long the server may work on it.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Which servers it may go to; by default what the collection says.
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// What may be seen; by default what the collection says.
        #[serde(skip_serializing)]
        read_concern: ReadConcern,
        /// How strings are compared.
        collation: Collation,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
        /// The index to use. Servers know it from version 7.1 on.
        hint: Hint,
    }
}
