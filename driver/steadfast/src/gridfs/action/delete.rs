//! Removal of files.

use std::time::Duration;

use bson::{Bson, Document, doc};
use steadfast_core::read_preference::ReadPreference;

use crate::{
    error::{GridFsFileIdentifier, Outcome, Result},
    gridfs::{GridFsBucket, equals, file_not_found},
};

/// Maximum number of ids in one command, which limits its size.
const IDS_AT_A_TIME: usize = 10_000;

impl GridFsBucket {
    /// Deletes a file by id: first its document, then its chunks.
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// After an error, call it again: chunks of a missing file are deleted before
    /// [`FileNotFound`](crate::error::GridFsErrorKind::FileNotFound) is returned.
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// if let Some(file) = bucket.find_one(doc! { "filename": "song.mp3" }).await? {
    ///     bucket.delete(file.id).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`GridFsErrorKind::FileNotFound`](crate::error::GridFsErrorKind::FileNotFound) if the file
    /// does not exist. Otherwise as [`Collection::delete_many`](crate::Collection::delete_many).
    ///
    /// # Cancellation
    ///
    /// Dropping the future may leave chunks without a file. Call the method again to delete them.
    pub fn delete(&self, id: Bson) -> Delete<'_> {
        Delete { bucket: self, id, timeout: None }
    }

    /// Deletes all files with a name.
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// bucket.delete_by_name("song.mp3").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`GridFsErrorKind::FileNotFound`](crate::error::GridFsErrorKind::FileNotFound) if there is
    /// no such file. Otherwise as [`Collection::delete_many`](crate::Collection::delete_many).
    ///
    /// # Cancellation
    ///
    /// Dropping the future may leave chunks without a file.
    pub fn delete_by_name(&self, filename: impl Into<String>) -> DeleteByName<'_> {
        DeleteByName { bucket: self, filename: filename.into(), timeout: None }
    }
}

/// Action that deletes a file. See [`GridFsBucket::delete`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct Delete<'a> {
    bucket: &'a GridFsBucket,
    id: Bson,
    timeout: Option<Duration>,
}

timeout!(['a] Delete<'a>);

impl Delete<'_> {
    async fn execute(self) -> Result<()> {
        let Self { bucket, id, timeout } = self;
        let bucket = bucket.timed(timeout);
        let deleted = bucket.files_with_timeout()?.delete_one(equals("_id", &id)).await;
        let deleted = deleted.map_err(|error| error.within_call(Outcome::NotSent, false))?;
        let is_missing = deleted.deleted_count == 0 && bucket.is_acknowledged();
        let so_far = outcome_of(!is_missing);
        let deleted = bucket.delete_chunks(equals("files_id", &id)).await;
        let deleted = deleted.map_err(|error| error.within_call(so_far, true))?;
        if is_missing {
            let so_far = outcome_of(deleted.deleted_count > 0);
            return Err(file_not_found(GridFsFileIdentifier::Id(id)).within_call(so_far, true));
        }
        Ok(())
    }
}

awaitable!(['a] Delete<'a> => ());

/// Action that deletes files by name. See [`GridFsBucket::delete_by_name`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct DeleteByName<'a> {
    bucket: &'a GridFsBucket,
    filename: String,
    timeout: Option<Duration>,
}

timeout!(['a] DeleteByName<'a>);

impl DeleteByName<'_> {
    async fn execute(self) -> Result<()> {
        let Self { bucket, filename, timeout } = self;
        let bucket = bucket.timed(timeout);
        let ids = ids_of(&bucket, &filename).await?;
        if ids.is_empty() {
            return Err(file_not_found(GridFsFileIdentifier::Filename(filename)));
        }
        let mut so_far = Outcome::NotSent;
        for ids in ids.chunks(IDS_AT_A_TIME) {
            let deleted = bucket.delete_files(doc! { "_id": { "$in": ids } }).await;
            deleted.map_err(|error| error.within_call(so_far, false))?;
            so_far = Outcome::MaybeApplied;
        }
        let mut left = ids.len();
        for ids in ids.chunks(IDS_AT_A_TIME) {
            left -= ids.len();
            let deleted = bucket.delete_chunks(doc! { "files_id": { "$in": ids } }).await;
            deleted.map_err(|error| error.within_call(so_far, left == 0))?;
        }
        Ok(())
    }
}

awaitable!(['a] DeleteByName<'a> => ());

/// Returns the outcome of the successful commands of a call.
fn outcome_of(any_deleted: bool) -> Outcome {
    if any_deleted { Outcome::MaybeApplied } else { Outcome::NotApplied }
}

/// Returns the ids of the files with a name, as read from the primary: a secondary may lag behind.
async fn ids_of(bucket: &GridFsBucket, filename: &str) -> Result<Vec<Bson>> {
    let files = bucket.files_with_timeout()?.clone_with_type::<Document>();
    let mut found = files
        .find(doc! { "filename": filename })
        .projection(doc! { "_id": 1 })
        .selection_criteria(ReadPreference::Primary.into())
        .await?;
    let mut ids = Vec::new();
    while found.advance().await? {
        ids.extend(found.deserialize_current()?.remove("_id"));
    }
    Ok(ids)
}
