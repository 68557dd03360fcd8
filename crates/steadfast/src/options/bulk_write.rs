//! How many writes are carried out in few commands.

use bson::{Bson, Document};
use steadfast_core::concern::WriteConcern;

use super::options;
use crate::action::{BulkWrite, CollectionBulkWrite};

options! {
    /// How a bulk write writes: that of a [collection](crate::Collection::bulk_write), or that of a
    /// [client](crate::Client::bulk_write).
    pub struct BulkWriteOptions, BulkWriteOptionsBuilder,
        for ['a] CollectionBulkWrite<'a>, for ['a, R] BulkWrite<'a, R> {
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
