//! GridFS: files of any size, stored in chunks. See
//! [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
//!
//! A [`GridFsBucket`] consists of two collections of a database. `<bucket>.chunks` contains the
//! contents of the files in chunks of 255 KiB, `<bucket>.files` one [`FilesCollectionDocument`] for
//! each file. That document is written last, so a file becomes visible once it is complete.
//!
//! ```no_run
//! # async fn run(database: steadfast::Database) -> Result<(), Box<dyn std::error::Error>> {
//! use steadfast::bson::doc;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! let bucket = database.gridfs_bucket(None);
//! let mut upload = bucket.open_upload_stream("song.mp3").metadata(doc! { "year": 1969 }).await?;
//! upload.write_all(b"any number of bytes").await?;
//! upload.close().await?;
//!
//! let mut download = bucket.open_download_stream_by_name("song.mp3").await?;
//! let mut contents = Vec::new();
//! download.read_to_end(&mut contents).await?;
//! # Ok(()) }
//! ```
//!
//! # Retries and errors
//!
//! Reads are retryable reads, and inserts of chunks and of the file's document are retryable
//! writes: each is applied at most once. An upload takes several commands. If one of them fails for
//! good, the chunks stored before stay behind, as the specification requires; no file is visible.
//! The upload stream then rejects further bytes, and [`abort`](GridFsUploadStream::abort) deletes
//! its chunks. A deletion removes the file's document first and then its chunks; after an error,
//! call it again.
//!
//! The [outcome](Error::outcome) of an error covers the whole call:
//! [`MaybeApplied`](crate::error::Outcome::MaybeApplied) if one of its commands wrote something,
//! even if the failed command was not sent.
//!
//! With an unacknowledged write concern (`w: 0`) failures are not detected, and a missing file is
//! not an error.
//!
//! # Time-outs
//!
//! A bucket has the time-out of its database, and each call can override it. It covers all commands
//! of the call; for a stream, all operations from opening to close. Reads from a source and writes
//! to a destination of the application are not interrupted.

pub(crate) mod action;
#[cfg(feature = "sync")]
pub(crate) mod blocking;
mod chunk;
mod download;
mod file;
mod indexes;
mod time;
mod upload;

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use bson::{Bson, Document, doc};
use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

pub use self::{
    download::GridFsDownloadStream, file::FilesCollectionDocument, upload::GridFsUploadStream,
};
use crate::{
    Client, Collection, Database,
    deadline::Deadline,
    error::{Error, GridFsErrorKind, GridFsFileIdentifier, Result},
    options::{CollectionOptions, GridFsBucketOptions, GridFsUploadOptions},
    results::DeleteResult,
};

/// Default of `chunkSizeBytes`: 255 KiB.
const DEFAULT_CHUNK_SIZE_BYTES: u32 = 255 * 1024;

impl Database {
    /// Returns a handle of a GridFS bucket. Nothing is sent; the first upload creates the
    /// collections and indexes.
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// let bucket = database.gridfs_bucket(None);
    /// let file = bucket.find_one(steadfast::bson::doc! { "filename": "cover.png" }).await?;
    /// # Ok(()) }
    /// ```
    pub fn gridfs_bucket(&self, options: impl Into<Option<GridFsBucketOptions>>) -> GridFsBucket {
        GridFsBucket::new(self, options.into().unwrap_or_default())
    }
}

/// Handle of a GridFS bucket, created by [`Database::gridfs_bucket`]. See the [module](self).
///
/// It is cheap to clone. The first upload into an empty bucket creates the indexes: `filename` and
/// `uploadDate` on the files, `files_id` and `n` (unique) on the chunks.
///
/// ```no_run
/// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
/// let bucket = database.gridfs_bucket(None);
/// let id = bucket.upload_from_stream("notes.txt", &b"all's well"[..]).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct GridFsBucket {
    inner: Arc<BucketInner>,
    /// Deadline of one call. `None` in a bucket of the application.
    deadline: Option<Deadline>,
}

struct BucketInner {
    files: Collection<FilesCollectionDocument>,
    chunks: Collection<Document>,
    chunk_size_bytes: u32,
    indexes: Mutex<indexes::IndexState>,
}

