//! How pipelines are run.

use std::time::Duration;

use bson::{Bson, Document};
use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use super::{Collation, Hint, TimeoutMode, options};
use crate::action::Aggregate;

options! {
    /// How [`aggregate`](crate::Collection::aggregate) runs its pipeline.
    pub struct AggregateOptions, AggregateOptionsBuilder, for ['a, S, T] Aggregate<'a, S, T> {
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
        #[serde(rename = "maxAwaitTimeMS", with = "crate::options::millis", skip_serializing)]
        max_await_time: Duration,
        /// How long the server may work on the pipeline.
        #[serde(rename = "maxTimeMS", with = "crate::options::millis")]
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
