//! Reading all of a collection, plainly.

use steadfast::{
    Collection,
    bson::{Document, doc},
    options::ReadConcern,
};

/// All documents, as a majority has them.
pub(crate) async fn all(messages: &Collection<Document>) -> Vec<Document> {
    let mut cursor = messages
        .find(doc! {})
        .read_concern(ReadConcern::majority())
        .batch_size(5000)
        .await
        .unwrap();
    let mut documents = Vec::new();
    while cursor.advance().await.unwrap() {
        documents.push(cursor.deserialize_current().unwrap());
    }
    documents
}
