//! Renaming of files.

use std::time::Duration;

use bson::{Bson, doc};

use crate::{
    error::{GridFsFileIdentifier, Result},
    gridfs::{GridFsBucket, equals, file_not_found},
};

impl GridFsBucket {
    /// Renames a file by id.
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// if let Some(file) = bucket.find_one(doc! { "filename": "song.mp3" }).await? {
    ///     bucket.rename(file.id, "song-1969.mp3").await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`GridFsErrorKind::FileNotFound`](crate::error::GridFsErrorKind::FileNotFound) if the file
    /// does not exist. Otherwise as [`Collection::update_one`](crate::Collection::update_one).
    ///
    /// # Cancellation
    ///
    /// Dropping the future after the command was sent does not stop it: the server may still execute it. See
    /// [cancellation](crate::action#cancellation).
    pub fn rename(&self, id: Bson, new_filename: impl Into<String>) -> Rename<'_> {
        Rename { bucket: self, id, new_filename: new_filename.into(), timeout: None }
    }

    /// Renames all files with a name.
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// bucket.rename_by_name("song.mp3", "song-1969.mp3").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`GridFsErrorKind::FileNotFound`](crate::error::GridFsErrorKind::FileNotFound) if there is
    /// no such file. Otherwise as [`Collection::update_many`](crate::Collection::update_many).
    ///
    /// # Cancellation
    ///
    /// Dropping the future after the command was sent does not stop it: the server may still execute it. See
    /// [cancellation](crate::action#cancellation).
    pub fn rename_by_name(
        &self,
        filename: impl Into<String>,
        new_filename: impl Into<String>,
    ) -> RenameByName<'_> {
        let (filename, new_filename) = (filename.into(), new_filename.into());
        RenameByName { bucket: self, filename, new_filename, timeout: None }
    }
}

/// Action that renames a file. See [`GridFsBucket::rename`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct Rename<'a> {
    bucket: &'a GridFsBucket,
    id: Bson,
    new_filename: String,
    timeout: Option<Duration>,
}

timeout!(['a] Rename<'a>);

impl Rename<'_> {
    async fn execute(self) -> Result<()> {
        let Self { bucket, id, new_filename, timeout } = self;
        let bucket = bucket.timed(timeout);
        let update = doc! { "$set": { "filename": new_filename } };
        let renamed = bucket.files_with_timeout()?.update_one(equals("_id", &id), update).await?;
        if renamed.matched_count == 0 && bucket.is_acknowledged() {
            return Err(file_not_found(GridFsFileIdentifier::Id(id)));
        }
        Ok(())
    }
}

awaitable!(['a] Rename<'a> => ());

/// Action that renames files by name. See [`GridFsBucket::rename_by_name`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct RenameByName<'a> {
    bucket: &'a GridFsBucket,
    filename: String,
    new_filename: String,
    timeout: Option<Duration>,
}

timeout!(['a] RenameByName<'a>);

impl RenameByName<'_> {
    async fn execute(self) -> Result<()> {
        let Self { bucket, filename, new_filename, timeout } = self;
        let bucket = bucket.timed(timeout);
        let update = doc! { "$set": { "filename": new_filename } };
        let files = doc! { "filename": &filename };
        let renamed = bucket.files_with_timeout()?.update_many(files, update).await?;
        if renamed.matched_count == 0 && bucket.is_acknowledged() {
            return Err(file_not_found(GridFsFileIdentifier::Filename(filename)));
        }
        Ok(())
    }
}

awaitable!(['a] RenameByName<'a> => ());
