//! Read of all documents of a collection.

use steadfast::{
    Collection,
    bson::{Document, doc},
    options::ReadConcern,
};

/// Returns all documents, with read concern `majority`.
pub(crate) async fn all_documents(messages: &Collection<Document>) -> Vec<Document> {
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
