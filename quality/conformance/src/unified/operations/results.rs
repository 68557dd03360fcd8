//! Conversion of the driver's results to documents, as tests compare them.

use bson::{Bson, Document, doc};
use serde::{Serialize, de::DeserializeOwned};
use steadfast::{
    ClientSession, Cursor, SessionCursor,
    error::{Error, PartialBulkWriteResult},
    results::{
        BulkWriteResult, DeleteResult, InsertManyResult, InsertOneResult, SummaryBulkWriteResult,
        UpdateResult, VerboseBulkWriteResult,
    },
};

use super::OperationResult;
use crate::unified::test_error::TestResult;

impl From<InsertOneResult> for OperationResult {
    fn from(result: InsertOneResult) -> Self {
        Self::Value(doc! { "insertedId": result.inserted_id }.into())
    }
}

impl From<InsertManyResult> for OperationResult {
    fn from(result: InsertManyResult) -> Self {
        let count = count(result.inserted_ids.len() as u64);
        let ids = by_index(result.inserted_ids);
        Self::Value(doc! { "insertedCount": count, "insertedIds": ids }.into())
    }
}

impl From<UpdateResult> for OperationResult {
    fn from(result: UpdateResult) -> Self {
        let mut document = doc! { "upsertedCount": i64::from(result.upserted_id.is_some()) };
        document.extend(update(&result));
        Self::Value(document.into())
    }
}

impl From<DeleteResult> for OperationResult {
    fn from(result: DeleteResult) -> Self {
        Self::Value(doc! { "deletedCount": count(result.deleted_count) }.into())
    }
}

impl From<BulkWriteResult> for OperationResult {
    fn from(result: BulkWriteResult) -> Self {
        Self::Value(bulk_write(&result).into())
    }
}

impl From<Option<Document>> for OperationResult {
    fn from(document: Option<Document>) -> Self {
        Self::Value(document.map_or(Bson::Null, Bson::Document))
    }
}

impl From<()> for OperationResult {
    fn from((): ()) -> Self {
        Self::Nothing
    }
}

impl From<u64> for OperationResult {
    fn from(number: u64) -> Self {
        Self::Value(count(number))
    }
}

impl From<Vec<Bson>> for OperationResult {
    fn from(values: Vec<Bson>) -> Self {
        Self::Value(values.into())
    }
}

impl From<Vec<String>> for OperationResult {
    fn from(names: Vec<String>) -> Self {
        Self::Value(names.into())
    }
}

impl From<String> for OperationResult {
    fn from(name: String) -> Self {
        Self::Value(name.into())
    }
}

/// Result of a collection's bulk write, also as a partial result.
pub(crate) fn bulk_write(result: &BulkWriteResult) -> Document {
    doc! {
        "insertedCount": count(result.inserted_count),
        "matchedCount": count(result.matched_count),
        "modifiedCount": count(result.modified_count),
        "deletedCount": count(result.deleted_count),
        "upsertedCount": count(result.upserted_count),
        "insertedIds": by_index(result.inserted_ids.clone()),
        "upsertedIds": by_index(result.upserted_ids.clone()),
    }
}

/// Result of one update.
fn update(result: &UpdateResult) -> Document {
    let mut document = doc! {
        "matchedCount": count(result.matched_count),
        "modifiedCount": count(result.modified_count),
    };
    if let Some(id) = &result.upserted_id {
        document.insert("upsertedId", id);
    }
    document
}

/// Summary result of a client's bulk write.
pub(super) fn summary(result: &SummaryBulkWriteResult) -> Document {
    if !result.acknowledged {
        return doc! { "acknowledged": false };
    }
    doc! {
        "acknowledged": true,
        "insertedCount": result.inserted_count,
        "matchedCount": result.matched_count,
        "modifiedCount": result.modified_count,
        "deletedCount": result.deleted_count,
        "upsertedCount": result.upserted_count,
    }
}

/// Verbose result of a client's bulk write.
pub(super) fn verbose(result: &VerboseBulkWriteResult) -> Document {
    let inserts = result.insert_results.iter();
    let inserts = inserts.map(|(at, one)| (*at, doc! { "insertedId": &one.inserted_id }.into()));
    let updates = result.update_results.iter().map(|(at, one)| (*at, update(one).into()));
    let deletes = result.delete_results.iter();
    let deletes =
        deletes.map(|(at, one)| (*at, doc! { "deletedCount": count(one.deleted_count) }.into()));
    let mut document = summary(&result.summary);
    document.insert("insertResults", by_index(inserts));
    document.insert("updateResults", by_index(updates));
    document.insert("deleteResults", by_index(deletes));
    document
}

/// Partial result of a bulk write.
pub(crate) fn partial(result: &PartialBulkWriteResult) -> Document {
    match result {
        PartialBulkWriteResult::Summary(result) => summary(result),
        PartialBulkWriteResult::Verbose(result) => verbose(result),
    }
}

/// Document with the values under their indexes.
pub(crate) fn by_index(values: impl IntoIterator<Item = (usize, Bson)>) -> Document {
    values.into_iter().map(|(index, value)| (index.to_string(), value)).collect()
}

pub(crate) fn count(number: u64) -> Bson {
    Bson::Int64(i64::try_from(number).unwrap_or(i64::MAX))
}

impl From<Vec<Document>> for OperationResult {
    fn from(documents: Vec<Document>) -> Self {
        Self::Documents(documents)
    }
}

/// Collects the items of a cursor.
pub(super) async fn items<T: DeserializeOwned>(mut cursor: Cursor<T>) -> Result<Vec<T>, Error> {
    let mut items = Vec::new();
    while cursor.advance().await? {
        items.push(cursor.deserialize_current()?);
    }
    Ok(items)
}

/// Collects the items of a cursor in a session.
pub(super) async fn items_in_session<T: DeserializeOwned>(
    mut cursor: SessionCursor<T>,
    session: &mut ClientSession,
) -> Result<Vec<T>, Error> {
    let mut items = Vec::new();
    while cursor.advance(session).await? {
        items.push(cursor.deserialize_current()?);
    }
    Ok(items)
}

/// Serializes items to documents.
pub(super) fn documents<T: Serialize>(items: &[T]) -> TestResult<OperationResult> {
    let documents = items.iter().map(bson::serialize_to_document).collect::<Result<_, _>>()?;
    Ok(OperationResult::Documents(documents))
}
