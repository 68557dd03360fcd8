//! Upload streams.

mod io;
mod undo;

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bson::{Bson, DateTime, Document, oid::ObjectId, raw::RawBinaryRef, spec::BinarySubtype};
use tokio::sync::oneshot;

use self::undo::StoredChunks;
use super::{FilesCollectionDocument, GridFsBucket, chunk::Chunk};
use crate::{
    Client,
    error::{Error, ErrorKind, GridFsErrorKind, Result},
};

/// Approximate number of bytes in one insert.
const BATCH_BYTES: u32 = 4 * 1024 * 1024;

/// Maximum number of chunks in one insert.
const BATCH_CHUNKS: u32 = 1000;

/// Stream that uploads a file, opened by
/// [`GridFsBucket::open_upload_stream`](super::GridFsBucket::open_upload_stream).
///
/// It implements `AsyncWrite` of tokio and of `futures`. Bytes are buffered and inserted in batches
/// of about 4 MiB, while the application continues to write. A flush inserts all complete chunks
/// and waits for them.
///
/// The file exists once [`close`](Self::close), or tokio's `shutdown`, has succeeded: its document
/// is written last.
///
/// ```no_run
/// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
/// use tokio::io::AsyncWriteExt;
///
/// let mut upload = bucket.open_upload_stream("notes.txt").await?;
/// upload.write_all(b"all's well").await?;
/// upload.close().await?;
/// println!("stored as {}", upload.id());
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// After an error the stream rejects further bytes and repeats the error. Stored chunks stay behind
/// unless [`abort`](Self::abort) deletes them. The driver's error is inside an `io::Error`; `?` in
/// a function that returns [`steadfast::error::Result`](crate::error::Result) unwraps it.
///
/// # Cancellation
///
/// Dropping the stream before `close` deletes the stored chunks in the background. If it is dropped
/// while `close` is in progress, the file may exist; if so, it is complete.
pub struct GridFsUploadStream {
    bucket: GridFsBucket,
    id: Bson,
    filename: String,
    metadata: Option<Document>,
    chunk_size: u32,
    /// Bytes that are not sent yet.
    buffer: Vec<u8>,
    /// Number of sent bytes.
    sent_bytes: u64,
    stored: StoredChunks,
    /// Insert of chunks in progress.
    in_flight: Option<PendingResult>,
    state: UploadState,
}

/// Result of a task that stores something.
type PendingResult = oneshot::Receiver<Result<()>>;

/// State of an upload. It moves down this list and may skip states.
#[derive(Debug)]
enum UploadState {
    /// Accepts bytes.
    Writing,
    /// All bytes are sent, including the last chunk.
    Ending,
    /// The file's document, with this date, is being written.
    WritingFile(PendingResult, DateTime),
    /// The file is stored.
    Closed,
    /// Ended by an error, or being aborted.
    Broken(Option<Error>),
    /// The stored chunks are deleted.
    Aborted,
}

impl GridFsUploadStream {
    pub(super) fn new(
        bucket: GridFsBucket,
        id: Option<Bson>,
        filename: String,
        chunk_size: u32,
        metadata: Option<Document>,
    ) -> Result<Self> {
        if chunk_size == 0 || i32::try_from(chunk_size).is_err() {
            return Err(Error::invalid_argument(format!(
                "chunk_size_bytes {chunk_size} is out of range; use 1 to {}",
                i32::MAX
            )));
        }
        Ok(Self {
            bucket,
            id: id.unwrap_or_else(|| ObjectId::new().into()),
            filename,
            metadata,
            chunk_size,
            buffer: Vec::new(),
            sent_bytes: 0,
            stored: StoredChunks::default(),
            in_flight: None,
            state: UploadState::Writing,
        })
    }

    /// Returns the id of the file.
    pub fn id(&self) -> &Bson {
        &self.id
    }

    /// Stores the remaining bytes and the file's document. Like tokio's `shutdown`, but returns the
    /// driver's [`Error`].
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
    /// - [`GridFsErrorKind::UploadStreamClosed`] if the stream is closed or aborted.
    /// - As [`Collection::insert_many`](crate::Collection::insert_many). The
    ///   [`outcome`](Error::outcome) is that of the whole upload:
    ///   [`MaybeApplied`](crate::error::Outcome::MaybeApplied) if chunks are stored, even if no
    ///   file is visible.
    ///
    /// # Cancellation
    ///
    /// The future can be dropped; call `close` again to continue. If the stream is dropped, the
    /// file may exist.
    pub async fn close(&mut self) -> Result<()> {
        poll_fn(|cx| self.poll_end(cx)).await
    }

