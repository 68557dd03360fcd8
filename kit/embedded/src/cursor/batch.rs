//! A batch of a cursor and its size limit.

use bson::{Bson, Document, doc};

/// Maximum size of the documents in a reply.
pub(crate) const MAX_REPLY_BYTES: usize = 16 * 1024 * 1024;

/// Documents of one batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CursorBatch {
    pub(crate) documents: Vec<Document>,
    /// `true` if the cursor is known to be exhausted.
    pub(crate) finished: bool,
    /// `invalidated`: the change stream has ended because its collection or database is gone.
    pub(crate) invalidated: bool,
    /// `postBatchResumeToken`: the change stream continues after this token.
    pub(crate) resume_token: Option<Document>,
}

impl CursorBatch {
    /// Reply with the batch in `firstBatch` or `nextBatch`.
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
