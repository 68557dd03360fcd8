//! GridFS: files of any size, kept in pieces that fit into documents.
//!
//! A file is kept in two collections of a database, which together are a [`GridFsBucket`]: its
//! contents as *chunks* (by default 255 KiB each) in one, and what is known of it, a
//! [`FilesCollectionDocument`], in the other. A file is there as soon as that document is, which is
//! written last; so nobody ever sees half a file.
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
//! # Exactly once
//!
//! All of this runs through the same loop as every other call: reads are tried again, and the
//! inserts of chunks and of the file's document are retryable writes, so that none is stored twice
//! however often it is sent. That is per command. An upload of many chunks takes many commands, and
//! if one of them fails for good those before it stay behind, invisible, as the specification
//! demands: the stream then refuses further bytes, and [`abort`](GridFsUploadStream::abort) removes
//! what it had stored. Deleting a file removes its document first, and its chunks with a command
//! that can be repeated: after an error, call it again.
//!
//! The [outcome](Error::outcome) of an error speaks of the whole call:
//! [`MaybeApplied`](crate::error::Outcome::MaybeApplied) if one of its commands wrote something, also if
//! the one that failed was never sent.
//!
//! With a write concern of `w: 0` nothing of this is known, and no error is raised for a file that
//! is not there.
//!
//! # Time limits
//!
//! A bucket has the `timeout` of its database, and each call may have its own. It is that of the
//! whole call, however many commands that takes; of a stream, from its opening to its end. What an
//! application reads from or writes to besides is not interrupted: a call may take longer by that.

pub(crate) mod action;
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

/// How many bytes of a file go into a chunk, unless the application says otherwise.
const DEFAULT_CHUNK_SIZE_BYTES: u32 = 255 * 1024;

impl Database {
    /// A bucket of files in this database. Nothing is sent; the first upload makes what it needs.
    pub fn gridfs_bucket(&self, options: impl Into<Option<GridFsBucketOptions>>) -> GridFsBucket {
        GridFsBucket::new(self, options.into().unwrap_or_default())
    }
}

/// A bucket of files: made by [`Database::gridfs_bucket`], see the [module](self).
///
/// Cheap to clone; clones share what is known of the bucket's indexes. These are made before the
/// first upload if there is no file yet: one on the names and dates of files, and a unique one on
/// the ids of files and the numbers of their chunks.
#[derive(Clone)]
pub struct GridFsBucket {
    inner: Arc<Inner>,
    /// By when all must be done that is done with this clone; none unless it is of one call.
    deadline: Option<Deadline>,
}

struct Inner {
    files: Collection<FilesCollectionDocument>,
    chunks: Collection<Document>,
    chunk_size_bytes: u32,
    indexes: Mutex<indexes::Known>,
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
        let inner = Inner {
            files,
            chunks,
            chunk_size_bytes: chunk_size_bytes.unwrap_or(DEFAULT_CHUNK_SIZE_BYTES),
            indexes: Mutex::default(),
        };
        Self { inner: Arc::new(inner), deadline: None }
    }

    /// What its reads may see.
    pub fn read_concern(&self) -> Option<&ReadConcern> {
        self.files().read_concern()
    }

    /// How durable its writes must be.
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.files().write_concern()
    }

    /// Which servers its reads go to.
    pub fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.files().selection_criteria()
    }

    pub(crate) fn client(&self) -> &Client {
        self.files().client()
    }

    /// The collection of what is known of the files.
    pub(crate) fn files(&self) -> &Collection<FilesCollectionDocument> {
        &self.inner.files
    }

    /// The collection of what is in the files.
    pub(crate) fn chunks(&self) -> &Collection<Document> {
        &self.inner.chunks
    }

    /// Whether the servers answer its writes, so that it is known what they found.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.write_concern().is_none_or(WriteConcern::is_acknowledged)
    }

    /// Deletes documents of files, in the time that is left.
    pub(crate) async fn delete_files(&self, filter: Document) -> Result<DeleteResult> {
        self.files_in_time()?.delete_many(filter).await
    }

    /// Deletes chunks, in the time that is left.
    pub(crate) async fn delete_chunks(&self, filter: Document) -> Result<DeleteResult> {
        self.chunks_in_time()?.delete_many(filter).await
    }

    /// Begins an upload. Nothing is sent.
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

    /// Goes on with a download whose file was found with this clone. Nothing is sent.
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

/// A filter for one id. It may be any value, also a document that looks like an operator of the
/// query language, and is not to be taken for one.
pub(crate) fn exactly(field: &str, id: &Bson) -> Document {
    doc! { field: { "$eq": id } }
}

/// The error for a file that is not there.
pub(crate) fn no_file(identifier: GridFsFileIdentifier) -> Error {
    GridFsErrorKind::FileNotFound { identifier }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{operation::fixture::database_with, options::DatabaseOptions};

    #[test]
    fn buckets_and_streams_can_be_sent() {
        fn sendable<T: Send + Unpin + 'static>() {}
        sendable::<GridFsBucket>();
        sendable::<GridFsUploadStream>();
        sendable::<GridFsDownloadStream>();
    }

    #[tokio::test]
    async fn a_bucket_has_the_defaults_of_its_database_unless_it_has_its_own() {
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
