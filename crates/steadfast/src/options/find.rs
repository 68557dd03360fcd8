//! How documents are found.

use std::time::Duration;

use bson::{Bson, Document};
use steadfast_core::{concern::ReadConcern, selection::SelectionCriteria};

use super::{Collation, CursorType, Hint, TimeoutMode, options};
use crate::{
    action::{Find, FindOne},
    patterns::idempotent,
};

options! {
    /// How [`find`](crate::Collection::find) finds.
    pub struct FindOptions, FindOptionsBuilder, for ['a, T: Send + Sync, S] Find<'a, T, S> {
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
        /// type [`TailableAwait`](CursorType::TailableAwait) only.
        #[serde(rename = "maxAwaitTimeMS", with = "crate::options::millis", skip_serializing)]
        max_await_time: Duration,
        /// How long the server may work on the query.
        #[serde(rename = "maxTimeMS", with = "crate::options::millis")]
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
    pub struct FindOneOptions, FindOneOptionsBuilder,
        for ['a, T: Send + Sync] FindOne<'a, T>,
        for [T: Send + Sync] idempotent::FindOne<T>
    {
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
        #[serde(rename = "maxTimeMS", with = "crate::options::millis")]
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
