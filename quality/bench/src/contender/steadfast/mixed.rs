//! Bulk write as one call.

use bson::doc;
use steadfast::{
    Collection,
    options::{DeleteOneModel, InsertOneModel, ReplaceOneModel, UpdateOneModel},
};

use crate::{
    Result,
    document::{Book, Numbered},
    workload::mixed::{DELETED, INSERTED, REPLACED, UPDATED},
};

pub(super) async fn write(books: &Collection<Book>, book: &Book) -> Result<()> {
    let books = books.clone_with_type::<Numbered<'_>>();
    let numbered = |id| Numbered { id, book };
    let inserts = INSERTED.map(|id| InsertOneModel::new(numbered(id)).into());
    let updates = UPDATED
        .map(|id| UpdateOneModel::new(doc! { "_id": id }, doc! { "$inc": { "sold": 1 } }).into());
    let replacements =
        REPLACED.map(|id| ReplaceOneModel::new(doc! { "_id": id }, numbered(id)).into());
    let deletes = DELETED.map(|id| DeleteOneModel::new(doc! { "_id": id }).into());
    let models = inserts.chain(updates).chain(replacements).chain(deletes);
    let result = books.bulk_write(models).ordered(false).await?;
    match result.deleted_count {
        300 => Ok(()),
        other => Err(format!("{other} documents were deleted").into()),
    }
}
