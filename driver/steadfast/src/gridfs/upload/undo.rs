//! What an upload has stored, so that exactly that can be deleted.

use std::time::Duration;

use bson::{Bson, DateTime, Document, doc, oid::ObjectId};

use crate::{
    error::{Outcome, Result},
    gridfs::{GridFsBucket, exactly},
};

/// How long deleting may take when nobody waits for it, and so how long at most a shutdown waits.
const LIMIT: Duration = Duration::from_secs(5);

/// What an upload has stored, or may have.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// The chunks before this one are stored.
    settled: i32,
    /// The ids of those that follow, of which it is not known.
    unsure: Vec<ObjectId>,
    /// The date of the file's document, if it may be stored.
    file: Option<DateTime>,
}

impl Stored {
    /// Notes chunks that are about to be sent: the number of the first, and the id of each. None if
    /// their numbers would be too large.
    pub(super) fn expect(&mut self, count: usize) -> Option<(i32, Vec<ObjectId>)> {
        self.settled.checked_add(i32::try_from(count).ok()?)?;
        self.unsure = (0..count).map(|_| ObjectId::new()).collect();
        Some((self.settled, self.unsure.clone()))
    }

    /// The chunks that were sent last are stored.
    pub(super) fn settle(&mut self) {
        // `expect` has made sure that it fits.
        self.settled += i32::try_from(self.unsure.len()).unwrap_or_default();
        self.unsure.clear();
    }

    /// The document of the file may be stored.
    pub(super) fn unsure_of_file(&mut self, date: DateTime) {
        self.file = Some(date);
    }

    /// Outcome of the commands that stored chunks before the one under way.
    pub(super) fn outcome(&self) -> Outcome {
        if self.settled > 0 { Outcome::MaybeApplied } else { Outcome::NotSent }
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.settled == 0 && self.unsure.is_empty() && self.file.is_none()
    }

    /// Deletes it: the file's document first, so that no file is seen without its contents.
    pub(super) async fn delete(&self, bucket: &GridFsBucket, id: &Bson) -> Result<()> {
        let has_chunks = self.settled > 0 || !self.unsure.is_empty();
        let mut so_far = Outcome::NotSent;
        if let Some(date) = self.file {
            // If the application chose the id, the document with it may be of another upload.
            let mut ours = exactly("_id", id);
            ours.insert("uploadDate", date);
            let deleted = bucket.files_in_time()?.delete_one(ours).await;
            deleted.map_err(|error| error.within_call(so_far, !has_chunks))?;
            so_far = Outcome::MaybeApplied;
        }
        if has_chunks {
            let deleted = bucket.delete_chunks(self.chunks(id)).await;
            deleted.map_err(|error| error.within_call(so_far, true))?;
        }
        Ok(())
    }

    /// Deletes it as well as it can be done; nobody is there to be told.
    pub(super) async fn delete_unheard(&self, bucket: &GridFsBucket, id: &Bson) {
        let _ = tokio::time::timeout(LIMIT, self.delete(bucket, id)).await;
    }

    /// A filter for the chunks of this upload. The application may have chosen an id that another
    /// file has: of one number there is only one chunk, so those that are known to be stored can be
    /// told by it, and the others by their own ids.
    fn chunks(&self, id: &Bson) -> Document {
        let mut chunks = exactly("files_id", id);
        let settled = doc! { "n": { "$lt": self.settled } };
        chunks.insert("$or", vec![settled, doc! { "_id": { "$in": &self.unsure } }]);
        chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_chunks_of_this_upload_are_deleted() {
        let mut stored = Stored::default();
        assert!(stored.is_nothing());
        assert_eq!(stored.expect(3).unwrap().0, 0);
        assert!(!stored.is_nothing());
        stored.settle();
        let (first, ids) = stored.expect(1).unwrap();
        assert_eq!(first, 3);
        let expected = doc! {
            "files_id": { "$eq": 7 },
            "$or": [{ "n": { "$lt": 3 } }, { "_id": { "$in": ids } }],
        };
        assert_eq!(stored.chunks(&Bson::Int32(7)), expected);
    }

    #[test]
    fn numbers_of_chunks_end_where_servers_could_not_store_them() {
        let mut stored = Stored { settled: i32::MAX - 1, ..Stored::default() };
        assert!(stored.expect(2).is_none());
        assert!(stored.expect(1).is_some());
        stored.settle();
        assert_eq!(stored.settled, i32::MAX);
    }
}
