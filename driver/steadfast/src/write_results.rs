//! Results of writes and bulk writes.

use std::collections::{BTreeMap, HashMap};

use bson::Bson;
use serde::Serialize;

/// Result of [`insert_one`](crate::Collection::insert_one).
/// See [`insert`](https://www.mongodb.com/docs/manual/reference/command/insert/).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InsertOneResult {
    /// `_id` of the document.
    pub inserted_id: Bson,
}

/// Result of [`insert_many`](crate::Collection::insert_many).
/// See [`insert`](https://www.mongodb.com/docs/manual/reference/command/insert/).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InsertManyResult {
    /// `_id`s of the documents, by their index in the call.
    pub inserted_ids: HashMap<usize, Bson>,
}

/// Result of an update or a replacement.
/// See [`update`](https://www.mongodb.com/docs/manual/reference/command/update/).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpdateResult {
    /// Number of documents that matched the filter.
    pub matched_count: u64,
    /// Number of documents that were modified.
    pub modified_count: u64,
    /// `_id` of the upserted document. `None` if a document matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upserted_id: Option<Bson>,
}

/// Result of a delete.
/// See [`delete`](https://www.mongodb.com/docs/manual/reference/command/delete/).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeleteResult {
    /// Number of documents that were deleted.
    pub deleted_count: u64,
}

/// Result of [`Collection::bulk_write`](crate::Collection::bulk_write).
///
/// With an unacknowledged write concern (`w: 0`), only `inserted_ids` is set: the ids that were
/// sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BulkWriteResult {
    /// Number of documents that were inserted.
    pub inserted_count: u64,
    /// Number of documents that matched the filters of updates and replacements.
    pub matched_count: u64,
    /// Number of documents that were modified.
    pub modified_count: u64,
    /// Number of documents that were deleted.
    pub deleted_count: u64,
    /// Number of documents that were upserted.
    pub upserted_count: u64,
    /// `_id`s of the inserted documents, by the index of the model.
    pub inserted_ids: BTreeMap<usize, Bson>,
    /// `_id`s of the upserted documents, by the index of the model.
    pub upserted_ids: BTreeMap<usize, Bson>,
}

/// Numbers of documents written by [`Client::bulk_write`](crate::Client::bulk_write).
/// See [`bulkWrite`](https://www.mongodb.com/docs/manual/reference/command/bulkWrite/).
///
/// All are zero with an unacknowledged write concern (`w: 0`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SummaryBulkWriteResult {
    /// `true` if the writes were acknowledged, `false` for `w: 0`.
    pub acknowledged: bool,
    /// Number of documents that were inserted.
    pub inserted_count: i64,
    /// Number of documents that matched the filters of updates and replacements.
    pub matched_count: i64,
    /// Number of documents that were modified.
    pub modified_count: i64,
    /// Number of documents that were upserted.
    pub upserted_count: i64,
    /// Number of documents that were deleted.
    pub deleted_count: i64,
}

/// Result of each model of [`Client::bulk_write`](crate::Client::bulk_write), with
/// [`verbose_results`](crate::action::BulkWrite::verbose_results).
///
/// Keys of the maps are the indexes of the models in the call.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct VerboseBulkWriteResult {
    /// Numbers of documents that were written.
    #[serde(flatten)]
    pub summary: SummaryBulkWriteResult,
    /// Results of the inserts that were executed.
    #[serde(serialize_with = "by_index")]
    pub insert_results: HashMap<usize, InsertOneResult>,
    /// Results of the updates and replacements that were executed.
    #[serde(serialize_with = "by_index")]
    pub update_results: HashMap<usize, UpdateResult>,
    /// Results of the deletes that were executed.
    #[serde(serialize_with = "by_index")]
    pub delete_results: HashMap<usize, DeleteResult>,
}

/// Serializes results in the order of their indexes.
fn by_index<T: Serialize, S: serde::Serializer>(
    results: &HashMap<usize, T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    results.iter().collect::<BTreeMap<_, _>>().serialize(serializer)
}
