//! Uploading files.

use std::sync::Arc;

use bson::Bson;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};

use crate::{
    error::{Error, GridFsErrorKind, Outcome, Result},
    gridfs::{GridFsBucket, GridFsUploadStream},
    options::GridFsUploadOptions,
};

/// How much is read from the application's stream at a time.
const READ_BYTES: usize = 64 * 1024;

impl GridFsBucket {
    /// Begins an upload: the file's contents are written to the stream that comes of it, which is
    /// then closed. Other files may have the same name.
    ///
    /// See [`GridFsUploadStream`] for an example, and for what becomes of an upload that does not
    /// come to its end.
    pub fn open_upload_stream(&self, filename: impl AsRef<str>) -> OpenUploadStream<'_> {
        let filename = filename.as_ref().to_owned();
        OpenUploadStream { bucket: self, filename, id: None, options: None }
    }

    /// Uploads all that can be read from `source`, and returns the id of the file. If `source`
    /// fails, the upload is aborted; if a server does, what was stored stays behind, invisible.
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// let source: &[u8] = b"any tokio::io::AsyncRead";
    /// let id = bucket.upload_from_stream("notes.txt", source).await?;
    /// let mut copy = Vec::new();
    /// bucket.download_to_stream(id, &mut copy).await?;
    /// # Ok(()) }
    /// ```
    pub fn upload_from_stream<R: AsyncRead + Send + Unpin>(
        &self,
        filename: impl AsRef<str>,
        source: R,
    ) -> UploadFromStream<'_, R> {
        let filename = filename.as_ref().to_owned();
        UploadFromStream { bucket: self, filename, source, id: None, options: None }
    }
}

/// Begins an upload. See [`GridFsBucket::open_upload_stream`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct OpenUploadStream<'a> {
    bucket: &'a GridFsBucket,
    filename: String,
    id: Option<Bson>,
    pub(crate) options: Option<GridFsUploadOptions>,
}

impl OpenUploadStream<'_> {
    /// The id that the file is to have; by default a new `ObjectId`.
    pub fn id(mut self, value: Bson) -> Self {
        self.id = Some(value);
        self
    }

    async fn execute(self) -> Result<GridFsUploadStream> {
        self.bucket.begin_upload(self.id, self.filename, self.options)
    }
}

awaitable!(['a] OpenUploadStream<'a> => GridFsUploadStream);
setters!(GridFsUploadOptions for ['a] OpenUploadStream<'a>);

/// Uploads a file. See [`GridFsBucket::upload_from_stream`].
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
    /// The id that the file is to have; by default a new `ObjectId`.
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
                    // The specification: what is raised is why the upload was aborted, also if
                    // that fails.
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
