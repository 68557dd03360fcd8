//! Downloads.

use std::{sync::Arc, time::Duration};

use bson::{Bson, doc};
use tokio::io::{AsyncBufReadExt, AsyncWrite, AsyncWriteExt};

use crate::{
    error::{Error, GridFsErrorKind, GridFsFileIdentifier, Result},
    gridfs::{FilesCollectionDocument, GridFsBucket, GridFsDownloadStream, equals, file_not_found},
    options::GridFsDownloadByNameOptions,
};

impl GridFsBucket {
    /// Opens a download stream for a file by id.
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    /// use tokio::io::AsyncReadExt;
    ///
    /// if let Some(file) = bucket.find_one(doc! { "metadata.year": 1969 }).await? {
    ///     let mut contents = Vec::new();
    ///     bucket.open_download_stream(file.id).await?.read_to_end(&mut contents).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`GridFsErrorKind::FileNotFound`] if the file does not exist. See also the
    /// [errors of every action](crate::action#errors).
    pub fn open_download_stream(&self, id: Bson) -> OpenDownloadStream<'_> {
        OpenDownloadStream { bucket: self, id, timeout: None }
    }

    /// Opens a download stream for a file by name: the newest, or another
    /// [revision](OpenDownloadStreamByName::revision).
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// use tokio::io::AsyncReadExt;
    ///
    /// let mut oldest = bucket.open_download_stream_by_name("notes.txt").revision(0).await?;
    /// let mut text = String::new();
    /// oldest.read_to_string(&mut text).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`GridFsErrorKind::FileNotFound`] if there is no such file.
    /// - [`GridFsErrorKind::RevisionNotFound`] if the revision does not exist.
    ///
    /// See also the [errors of every action](crate::action#errors).
    pub fn open_download_stream_by_name(
        &self,
        filename: impl Into<String>,
    ) -> OpenDownloadStreamByName<'_> {
        OpenDownloadStreamByName { bucket: self, filename: filename.into(), options: None }
    }

    /// Downloads a file by id into `destination`. Returns the number of bytes. `destination` is
    /// flushed, but not shut down.
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// if let Some(file) = bucket.find_one(doc! { "filename": "notes.txt" }).await? {
    ///     let mut contents = Vec::new();
    ///     bucket.download_to_stream(file.id, &mut contents).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`GridFsErrorKind::FileNotFound`] if the file does not exist.
    /// - Other [`GridFsErrorKind`]s if the file is corrupt, or if `destination` fails.
    ///
    /// See also the [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future ends the download. `destination` contains the bytes written so far.
    pub fn download_to_stream<W: AsyncWrite + Send + Unpin>(
        &self,
        id: Bson,
        destination: W,
    ) -> DownloadToStream<'_, W> {
        DownloadToStream { bucket: self, id, destination, timeout: None }
    }

    /// Downloads a file by name into `destination`: the newest, or another
    /// [revision](DownloadToStreamByName::revision). Returns the number of bytes. `destination` is
    /// flushed, but not shut down.
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// let mut contents = Vec::new();
    /// let length = bucket.download_to_stream_by_name("notes.txt", &mut contents).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`GridFsErrorKind::FileNotFound`] if there is no such file.
    /// - [`GridFsErrorKind::RevisionNotFound`] if the revision does not exist.
    /// - Other [`GridFsErrorKind`]s if the file is corrupt, or if `destination` fails.
    ///
    /// See also the [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future ends the download. `destination` contains the bytes written so far.
    pub fn download_to_stream_by_name<W: AsyncWrite + Send + Unpin>(
        &self,
        filename: impl Into<String>,
        destination: W,
    ) -> DownloadToStreamByName<'_, W> {
        let filename = filename.into();
        DownloadToStreamByName { bucket: self, filename, destination, options: None }
    }
}

/// Action that opens a download stream. See [`GridFsBucket::open_download_stream`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct OpenDownloadStream<'a> {
    bucket: &'a GridFsBucket,
    id: Bson,
    timeout: Option<Duration>,
}

timeout!(['a] OpenDownloadStream<'a>);

impl OpenDownloadStream<'_> {
    async fn execute(self) -> Result<GridFsDownloadStream> {
        let bucket = self.bucket.timed(self.timeout);
        let file = by_id(&bucket, self.id).await?;
        bucket.begin_download(file)
    }
}

awaitable!(['a] OpenDownloadStream<'a> => GridFsDownloadStream, sync crate::gridfs::blocking::GridFsDownloadStream);

/// Action that opens a download stream by name. See [`GridFsBucket::open_download_stream_by_name`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct OpenDownloadStreamByName<'a> {
    bucket: &'a GridFsBucket,
    filename: String,
    pub(crate) options: Option<GridFsDownloadByNameOptions>,
}

