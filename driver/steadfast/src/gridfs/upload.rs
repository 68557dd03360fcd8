//! The stream that a file is written to.

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

use self::undo::Stored;
use super::{FilesCollectionDocument, GridFsBucket, chunk::Chunk};
use crate::{
    Client,
    error::{Error, ErrorKind, GridFsErrorKind, Result},
};

/// About how many bytes are sent at a time.
const BATCH_BYTES: u32 = 4 * 1024 * 1024;

/// How many chunks are sent at a time at most, however small they are.
const BATCH_CHUNKS: u32 = 1000;

/// A stream that a file is written to. See
/// [`GridFsBucket::open_upload_stream`](super::GridFsBucket::open_upload_stream).
///
/// It is an `AsyncWrite` of tokio's and of `futures`. Bytes are gathered and sent about 4 MiB at a
/// time, while the application goes on writing. Flushing sends what fills whole chunks and waits
/// until it is stored; the rest, less than a chunk, is sent in the end.
///
/// The file is there once [`close`](Self::close), or tokio's `shutdown`, has succeeded. Before that
/// nobody sees it, for its document is written last. A stream that is dropped before that leaves no
/// file, and the chunks that it had stored are deleted in the background; so does
/// [`abort`](Self::abort), which also says whether that succeeded. If it is dropped while its
/// `close` is under way, the file may be there or not, but if it is there it is whole.
///
/// After an error the stream takes no more bytes and repeats the error. What it had stored stays
/// where it is, unless it is aborted. A driver's error within an `io::Error` becomes itself again
/// with `?` in a function that returns [`steadfast::error::Result`](crate::error::Result).
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
pub struct GridFsUploadStream {
    bucket: GridFsBucket,
    id: Bson,
    filename: String,
    metadata: Option<Document>,
    chunk_size: u32,
    /// What was written and not sent yet.
    buffer: Vec<u8>,
    /// How many bytes were sent.
    sent_bytes: u64,
    stored: Stored,
    /// The answer to the chunks that are under way.
    in_flight: Option<Answer>,
    state: State,
}

/// The end of a task that stores something.
type Answer = oneshot::Receiver<Result<()>>;

