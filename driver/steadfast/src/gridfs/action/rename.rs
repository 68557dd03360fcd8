//! Giving files other names.

use std::time::Duration;

use bson::{Bson, doc};

use crate::{
    error::{GridFsFileIdentifier, Result},
    gridfs::{GridFsBucket, exactly, no_file},
};

impl GridFsBucket {
    /// Gives the file with this id another name. It is an error if there is no such file.
    pub fn rename(&self, id: Bson, new_filename: impl Into<String>) -> Rename<'_> {
        Rename { bucket: self, id, new_filename: new_filename.into(), timeout: None }
    }

    /// Gives every file with this name another. It is an error if there is none.
    pub fn rename_by_name(
        &self,
        filename: impl Into<String>,
        new_filename: impl Into<String>,
    ) -> RenameByName<'_> {
        let (filename, new_filename) = (filename.into(), new_filename.into());
        RenameByName { bucket: self, filename, new_filename, timeout: None }
    }
}

/// Gives a file another name. See [`GridFsBucket::rename`].
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
        let renamed = bucket.files_in_time()?.update_one(exactly("_id", &id), update).await?;
        if renamed.matched_count == 0 && bucket.is_acknowledged() {
            return Err(no_file(GridFsFileIdentifier::Id(id)));
        }
        Ok(())
    }
}

awaitable!(['a] Rename<'a> => ());

/// Gives files of one name another. See [`GridFsBucket::rename_by_name`].
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
        let renamed = bucket.files_in_time()?.update_many(files, update).await?;
        if renamed.matched_count == 0 && bucket.is_acknowledged() {
            return Err(no_file(GridFsFileIdentifier::Filename(filename)));
        }
        Ok(())
    }
}

awaitable!(['a] RenameByName<'a> => ());