impl OpenDownloadStreamByName<'_> {
    async fn execute(self) -> Result<GridFsDownloadStream> {
        let options = self.options.unwrap_or_default();
        let bucket = self.bucket.timed(options.timeout);
        let file = by_name(&bucket, self.filename, options.revision).await?;
        bucket.begin_download(file)
    }
}

awaitable!(['a] OpenDownloadStreamByName<'a> => GridFsDownloadStream, sync crate::gridfs::blocking::GridFsDownloadStream);
setters!(GridFsDownloadByNameOptions for ['a] OpenDownloadStreamByName<'a>);

/// Action that downloads a file. See [`GridFsBucket::download_to_stream`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct DownloadToStream<'a, W> {
    bucket: &'a GridFsBucket,
    id: Bson,
    destination: W,
    timeout: Option<Duration>,
}

timeout!(['a, W] DownloadToStream<'a, W>);

impl<W: AsyncWrite + Send + Unpin> DownloadToStream<'_, W> {
    async fn execute(self) -> Result<u64> {
        let bucket = self.bucket.timed(self.timeout);
        let file = by_id(&bucket, self.id).await?;
        copy(bucket.begin_download(file)?, self.destination).await
    }
}

awaitable!(['a, W: AsyncWrite + Send + Unpin + 'a] DownloadToStream<'a, W> => u64);

/// Action that downloads a file by name. See [`GridFsBucket::download_to_stream_by_name`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct DownloadToStreamByName<'a, W> {
    bucket: &'a GridFsBucket,
    filename: String,
    destination: W,
    pub(crate) options: Option<GridFsDownloadByNameOptions>,
}

impl<W: AsyncWrite + Send + Unpin> DownloadToStreamByName<'_, W> {
    async fn execute(self) -> Result<u64> {
        let options = self.options.unwrap_or_default();
        let bucket = self.bucket.timed(options.timeout);
        let file = by_name(&bucket, self.filename, options.revision).await?;
        copy(bucket.begin_download(file)?, self.destination).await
    }
}

awaitable!(['a, W: AsyncWrite + Send + Unpin + 'a] DownloadToStreamByName<'a, W> => u64);
setters!(GridFsDownloadByNameOptions for ['a, W] DownloadToStreamByName<'a, W>);

async fn by_id(bucket: &GridFsBucket, id: Bson) -> Result<FilesCollectionDocument> {
    let found = bucket.files_with_timeout()?.find_one(equals("_id", &id)).await?;
    found.ok_or_else(|| file_not_found(GridFsFileIdentifier::Id(id)))
}

async fn by_name(
    bucket: &GridFsBucket,
    filename: String,
    revision: Option<i32>,
) -> Result<FilesCollectionDocument> {
    let revision = revision.unwrap_or(-1);
    let (order, skip) = sort_and_skip(revision);
    let named = doc! { "filename": &filename };
    let by_date = doc! { "uploadDate": order };
    let found =
        bucket.files_with_timeout()?.find_one(named.clone()).sort(by_date).skip(skip).await?;
    if let Some(file) = found {
        return Ok(file);
    }
    // The specification distinguishes a missing file from a missing revision. Without skipped
    // revisions the file is missing.
    let other = if skip == 0 { None } else { bucket.files_with_timeout()?.find_one(named).await? };
    Err(match other {
        Some(_) => GridFsErrorKind::RevisionNotFound { revision }.into(),
        None => file_not_found(GridFsFileIdentifier::Filename(filename)),
    })
}

/// Returns the sort order by date and the number of files to skip for a revision.
fn sort_and_skip(revision: i32) -> (i32, u64) {
    match u64::try_from(revision) {
        Ok(older) => (1, older),
        Err(_) => (-1, u64::from(revision.unsigned_abs()) - 1),
    }
}

async fn copy(
    mut download: GridFsDownloadStream,
    mut destination: impl AsyncWrite + Unpin,
) -> Result<u64> {
    let failed = |error| Error::from(GridFsErrorKind::Stream(Arc::new(error)));
    let mut copied = 0;
    loop {
        let bytes = download.fill_buf().await?;
        let count = bytes.len();
        if count == 0 {
            destination.flush().await.map_err(failed)?;
            return Ok(copied);
        }
        destination.write_all(bytes).await.map_err(failed)?;
        download.consume(count);
        copied += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::sort_and_skip;

    #[test]
    fn revisions_are_counted_from_the_oldest_or_from_the_newest() {
        assert_eq!(sort_and_skip(0), (1, 0));
        assert_eq!(sort_and_skip(2), (1, 2));
        assert_eq!(sort_and_skip(-1), (-1, 0));
        assert_eq!(sort_and_skip(-2), (-1, 1));
        assert_eq!(sort_and_skip(i32::MIN), (-1, (1 << 31) - 1));
    }
}
