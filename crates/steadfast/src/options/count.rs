//! How documents are counted.

use std::time::Duration;

use bson::Bson;
use steadfast_core::{concern::ReadConcern, selection::SelectionCriteria};

use super::{Collation, Hint, options};
use crate::action::{CountDocuments, EstimatedDocumentCount};

options! {
    /// How [`count_documents`](crate::Collection::count_documents) counts.
    pub struct CountOptions, CountOptionsBuilder, for ['a] CountDocuments<'a> {
        /// The index to use.
        hint: Hint,
        /// At how many to stop.
        #[serde(skip_serializing)]
        limit: u64,
        /// How long the server may count.
        #[serde(rename = "maxTimeMS", with = "crate::options::millis")]
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
    pub struct EstimatedDocumentCountOptions, EstimatedDocumentCountOptionsBuilder,
        for ['a] EstimatedDocumentCount<'a>
    {
        /// How long the server may count.
        #[serde(rename = "maxTimeMS", with = "crate::options::millis")]
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
