//! Record of the chunks stored by an upload, for their deletion.

use std::time::Duration;

use bson::{Bson, DateTime, Document, doc, oid::ObjectId};

use crate::{
    error::{Outcome, Result},
    gridfs::{GridFsBucket, equals},
};

/// Time-out of a deletion in the background, and so the longest that a shutdown waits for one.
const DELETE_TIMEOUT: Duration = Duration::from_secs(5);

/// Chunks and document that an upload has or may have stored.
#[derive(Debug, Default)]
pub(super) struct StoredChunks {
    /// Number of the first chunk that is not known to be stored.
    stored_count: i32,
    /// Ids of the following chunks, which may be stored.
    uncertain: Vec<ObjectId>,
    /// Date of the file's document, if it may be stored.
    file: Option<DateTime>,
}

impl StoredChunks {
    /// Records chunks before they are sent. Returns the number of the first and the ids. `None` if
    /// the numbers would exceed `i32::MAX`.
    pub(super) fn begin_chunks(&mut self, count: usize) -> Option<(i32, Vec<ObjectId>)> {
        self.stored_count.checked_add(i32::try_from(count).ok()?)?;
        self.uncertain = (0..count).map(|_| ObjectId::new()).collect();
        Some((self.stored_count, self.uncertain.clone()))
    }

    /// Records that the chunks sent last are stored.
    pub(super) fn confirm_chunks(&mut self) {
        // `expect` has checked that it fits.
        self.stored_count += i32::try_from(self.uncertain.len()).unwrap_or_default();
        self.uncertain.clear();
    }

    /// Records that the file's document may be stored.
    pub(super) fn begin_file(&mut self, date: DateTime) {
        self.file = Some(date);
    }

    /// Returns the outcome of the commands before the one in progress.
    pub(super) fn outcome(&self) -> Outcome {
        if self.stored_count > 0 { Outcome::MaybeApplied } else { Outcome::NotSent }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.stored_count == 0 && self.uncertain.is_empty() && self.file.is_none()
    }

    /// Deletes the file's document, then the chunks, so that no file without contents is visible.
    pub(super) async fn delete(&self, bucket: &GridFsBucket, id: &Bson) -> Result<()> {
        let has_chunks = self.stored_count > 0 || !self.uncertain.is_empty();
        let mut earlier = Outcome::NotSent;
        if let Some(date) = self.file {
            // If the application set the id, the document may be that of another upload.
            let mut ours = equals("_id", id);
            ours.insert("uploadDate", date);
            let deleted = bucket.files_with_timeout()?.delete_one(ours).await;
            deleted.map_err(|error| error.within_call(earlier, !has_chunks))?;
            earlier = Outcome::MaybeApplied;
        }
        if has_chunks {
            let deleted = bucket.delete_chunks(self.chunks(id)).await;
            deleted.map_err(|error| error.within_call(earlier, true))?;
        }
        Ok(())
    }

    /// Deletes in the background. Errors are ignored.
    pub(super) async fn delete_in_background(&self, bucket: &GridFsBucket, id: &Bson) {
        let _ = tokio::time::timeout(DELETE_TIMEOUT, self.delete(bucket, id)).await;
    }

    /// Returns a filter for the chunks of this upload. Another file may have the same id: chunks
    /// known to be stored are identified by their numbers, which are unique for an id, the others
    /// by their own ids.
    fn chunks(&self, id: &Bson) -> Document {
        let mut chunks = equals("files_id", id);
        let stored_count = doc! { "n": { "$lt": self.stored_count } };
        chunks.insert("$or", vec![stored_count, doc! { "_id": { "$in": &self.uncertain } }]);
        chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_chunks_of_this_upload_are_deleted() {
        let mut stored = StoredChunks::default();
        assert!(stored.is_empty());
        assert_eq!(stored.begin_chunks(3).unwrap().0, 0);
        assert!(!stored.is_empty());
        stored.confirm_chunks();
        let (first, ids) = stored.begin_chunks(1).unwrap();
        assert_eq!(first, 3);
        let expected = doc! {
            "files_id": { "$eq": 7 },
            "$or": [{ "n": { "$lt": 3 } }, { "_id": { "$in": ids } }],
        };
        assert_eq!(stored.chunks(&Bson::Int32(7)), expected);
    }

    #[test]
    fn chunk_numbers_stop_at_i32_max() {
        let mut stored = StoredChunks { stored_count: i32::MAX - 1, ..StoredChunks::default() };
        assert!(stored.begin_chunks(2).is_none());
        assert!(stored.begin_chunks(1).is_some());
        stored.confirm_chunks();
        assert_eq!(stored.stored_count, i32::MAX);
    }
}
