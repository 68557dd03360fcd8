//! Deleting files.

use std::time::Duration;

use bson::{Bson, Document, doc};
use steadfast_core::read_preference::ReadPreference;

use crate::{
    error::{GridFsFileIdentifier, Outcome, Result},
    gridfs::{GridFsBucket, exactly, no_file},
};

/// How many files are named in one command, so that it does not get too long.
const IDS_AT_A_TIME: usize = 10_000;

impl GridFsBucket {
    /// Deletes the file with this id: first its document, then its chunks. If an error comes in
    /// between, call it again: chunks of a file that is not there any more are deleted, too, before
    /// [`FileNotFound`](crate::error::GridFsErrorKind::FileNotFound) is raised.
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
    pub fn delete(&self, id: Bson) -> Delete<'_> {
        Delete { bucket: self, id, timeout: None }
    }

    /// Deletes every file with this name. It is an error if there is none.
    pub fn delete_by_name(&self, filename: impl Into<String>) -> DeleteByName<'_> {
        DeleteByName { bucket: self, filename: filename.into(), timeout: None }
    }
}

/// Deletes a file. See [`GridFsBucket::delete`].
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
        let deleted = bucket.files_in_time()?.delete_one(exactly("_id", &id)).await;
        let deleted = deleted.map_err(|error| error.within_call(Outcome::NotSent, false))?;
        let is_missing = deleted.deleted_count == 0 && bucket.is_acknowledged();
        let so_far = outcome_of(!is_missing);
        let deleted = bucket.delete_chunks(exactly("files_id", &id)).await;
        let deleted = deleted.map_err(|error| error.within_call(so_far, true))?;
        if is_missing {
            let so_far = outcome_of(deleted.deleted_count > 0);
            return Err(no_file(GridFsFileIdentifier::Id(id)).within_call(so_far, true));
        }
        Ok(())
    }
}

awaitable!(['a] Delete<'a> => ());

/// Deletes files by their name. See [`GridFsBucket::delete_by_name`].
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
            return Err(no_file(GridFsFileIdentifier::Filename(filename)));
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

/// Outcome of the commands of a call that succeeded so far.
fn outcome_of(any_deleted: bool) -> Outcome {
    if any_deleted { Outcome::MaybeApplied } else { Outcome::NotApplied }
}

/// The files of this name, by what the primary knows: what is deleted must not be decided by a
/// member that lags behind.
async fn ids_of(bucket: &GridFsBucket, filename: &str) -> Result<Vec<Bson>> {
    let files = bucket.files_in_time()?.clone_with_type::<Document>();
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