    /// Aborts the upload and deletes its chunks.
    ///
    /// Only chunks of this upload are deleted, even if another file has the same id. After an error
    /// of the upload or of `abort` itself, it can be called again.
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// use tokio::io::AsyncWriteExt;
    ///
    /// let mut upload = bucket.open_upload_stream("notes.txt").await?;
    /// upload.write_all(b"a draft").await?;
    /// upload.abort().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`GridFsErrorKind::UploadStreamClosed`] if the file is stored or the upload is aborted.
    /// - [`GridFsErrorKind::AbortError`] if the chunks could not be deleted.
    ///
    /// # Cancellation
    ///
    /// The future can be dropped; call `abort` again to delete the remaining chunks.
    pub async fn abort(&mut self) -> Result<()> {
        // Waits for the insert in progress, so that it does not follow the deletion. Its result
        // does not matter.
        let _ = poll_fn(|cx| self.poll_in_flight(cx)).await;
        if matches!(self.state, UploadState::WritingFile(..)) {
            let _ = poll_fn(|cx| self.poll_file_document(cx)).await;
        }
        let original_error = match &self.state {
            UploadState::Closed | UploadState::Aborted => return Err(closed()),
            UploadState::Broken(error) => error.clone(),
            UploadState::Writing | UploadState::Ending | UploadState::WritingFile(..) => None,
        };
        self.buffer = Vec::new();
        self.state = UploadState::Broken(original_error.clone());
        match self.stored.delete(&self.bucket, &self.id).await {
            Ok(()) => {
                self.state = UploadState::Aborted;
                Ok(())
            }
            Err(delete_error) => {
                let source = delete_error.clone();
                let kind = GridFsErrorKind::AbortError { original_error, delete_error };
                Err(Error::from(kind).with_source(source))
            }
        }
    }

    /// Buffers bytes, as many as it has capacity for.
    fn poll_buffer(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        if let Poll::Ready(Err(error)) = self.poll_in_flight(cx) {
            return Poll::Ready(Err(error));
        }
        if !matches!(self.state, UploadState::Writing) {
            return Poll::Ready(Err(self.closed_error()));
        }
        if self.buffer_capacity() == 0 {
            ready!(self.poll_in_flight(cx))?;
            self.send(self.buffer.len())?;
        }
        let taken = bytes.len().min(self.buffer_capacity());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer_capacity() == 0 && self.in_flight.is_none() {
            self.send(self.buffer.len())?;
        }
        Poll::Ready(Ok(taken))
    }