/// How far an upload is. It goes down this list, and may skip.
#[derive(Debug)]
enum State {
    /// It takes bytes.
    Writing,
    /// All bytes are sent, the last chunk among them, which may be short.
    Ending,
    /// The file's document, which has this date, is under way.
    Filing(Answer, DateTime),
    /// The file is stored.
    Closed,
    /// It ended before its time, by an error or because it is being aborted.
    Broken(Option<Error>),
    /// What it had stored is deleted.
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
                "a chunk of a file cannot have {chunk_size} bytes"
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
            stored: Stored::default(),
            in_flight: None,
            state: State::Writing,
        })
    }

    /// The id that the file will have.
    pub fn id(&self) -> &Bson {
        &self.id
    }

    /// Sends what is left and stores the file. The same as tokio's `shutdown`, but for the type of
    /// the error. Its [`outcome`](Error::outcome) is that of the whole upload:
    /// [`MaybeApplied`](crate::error::Outcome::MaybeApplied) if chunks are stored, though without the
    /// file's document nobody sees them.
    pub async fn close(&mut self) -> Result<()> {
        poll_fn(|cx| self.poll_end(cx)).await
    }

    /// Gives the upload up and deletes what it had stored, and nothing else: also if the
    /// application chose an id that another file has.
    ///
    /// It may be called after an error, too; and again, if it failed. It is an error to call it once
    /// the file is stored, or the upload aborted.
    pub async fn abort(&mut self) -> Result<()> {
        // Whether what is under way succeeds is of no interest, but it must not come after.
        let _ = poll_fn(|cx| self.poll_in_flight(cx)).await;
        if matches!(self.state, State::Filing(..)) {
            let _ = poll_fn(|cx| self.poll_filed(cx)).await;
        }
        let original_error = match &self.state {
            State::Closed | State::Aborted => return Err(closed()),
            State::Broken(error) => error.clone(),
            State::Writing | State::Ending | State::Filing(..) => None,
        };
        self.buffer = Vec::new();
        self.state = State::Broken(original_error.clone());
        match self.stored.delete(&self.bucket, &self.id).await {
            Ok(()) => {
                self.state = State::Aborted;
                Ok(())
            }
            Err(delete_error) => {
                let source = delete_error.clone();
                let kind = GridFsErrorKind::AbortError { original_error, delete_error };
                Err(Error::from(kind).with_source(source))
            }
        }
    }

    /// Takes as many of the bytes as there is room for.
    fn poll_take(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        if let Poll::Ready(Err(error)) = self.poll_in_flight(cx) {
            return Poll::Ready(Err(error));
        }
        if !matches!(self.state, State::Writing) {
            return Poll::Ready(Err(self.refusal()));
        }
        if self.room() == 0 {
            ready!(self.poll_in_flight(cx))?;
            self.send(self.buffer.len())?;
        }
        let taken = bytes.len().min(self.room());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.room() == 0 && self.in_flight.is_none() {
            self.send(self.buffer.len())?;
        }
        Poll::Ready(Ok(taken))
    }

    /// Sends what fills whole chunks, and waits until it is stored.
    fn poll_store(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.poll_in_flight(cx))?;
        match self.state {
            State::Writing => {}
            State::Ending | State::Filing(..) => return self.poll_end(cx),
            State::Closed | State::Broken(_) | State::Aborted => {
                return Poll::Ready(Err(self.refusal()));
            }
        }
        let whole = self.buffer.len() - self.buffer.len() % self.chunk_size as usize;
        self.send(whole)?;
        self.poll_in_flight(cx)
    }

    /// Sends what is left, then the file's document, and waits until they are stored.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            ready!(self.poll_in_flight(cx))?;
            match self.state {
                State::Writing => {
                    self.state = State::Ending;
                    self.send(self.buffer.len())?;
                }
                State::Ending => self.file(),
                State::Filing(..) => return self.poll_filed(cx),
                State::Closed | State::Broken(_) | State::Aborted => {
                    return Poll::Ready(Err(self.refusal()));
                }
            }
        }
    }

    /// Waits for the chunks under way, if there are any.
    fn poll_in_flight(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(answer) = &mut self.in_flight else { return Poll::Ready(Ok(())) };
        let answered = ready!(Pin::new(answer).poll(cx)).unwrap_or_else(|_| Err(runtime_ended()));
        self.in_flight = None;
        let answered = answered.map_err(|error| error.within_call(self.stored.outcome(), false));
        match &answered {
            Ok(()) => self.stored.settle(),
            Err(error) => self.state = State::Broken(Some(error.clone())),
        }
        Poll::Ready(answered)
    }

    /// Waits for the file's document, which is under way.
    fn poll_filed(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let State::Filing(answer, date) = &mut self.state else {
            return Poll::Ready(Err(self.refusal()));
        };
        let date = *date;
        let answered = ready!(Pin::new(answer).poll(cx)).unwrap_or_else(|_| Err(runtime_ended()));
        let Err(error) = answered else {
            self.state = State::Closed;
            return Poll::Ready(Ok(()));
        };
        // Asked before the outcome is that of the whole upload.
        if !error.outcome().is_certainly_not_applied() {
            self.stored.unsure_of_file(date);
        }
        let error = error.within_call(self.stored.outcome(), true);
        self.state = State::Broken(Some(error.clone()));
        Poll::Ready(Err(error))
    }

    /// Sends the first bytes of the buffer as chunks; nothing else may be under way.
    fn send(&mut self, length: usize) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        let rest = self.buffer.split_off(length);
        let bytes = std::mem::replace(&mut self.buffer, rest);
        let count = bytes.len().div_ceil(self.chunk_size as usize);
        let Some((first, ids)) = self.stored.expect(count) else {
            let error = Error::invalid_argument(format!(
                "a file cannot have more than {} chunks: choose larger ones",
                i32::MAX
            ));
            self.state = State::Broken(Some(error.clone()));
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
            let insert = bucket.chunks_in_time()?.clone_with_type::<Chunk<'_>>();
            let insert = insert.insert_many(chunks);
            insert.await.map(drop)
        }));
        Ok(())
    }

    /// Sends the file's document. The specification: its date is that of the upload's end.
    fn file(&mut self) {
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
            bucket.files_in_time()?.insert_one(document).await.map(drop)
        });
        self.state = State::Filing(answer, upload_date);
    }

    /// How many bytes may be written before some must be sent.
    fn room(&self) -> usize {
        let chunks = (BATCH_BYTES / self.chunk_size).clamp(1, BATCH_CHUNKS);
        (chunks as usize * self.chunk_size as usize).saturating_sub(self.buffer.len())
    }

    /// Why nothing can be written any more.
    fn refusal(&self) -> Error {
        match &self.state {
            State::Broken(Some(error)) => error.clone(),
            _ => closed(),
        }
    }
}

impl Drop for GridFsUploadStream {
    fn drop(&mut self) {
        match self.state {
            State::Writing | State::Ending if !self.stored.is_nothing() => {}
            // The document of the file may be there, or will be; or what is left is to stay.
            _ => return,
        }
        let (bucket, id) = (self.bucket.renewed(), self.id.clone());
        let (in_flight, mut stored) = (self.in_flight.take(), std::mem::take(&mut self.stored));
        self.bucket.client().executor().spawn(async move {
            if let Some(answer) = in_flight
                && let Ok(Ok(())) = answer.await
            {
                stored.settle();
            }
            stored.delete_unheard(&bucket, &id).await;
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

/// Begins what goes on even if nobody waits for it: a stream that is dropped has to know how its
/// last command ended before it can clean up.
fn begin(client: &Client, work: impl Future<Output = Result<()>> + Send + 'static) -> Answer {
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
    let message = "the runtime of the client ended before the upload".to_owned();
    Error::new(ErrorKind::Internal { message })
}