impl GridFsBucket {
    fn new(database: &Database, options: GridFsBucketOptions) -> Self {
        let GridFsBucketOptions {
            bucket_name,
            chunk_size_bytes,
            write_concern,
            read_concern,
            selection_criteria,
        } = options;
        let name = bucket_name.as_deref().unwrap_or("fs");
        let options = CollectionOptions {
            selection_criteria,
            read_concern,
            write_concern,
            ..CollectionOptions::default()
        };
        let files = database.collection_with_options(&format!("{name}.files"), options.clone());
        let chunks = database.collection_with_options(&format!("{name}.chunks"), options);
        let inner = BucketInner {
            files,
            chunks,
            chunk_size_bytes: chunk_size_bytes.unwrap_or(DEFAULT_CHUNK_SIZE_BYTES),
            indexes: Mutex::default(),
        };
        Self { inner: Arc::new(inner), deadline: None }
    }

    /// Returns the read concern.
    pub fn read_concern(&self) -> Option<&ReadConcern> {
        self.files().read_concern()
    }

    /// Returns the write concern.
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.files().write_concern()
    }

    /// Returns the read preference, or predicate that selects servers.
    pub fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.files().selection_criteria()
    }

    pub(crate) fn client(&self) -> &Client {
        self.files().client()
    }

    /// Returns the collection of the files' documents.
    pub(crate) fn files(&self) -> &Collection<FilesCollectionDocument> {
        &self.inner.files
    }

    /// Returns the collection of chunks.
    pub(crate) fn chunks(&self) -> &Collection<Document> {
        &self.inner.chunks
    }

    /// Returns `true` if the write concern is acknowledged.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.write_concern().is_none_or(WriteConcern::is_acknowledged)
    }

    /// Deletes documents of files before the deadline.
    pub(crate) async fn delete_files(&self, filter: Document) -> Result<DeleteResult> {
        self.files_with_timeout()?.delete_many(filter).await
    }

    /// Deletes chunks before the deadline.
    pub(crate) async fn delete_chunks(&self, filter: Document) -> Result<DeleteResult> {
        self.chunks_with_timeout()?.delete_many(filter).await
    }

    /// Creates an upload stream. Nothing is sent.
    pub(crate) fn begin_upload(
        &self,
        id: Option<Bson>,
        filename: String,
        options: Option<GridFsUploadOptions>,
    ) -> Result<GridFsUploadStream> {
        let options = options.unwrap_or_default();
        let chunk_size = options.chunk_size_bytes.unwrap_or(self.inner.chunk_size_bytes);
        GridFsUploadStream::new(
            self.timed(options.timeout),
            id,
            filename,
            chunk_size,
            options.metadata,
        )
    }

    /// Creates a download stream for a file found with this bucket. Nothing is sent.
    pub(crate) fn begin_download(
        &self,
        file: FilesCollectionDocument,
    ) -> Result<GridFsDownloadStream> {
        GridFsDownloadStream::new(self.clone(), file)
    }
}

impl fmt::Debug for GridFsBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.files().namespace().to_string();
        write!(f, "GridFsBucket({})", files.trim_end_matches(".files"))
    }
}

/// Returns a filter for one value by `$eq`, because an id may be a document that looks like an
/// operator.
pub(crate) fn equals(field: &str, id: &Bson) -> Document {
    doc! { field: { "$eq": id } }
}

/// Returns the error for a missing file.
pub(crate) fn file_not_found(identifier: GridFsFileIdentifier) -> Error {
    GridFsErrorKind::FileNotFound { identifier }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{operation::fixture::database_with, options::DatabaseOptions};

    #[test]
    fn buckets_and_streams_are_send() {
        fn sendable<T: Send + Unpin + 'static>() {}
        sendable::<GridFsBucket>();
        sendable::<GridFsUploadStream>();
        sendable::<GridFsDownloadStream>();
    }

    #[tokio::test]
    async fn bucket_inherits_options_of_its_database() {
        let majority = WriteConcern::majority();
        let options = DatabaseOptions::builder().write_concern(majority.clone()).build();
        let database = database_with(options);
        let bucket = database.gridfs_bucket(None);
        assert_eq!(bucket.write_concern(), Some(&majority));
        assert_eq!(format!("{bucket:?}"), "GridFsBucket(library.fs)");
        let options = GridFsBucketOptions::builder()
            .bucket_name("songs".to_owned())
            .write_concern(WriteConcern::nodes(0))
            .build();
        let bucket = database.gridfs_bucket(options);
        assert_eq!(bucket.files().name(), "songs.files");
        assert_eq!(bucket.chunks().name(), "songs.chunks");
        assert!(!bucket.is_acknowledged());
    }
}
