//! Uploads.

use std::sync::Arc;

use bson::Bson;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};

use crate::{
    error::{Error, GridFsErrorKind, Outcome, Result},
    gridfs::{GridFsBucket, GridFsUploadStream},
    options::GridFsUploadOptions,
};

/// Size of the buffer for the application's source in bytes.
const READ_BYTES: usize = 64 * 1024;

impl GridFsBucket {
    /// Opens an upload stream for a new file. Other files may have the same name.
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// The contents are written to the returned [`GridFsUploadStream`], and
    /// [`close`](GridFsUploadStream::close) stores the file. Nothing is sent before the first
    /// bytes.
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// use tokio::io::AsyncWriteExt;
    ///
    /// let mut upload = bucket.open_upload_stream("notes.txt").await?;
    /// upload.write_all(b"all's well").await?;
    /// upload.close().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) if the chunk size
    /// is zero or exceeds `i32::MAX`.
    ///
    /// # Cancellation
    ///
    /// Dropping the future stores nothing of the file; indexes of the bucket may have been created.
    pub fn open_upload_stream(&self, filename: impl AsRef<str>) -> OpenUploadStream<'_> {
        let filename = filename.as_ref().to_owned();
        OpenUploadStream { bucket: self, filename, id: None, options: None }
    }

    /// Uploads the contents of `source` as a new file. Returns the id of the file.
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// let source: &[u8] = b"any tokio::io::AsyncRead";
    /// let id = bucket.upload_from_stream("notes.txt", source).await?;
    /// let mut copy = Vec::new();
    /// bucket.download_to_stream(id, &mut copy).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`GridFsErrorKind::Stream`] if `source` fails. The upload is aborted.
    /// - As [`Collection::insert_many`](crate::Collection::insert_many). Stored chunks stay behind;
    ///   no file is visible.
    ///
    /// See also the [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future deletes the stored chunks in the background, unless the file's document
    /// is being written; then the file may exist.
    pub fn upload_from_stream<R: AsyncRead + Send + Unpin>(
        &self,
        filename: impl AsRef<str>,
        source: R,
    ) -> UploadFromStream<'_, R> {
        let filename = filename.as_ref().to_owned();
        UploadFromStream { bucket: self, filename, source, id: None, options: None }
    }
}

/// Action that opens an upload stream. See [`GridFsBucket::open_upload_stream`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct OpenUploadStream<'a> {
    bucket: &'a GridFsBucket,
    filename: String,
    id: Option<Bson>,
    pub(crate) options: Option<GridFsUploadOptions>,
}

impl OpenUploadStream<'_> {
    /// Sets the id of the file (`_id`). Defaults to a new `ObjectId`.
    pub fn id(mut self, value: Bson) -> Self {
        self.id = Some(value);
        self
    }

    async fn execute(self) -> Result<GridFsUploadStream> {
        self.bucket.begin_upload(self.id, self.filename, self.options)
    }
}

awaitable!(['a] OpenUploadStream<'a> => GridFsUploadStream, sync crate::gridfs::blocking::GridFsUploadStream);
setters!(GridFsUploadOptions for ['a] OpenUploadStream<'a>);

/// Action that uploads a file. See [`GridFsBucket::upload_from_stream`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct UploadFromStream<'a, R> {
    bucket: &'a GridFsBucket,
    filename: String,
    source: R,
    id: Option<Bson>,
    pub(crate) options: Option<GridFsUploadOptions>,
}

impl<R> UploadFromStream<'_, R> {
    /// Sets the id of the file (`_id`). Defaults to a new `ObjectId`.
    pub fn id(mut self, value: Bson) -> Self {
        self.id = Some(value);
        self
    }
}

impl<R: AsyncRead + Send + Unpin> UploadFromStream<'_, R> {
    async fn execute(self) -> Result<Bson> {
        let mut upload = self.bucket.begin_upload(self.id, self.filename, self.options)?;
        let mut source = BufReader::with_capacity(READ_BYTES, self.source);
        loop {
            let bytes = match source.fill_buf().await {
                Ok([]) => break,
                Ok(bytes) => bytes,
                Err(error) => {
                    // The specification: the error is that of the source, even if the abort fails.
                    let aborted = upload.abort().await;
                    let error = Error::from(GridFsErrorKind::Stream(Arc::new(error)));
                    return Err(match aborted {
                        Ok(()) => error,
                        Err(_) => error.within_call(Outcome::MaybeApplied, true),
                    });
                }
            };
            let count = bytes.len();
            upload.write_all(bytes).await?;
            source.consume(count);
        }
        upload.close().await?;
        Ok(upload.id().clone())
    }
}

awaitable!(['a, R: AsyncRead + Send + Unpin + 'a] UploadFromStream<'a, R> => Bson);
setters!(GridFsUploadOptions for ['a, R] UploadFromStream<'a, R>);
