//! The driver's results as the documents that tests compare them with.

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

use super::Outcome;
use crate::unified::stop::Step;

impl From<InsertOneResult> for Outcome {
    fn from(result: InsertOneResult) -> Self {
        Self::Value(doc! { "insertedId": result.inserted_id }.into())
    }
}

impl From<InsertManyResult> for Outcome {
    fn from(result: InsertManyResult) -> Self {
        let count = count(result.inserted_ids.len() as u64);
        let ids = by_index(result.inserted_ids);
        Self::Value(doc! { "insertedCount": count, "insertedIds": ids }.into())
    }
}

impl From<UpdateResult> for Outcome {
    fn from(result: UpdateResult) -> Self {
        let mut document = doc! { "upsertedCount": i64::from(result.upserted_id.is_some()) };
        document.extend(update(&result));
        Self::Value(document.into())
    }
}

impl From<DeleteResult> for Outcome {
    fn from(result: DeleteResult) -> Self {
        Self::Value(doc! { "deletedCount": count(result.deleted_count) }.into())
    }
}

impl From<BulkWriteResult> for Outcome {
    fn from(result: BulkWriteResult) -> Self {
        Self::Value(bulk_write(&result).into())
    }
}

impl From<Option<Document>> for Outcome {
    fn from(document: Option<Document>) -> Self {
        Self::Value(document.map_or(Bson::Null, Bson::Document))
    }
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Self::Nothing
    }
}

impl From<u64> for Outcome {
    fn from(number: u64) -> Self {
        Self::Value(count(number))
    }
}

impl From<Vec<Bson>> for Outcome {
    fn from(values: Vec<Bson>) -> Self {
        Self::Value(values.into())
    }
}

impl From<Vec<String>> for Outcome {
    fn from(names: Vec<String>) -> Self {
        Self::Value(names.into())
    }
}

impl From<String> for Outcome {
    fn from(name: String) -> Self {
        Self::Value(name.into())
    }
}

/// A bulk write's result, also where it is part of an error.
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

/// What one update did.
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

/// The result of a client's bulk write.
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

/// The same, and what each write did.
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

/// What a bulk write did that failed in part.
pub(crate) fn partial(result: &PartialBulkWriteResult) -> Document {
    match result {
        PartialBulkWriteResult::Summary(result) => summary(result),
        PartialBulkWriteResult::Verbose(result) => verbose(result),
        PartialBulkWriteResult::Collection(result) => bulk_write(result),
    }
}

/// Values by their index, as a document.
pub(crate) fn by_index(values: impl IntoIterator<Item = (usize, Bson)>) -> Document {
    values.into_iter().map(|(index, value)| (index.to_string(), value)).collect()
}

pub(crate) fn count(number: u64) -> Bson {
    Bson::Int64(i64::try_from(number).unwrap_or(i64::MAX))
}

impl From<Vec<Document>> for Outcome {
    fn from(documents: Vec<Document>) -> Self {
        Self::Documents(documents)
    }
}

/// All that the cursor gives.
pub(super) async fn items<T: DeserializeOwned>(mut cursor: Cursor<T>) -> Result<Vec<T>, Error> {
    let mut items = Vec::new();
    while cursor.advance().await? {
        items.push(cursor.deserialize_current()?);
    }
    Ok(items)
}

/// All that the cursor gives in its session.
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

/// Things that the driver has types for, as documents.
pub(super) fn documents<T: Serialize>(items: &[T]) -> Step<Outcome> {
    let documents = items.iter().map(bson::serialize_to_document).collect::<Result<_, _>>()?;
    Ok(Outcome::Documents(documents))
}
