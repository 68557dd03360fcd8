//! GridFS with a blocking API. See the async [`gridfs`](crate::gridfs).
//!
//! ```no_run
//! # fn run(database: steadfast::sync::Database) -> steadfast::error::Result<()> {
//! use std::{fs::File, io};
//!
//! let bucket = database.gridfs_bucket(None);
//! let mut upload = bucket.open_upload_stream("song.mp3").run()?;
//! io::copy(&mut File::open("song.mp3")?, &mut upload)?;
//! upload.close()?;
//!
//! let mut download = bucket.open_download_stream_by_name("song.mp3").run()?;
//! io::copy(&mut download, &mut File::create("copy.mp3")?)?;
//! # Ok(()) }
//! ```

use std::fmt;

use bson::{Bson, Document};
use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    action::gridfs::{
        Delete, DeleteByName, DownloadToStream, DownloadToStreamByName, Drop, Find, FindOne,
        OpenDownloadStream, OpenDownloadStreamByName, OpenUploadStream, Rename, RenameByName,
        UploadFromStream,
    },
    gridfs::GridFsBucket as AsyncGridFsBucket,
};

pub use crate::gridfs::{
    FilesCollectionDocument,
    blocking::{GridFsDownloadStream, GridFsUploadStream},
};

/// Handle of a GridFS bucket, with a blocking API. See the async [`GridFsBucket`](crate::gridfs::GridFsBucket).
///
/// ```no_run
/// # fn run(database: steadfast::sync::Database) -> steadfast::error::Result<()> {
/// use std::io::Write;
///
/// let bucket = database.gridfs_bucket(None);
/// let mut upload = bucket.open_upload_stream("notes.txt").run()?;
/// upload.write_all(b"all's well")?;
/// upload.close()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct GridFsBucket {
    inner: AsyncGridFsBucket,
}

impl GridFsBucket {
    pub(super) fn new(inner: AsyncGridFsBucket) -> Self {
        Self { inner }
    }

    /// Returns the read concern. See [`GridFsBucket::read_concern`](crate::gridfs::GridFsBucket::read_concern).
    pub fn read_concern(&self) -> Option<&ReadConcern> {
        self.inner.read_concern()
    }

    /// Returns the write concern. See [`GridFsBucket::write_concern`](crate::gridfs::GridFsBucket::write_concern).
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.inner.write_concern()
    }

    /// Returns the read preference, or predicate that selects servers. See
    /// [`GridFsBucket::selection_criteria`](crate::gridfs::GridFsBucket::selection_criteria).
    pub fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.inner.selection_criteria()
    }

    /// Deletes a file by id. See [`GridFsBucket::delete`](crate::gridfs::GridFsBucket::delete).
    pub fn delete(&self, id: Bson) -> Delete<'_> {
        self.inner.delete(id)
    }

    /// Deletes all revisions of a file. See
    /// [`GridFsBucket::delete_by_name`](crate::gridfs::GridFsBucket::delete_by_name).
    pub fn delete_by_name(&self, filename: impl Into<String>) -> DeleteByName<'_> {
        self.inner.delete_by_name(filename)
    }

    /// Drops the bucket. See [`GridFsBucket::drop`](crate::gridfs::GridFsBucket::drop).
    pub fn drop(&self) -> Drop<'_> {
        self.inner.drop()
    }

    /// Finds the documents of files. See [`GridFsBucket::find`](crate::gridfs::GridFsBucket::find).
    pub fn find(&self, filter: Document) -> Find<'_> {
        self.inner.find(filter)
    }

    /// Finds the document of a file. See [`GridFsBucket::find_one`](crate::gridfs::GridFsBucket::find_one).
    pub fn find_one(&self, filter: Document) -> FindOne<'_> {
        self.inner.find_one(filter)
    }

    /// Renames a file. See [`GridFsBucket::rename`](crate::gridfs::GridFsBucket::rename).
    pub fn rename(&self, id: Bson, new_filename: impl Into<String>) -> Rename<'_> {
        self.inner.rename(id, new_filename)
    }

    /// Renames all revisions of a file. See
    /// [`GridFsBucket::rename_by_name`](crate::gridfs::GridFsBucket::rename_by_name).
    pub fn rename_by_name(
        &self,
        filename: impl Into<String>,
        new_filename: impl Into<String>,
    ) -> RenameByName<'_> {
        self.inner.rename_by_name(filename, new_filename)
    }

    /// Opens an upload stream for a new file. See
    /// [`GridFsBucket::open_upload_stream`](crate::gridfs::GridFsBucket::open_upload_stream).
    pub fn open_upload_stream(&self, filename: impl AsRef<str>) -> OpenUploadStream<'_> {
        self.inner.open_upload_stream(filename)
    }

    /// Opens a download stream for a file by id. See
    /// [`GridFsBucket::open_download_stream`](crate::gridfs::GridFsBucket::open_download_stream).
    pub fn open_download_stream(&self, id: Bson) -> OpenDownloadStream<'_> {
        self.inner.open_download_stream(id)
    }

    /// Opens a download stream for a file by name. See
    /// [`GridFsBucket::open_download_stream_by_name`](crate::gridfs::GridFsBucket::open_download_stream_by_name).
    pub fn open_download_stream_by_name(
        &self,
        filename: impl Into<String>,
    ) -> OpenDownloadStreamByName<'_> {
        self.inner.open_download_stream_by_name(filename)
    }

    /// Uploads the contents of `source`, such as a slice, as a new file. See
    /// [`GridFsBucket::upload_from_stream`](crate::gridfs::GridFsBucket::upload_from_stream).
    ///
    /// For a [`Read`](std::io::Read), use [`open_upload_stream`](Self::open_upload_stream) and [`std::io::copy`].
    pub fn upload_from_stream<R: AsyncRead + Send + Unpin>(
        &self,
        filename: impl AsRef<str>,
        source: R,
    ) -> UploadFromStream<'_, R> {
        self.inner.upload_from_stream(filename, source)
    }

    /// Downloads a file by id into `destination`, such as a vector. See
    /// [`GridFsBucket::download_to_stream`](crate::gridfs::GridFsBucket::download_to_stream).
    ///
    /// For a [`Write`](std::io::Write), use [`open_download_stream`](Self::open_download_stream) and
    /// [`std::io::copy`].
    pub fn download_to_stream<W: AsyncWrite + Send + Unpin>(
        &self,
        id: Bson,
        destination: W,
    ) -> DownloadToStream<'_, W> {
        self.inner.download_to_stream(id, destination)
    }

    /// Downloads a file by name into `destination`, such as a vector. See
    /// [`GridFsBucket::download_to_stream_by_name`](crate::gridfs::GridFsBucket::download_to_stream_by_name).
    ///
    /// For a [`Write`](std::io::Write), use
    /// [`open_download_stream_by_name`](Self::open_download_stream_by_name) and [`std::io::copy`].
    pub fn download_to_stream_by_name<W: AsyncWrite + Send + Unpin>(
        &self,
        filename: impl Into<String>,
        destination: W,
    ) -> DownloadToStreamByName<'_, W> {
        self.inner.download_to_stream_by_name(filename, destination)
    }
}

impl fmt::Debug for GridFsBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
