//! Results of writes: of one document, of many, and of bulk writes.

use std::collections::{BTreeMap, HashMap};

use bson::Bson;
use serde::Serialize;

/// What an `insert_one` did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InsertOneResult {
    /// The `_id` of the document.
    pub inserted_id: Bson,
}

/// What an `insert_many` did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InsertManyResult {
    /// The `_id`s of the documents, by the index of each in what was given.
    pub inserted_ids: HashMap<usize, Bson>,
}

/// What an update or a replacement did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpdateResult {
    /// How many documents the filter matched.
    pub matched_count: u64,
    /// How many of them are now different.
    pub modified_count: u64,
    /// The `_id` of the document that was inserted because none matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upserted_id: Option<Bson>,
}

/// What a deletion did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeleteResult {
    /// How many documents are gone.
    pub deleted_count: u64,
}

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

/// How many documents the [`bulk_write`](crate::Client::bulk_write) of a client wrote.
///
/// With a write concern of `w: 0` nobody counts: then it is not `acknowledged`, and all is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SummaryBulkWriteResult {
    /// Whether the server said so. False for a write concern of `w: 0`.
    pub acknowledged: bool,
    /// How many documents were inserted.
    pub inserted_count: i64,
    /// How many documents the filters of updates and replacements matched.
    pub matched_count: i64,
    /// How many of them are now different.
    pub modified_count: i64,
    /// How many documents were inserted because an upsert matched none.
    pub upserted_count: i64,
    /// How many documents are gone.
    pub deleted_count: i64,
}

/// What each write of a client's [`bulk_write`](crate::Client::bulk_write) did, if it was asked for
/// [`verbose_results`](crate::action::BulkWrite::verbose_results).
///
/// The keys are the places of the writes in what was given.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct VerboseBulkWriteResult {
    /// How many documents were written in all.
    #[serde(flatten)]
    pub summary: SummaryBulkWriteResult,
    /// What each insert did that was carried out.
    pub insert_results: BTreeMap<usize, InsertOneResult>,
    /// What each update and each replacement did that was carried out.
    pub update_results: BTreeMap<usize, UpdateResult>,
    /// What each delete did that was carried out.
    pub delete_results: BTreeMap<usize, DeleteResult>,
}
