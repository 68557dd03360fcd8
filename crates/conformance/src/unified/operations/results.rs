//! The driver's results as the documents that tests compare them with.

use bson::{Bson, Document, doc};
use serde::{Serialize, de::DeserializeOwned};
use steadfast::{
    ClientSession, Cursor, SessionCursor,
    error::Error,
    results::{BulkWriteResult, DeleteResult, InsertManyResult, InsertOneResult, UpdateResult},
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
        let mut document = doc! {
            "matchedCount": count(result.matched_count),
            "modifiedCount": count(result.modified_count),
            "upsertedCount": i64::from(result.upserted_id.is_some()),
        };
        if let Some(id) = result.upserted_id {
            document.insert("upsertedId", id);
        }
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
