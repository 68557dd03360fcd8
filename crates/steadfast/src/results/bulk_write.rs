//! What a bulk write did.

use std::collections::BTreeMap;

use bson::Bson;
use serde::Serialize;

/// What a [`bulk_write`](crate::Collection::bulk_write) did.
///
/// With a write concern of `w: 0` nobody counts: all that is known then are the ids of the
/// documents that were sent to be inserted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BulkWriteResult {
    /// How many documents were inserted.
    pub inserted_count: u64,
    /// How many documents the filters of updates and replacements matched.
    pub matched_count: u64,
    /// How many of them are now different.
    pub modified_count: u64,
    /// How many documents are gone.
    pub deleted_count: u64,
    /// How many documents were inserted because an upsert matched none.
    pub upserted_count: u64,
    /// The `_id`s of the documents that were inserted, by the index of each write.
    pub inserted_ids: BTreeMap<usize, Bson>,
    /// The `_id`s of the documents that upserts inserted, by the index of each write.
    pub upserted_ids: BTreeMap<usize, Bson>,
}