    /// Stores all complete chunks and waits for them.
    fn poll_store(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.poll_in_flight(cx))?;
        match self.state {
            UploadState::Writing => {}
            UploadState::Ending | UploadState::WritingFile(..) => return self.poll_end(cx),
            UploadState::Closed | UploadState::Broken(_) | UploadState::Aborted => {
                return Poll::Ready(Err(self.closed_error()));
            }
        }
        let whole = self.buffer.len() - self.buffer.len() % self.chunk_size as usize;
        self.send(whole)?;
        self.poll_in_flight(cx)
    }

    /// Stores the remaining bytes and the file's document.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            ready!(self.poll_in_flight(cx))?;
            match self.state {
                UploadState::Writing => {
                    self.state = UploadState::Ending;
                    self.send(self.buffer.len())?;
                }
                UploadState::Ending => self.insert_file_document(),
                UploadState::WritingFile(..) => return self.poll_file_document(cx),
                UploadState::Closed | UploadState::Broken(_) | UploadState::Aborted => {
                    return Poll::Ready(Err(self.closed_error()));
                }
            }
        }
    }

    /// Polls for the insert of chunks in progress.
    fn poll_in_flight(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(answer) = &mut self.in_flight else { return Poll::Ready(Ok(())) };
        let answered = ready!(Pin::new(answer).poll(cx)).unwrap_or_else(|_| Err(runtime_ended()));
        self.in_flight = None;
        let answered = answered.map_err(|error| error.within_call(self.stored.outcome(), false));
        match &answered {
            Ok(()) => self.stored.confirm_chunks(),
            Err(error) => self.state = UploadState::Broken(Some(error.clone())),
        }
        Poll::Ready(answered)
    }

    /// Polls for the insert of the file's document.
    fn poll_file_document(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let UploadState::WritingFile(answer, date) = &mut self.state else {
            return Poll::Ready(Err(self.closed_error()));
        };
        let date = *date;
        let answered = ready!(Pin::new(answer).poll(cx)).unwrap_or_else(|_| Err(runtime_ended()));
        let Err(error) = answered else {
            self.state = UploadState::Closed;
            return Poll::Ready(Ok(()));
        };
        // Checked before the outcome becomes that of the whole upload.
        if !error.outcome().is_certainly_not_applied() {
            self.stored.begin_file(date);
        }
        let error = error.within_call(self.stored.outcome(), true);
        self.state = UploadState::Broken(Some(error.clone()));
        Poll::Ready(Err(error))
    }

    /// Inserts the first bytes of the buffer as chunks. No other insert may be in progress.
    fn send(&mut self, length: usize) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        let rest = self.buffer.split_off(length);
        let bytes = std::mem::replace(&mut self.buffer, rest);
        let count = bytes.len().div_ceil(self.chunk_size as usize);
        let Some((first, ids)) = self.stored.begin_chunks(count) else {
            let error = Error::invalid_argument(format!(
                "a file cannot have more than {} chunks; increase chunk_size_bytes",
                i32::MAX
            ));
            self.state = UploadState::Broken(Some(error.clone()));
            return Err(error);
        };
        self.sent_bytes += bytes.len() as u64;
        let (bucket, files_id, size) = (self.bucket.clone(), self.id.clone(), self.chunk_size);
        self.in_flight = Some(begin(self.bucket.client(), async move {
            bucket.ensure_indexes().await?;
            let pieces = (first..).zip(ids).zip(bytes.chunks(size as usize));
            let chunks = pieces.map(|((n, id), bytes)| {
                let data = RawBinaryRef { subtype: BinarySubtype::Generic, bytes };
                Chunk { id, files_id: &files_id, n, data }
            });
            let insert = bucket.chunks_with_timeout()?.clone_with_type::<Chunk<'_>>();
            let insert = insert.insert_many(chunks);
            insert.await.map(drop)
        }));
        Ok(())
    }

    /// Inserts the file's document. The specification: its date is that of the end of the upload.
    fn insert_file_document(&mut self) {
        let upload_date = DateTime::now();
        let document = FilesCollectionDocument {
            id: self.id.clone(),
            length: self.sent_bytes,
            chunk_size_bytes: self.chunk_size,
            upload_date,
            filename: Some(std::mem::take(&mut self.filename)),
            metadata: self.metadata.take(),
        };
        let bucket = self.bucket.clone();
        let answer = begin(self.bucket.client(), async move {
            bucket.ensure_indexes().await?;
            bucket.files_with_timeout()?.insert_one(document).await.map(drop)
        });
        self.state = UploadState::WritingFile(answer, upload_date);
    }

    /// Returns the number of bytes that fit into the buffer.
    fn buffer_capacity(&self) -> usize {
        let chunks = (BATCH_BYTES / self.chunk_size).clamp(1, BATCH_CHUNKS);
        (chunks as usize * self.chunk_size as usize).saturating_sub(self.buffer.len())
    }

    /// Returns the error of a stream that accepts no more bytes.
    fn closed_error(&self) -> Error {
        match &self.state {
            UploadState::Broken(Some(error)) => error.clone(),
            _ => closed(),
        }
    }
}

impl Drop for GridFsUploadStream {
    fn drop(&mut self) {
        match self.state {
            UploadState::Writing | UploadState::Ending if !self.stored.is_empty() => {}
            // The file's document may exist, or chunks are to stay behind after an error.
            _ => return,
        }
        let (bucket, id) = (self.bucket.renewed(), self.id.clone());
        let (in_flight, mut stored) = (self.in_flight.take(), std::mem::take(&mut self.stored));
        self.bucket.client().executor().spawn(async move {
            if let Some(answer) = in_flight
                && let Ok(Ok(())) = answer.await
            {
                stored.confirm_chunks();
            }
            stored.delete_in_background(&bucket, &id).await;
        });
    }
}

impl fmt::Debug for GridFsUploadStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GridFsUploadStream")
            .field("bucket", &self.bucket)
            .field("id", &self.id)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Starts a task that continues without its stream: a dropped stream must await its last command
/// before it can delete chunks.
fn begin(
    client: &Client,
    work: impl Future<Output = Result<()>> + Send + 'static,
) -> PendingResult {
    let (sender, answer) = oneshot::channel();
    client.executor().spawn(async move {
        let _ = sender.send(work.await);
    });
    answer
}

fn closed() -> Error {
    GridFsErrorKind::UploadStreamClosed.into()
}

fn runtime_ended() -> Error {
    let message = "the tokio runtime of the client ended before the upload".to_owned();
    Error::new(ErrorKind::Internal { message })
}
