//! One batch of a cursor's documents, and how large it may be.

use bson::{Bson, Document, doc};

/// How many bytes of documents a reply may hold.
pub(crate) const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Some documents of a cursor.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Batch {
    pub(crate) documents: Vec<Document>,
    /// Whether there are no more, and the cursor knows.
    pub(crate) finished: bool,
    /// `invalidated`: a change stream ended because what it is about is gone.
    pub(crate) invalidated: bool,
    /// `postBatchResumeToken`: from where a change stream goes on after this batch.
    pub(crate) resume_token: Option<Document>,
}

impl Batch {
    /// The reply that carries it, under `firstBatch` or `nextBatch`.
    pub(super) fn into_reply(self, key: &str, id: i64, namespace: &str) -> Document {
        let documents: Vec<Bson> = self.documents.into_iter().map(Bson::Document).collect();
        let mut cursor = doc! { key: documents };
        if let Some(token) = self.resume_token {
            cursor.insert("postBatchResumeToken", token);
        }
        if self.invalidated {
            cursor.insert("invalidated", true);
        }
        cursor.insert("id", id);
        cursor.insert("ns", namespace);
        doc! { "cursor": cursor }
    }
}
