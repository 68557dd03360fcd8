//! Streams of the blocking API.

use std::{fmt, future::poll_fn, io, pin::pin};

use bson::Bson;
use tokio::io::AsyncWrite;

use super::FilesCollectionDocument;
use crate::{
    error::Result,
    runtime::{block_on, block_on_step},
};

/// Stream of the contents of a file: an [`io::Read`] and [`io::Seek`]. See the async
/// [`GridFsDownloadStream`](crate::gridfs::GridFsDownloadStream).
///
/// ```no_run
/// # fn run(bucket: steadfast::sync::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
/// use std::io::Read;
///
/// let mut contents = Vec::new();
/// bucket.open_download_stream_by_name("notes.txt").run()?.read_to_end(&mut contents)?;
/// # Ok(()) }
/// ```
pub struct GridFsDownloadStream {
    inner: super::GridFsDownloadStream,
}

impl GridFsDownloadStream {
    pub(crate) fn new(inner: super::GridFsDownloadStream) -> Self {
        Self { inner }
    }

    /// Returns the document of the file. See
    /// [`GridFsDownloadStream::file`](crate::gridfs::GridFsDownloadStream::file).
    pub fn file(&self) -> &FilesCollectionDocument {
        self.inner.file()
    }
}

impl io::Read for GridFsDownloadStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut stream = pin!(&mut self.inner);
        block_on_step(poll_fn(|context| {
            futures_io::AsyncRead::poll_read(stream.as_mut(), context, buffer)
        }))?
    }
}

impl io::Seek for GridFsDownloadStream {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

impl fmt::Debug for GridFsDownloadStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// Stream that uploads a file: an [`io::Write`]. See the async
/// [`GridFsUploadStream`](crate::gridfs::GridFsUploadStream).
///
/// The file exists once [`close`](Self::close) has succeeded. Dropping the stream before deletes the stored chunks in
/// the background.
///
/// ```no_run
/// # fn run(bucket: steadfast::sync::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
/// use std::io::Write;
///
/// let mut upload = bucket.open_upload_stream("notes.txt").run()?;
/// upload.write_all(b"all's well")?;
/// upload.close()?;
/// # Ok(()) }
/// ```
pub struct GridFsUploadStream {
    inner: super::GridFsUploadStream,
}

impl GridFsUploadStream {
    pub(crate) fn new(inner: super::GridFsUploadStream) -> Self {
        Self { inner }
    }

    /// Returns the id of the file. See [`GridFsUploadStream::id`](crate::gridfs::GridFsUploadStream::id).
    pub fn id(&self) -> &Bson {
        self.inner.id()
    }

    /// Stores the remaining bytes and the file's document. See
    /// [`GridFsUploadStream::close`](crate::gridfs::GridFsUploadStream::close).
    ///
    /// The error is an [`io::Error`], like that of `write`. `?` in a function that returns
    /// [`steadfast::error::Result`](crate::error::Result) unwraps it.
    pub fn close(&mut self) -> io::Result<()> {
        Ok(block_on(self.inner.close())??)
    }

    /// Aborts the upload and deletes its chunks. See
    /// [`GridFsUploadStream::abort`](crate::gridfs::GridFsUploadStream::abort).
    pub fn abort(&mut self) -> Result<()> {
        block_on(self.inner.abort())?
    }
}

impl io::Write for GridFsUploadStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stream = pin!(&mut self.inner);
        block_on_step(poll_fn(|context| AsyncWrite::poll_write(stream.as_mut(), context, bytes)))?
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut stream = pin!(&mut self.inner);
        block_on_step(poll_fn(|context| AsyncWrite::poll_flush(stream.as_mut(), context)))?
    }
}

impl fmt::Debug for GridFsUploadStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
