//! Bulk write as single operations: the official driver has no bulk write for servers before 8.0.

use bson::doc;
use mongodb::Collection;

use crate::{
    Result,
    document::{Book, Numbered},
    workload::mixed::{DELETED, INSERTED, REPLACED, UPDATED},
};

pub(super) async fn write(books: &Collection<Book>, book: &Book) -> Result<()> {
    let books = books.clone_with_type::<Numbered<'_>>();
    let numbered = |id| Numbered { id, book };
    books.insert_many(INSERTED.map(numbered)).await?;
    for id in UPDATED {
        books.update_one(doc! { "_id": id }, doc! { "$inc": { "sold": 1 } }).await?;
    }
    for id in REPLACED {
        books.replace_one(doc! { "_id": id }, numbered(id)).await?;
    }
    for id in DELETED {
        books.delete_one(doc! { "_id": id }).await?;
    }
    Ok(())
}
