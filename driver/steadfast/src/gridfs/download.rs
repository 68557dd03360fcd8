//! The stream that a file is read from.

mod io;

use std::{
    fmt,
    io::SeekFrom,
    task::{Context, Poll, ready},
};

use bson::{Document, doc};

use super::{
    FilesCollectionDocument, GridFsBucket,
    chunk::{self, Found},
    exactly,
    file::Layout,
};
use crate::{
    Cursor,
    actions::ActionFuture,
    error::{Error, GridFsErrorKind, Result},
};

/// A stream that a file is read from. See
/// [`GridFsBucket::open_download_stream`](super::GridFsBucket::open_download_stream).
///
/// It is an `AsyncRead`, an `AsyncBufRead` and an `AsyncSeek` of tokio's and of `futures`. The
/// chunks are asked for at the first read, from the one that holds the position on; an empty file
/// asks for none. Each is checked: that it is the next, that it is as long as it must be, and in the
/// end that there is no other. Where the application stops reading, checking stops.
///
/// After an error the stream repeats the error. A driver's error within an `io::Error` becomes
/// itself again with `?` in a function that returns
/// [`steadfast::error::Result`](crate::error::Result).
///
/// ```no_run
/// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
/// use std::io::SeekFrom;
/// use tokio::io::{AsyncReadExt, AsyncSeekExt};
///
/// let mut download = bucket.open_download_stream_by_name("film.mkv").await?;
/// download.seek(SeekFrom::End(-128)).await?;
/// let mut tag = [0; 128];
/// download.read_exact(&mut tag).await?;
/// # Ok(()) }
/// ```
pub struct GridFsDownloadStream {
    bucket: GridFsBucket,
    file: FilesCollectionDocument,
    layout: Layout,
    /// How many bytes are before what is read next.
    position: u64,
    source: Source,
}

/// Where the bytes come from.
enum Source {
    /// Nobody has asked for chunks.
    Unasked,
    /// The answer to the query for chunks, of which the first is to be this.
    Asked(ActionFuture<'static, Cursor<Document>>, u32),
    /// The chunks come; which is to come next, and whether the cursor is at the one before it.
    Open { cursor: Box<Cursor<Document>>, next: u32, at_chunk: bool },
    /// Something is wrong.
    Failed(Error),
}

impl GridFsDownloadStream {
    pub(super) fn new(bucket: GridFsBucket, file: FilesCollectionDocument) -> Result<Self> {
        let layout = Layout::of(&file)?;
        Ok(Self { bucket, file, layout, position: 0, source: Source::Unasked })
    }

    /// What is known of the file.
    pub fn file(&self) -> &FilesCollectionDocument {
        &self.file
    }

    /// The bytes at the position, as many as are there without waiting; none at the end.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8]>> {
        if let Err(error) = ready!(self.poll_chunk(cx)) {
            self.source = Source::Failed(error.clone());
            return Poll::Ready(Err(error));
        }
        let (n, offset) = self.layout.locate(self.position);
        let bytes = match &self.source {
            Source::Open { cursor, next, at_chunk: true } if *next == n + 1 => {
                chunk::data(cursor.current()).and_then(|data| data.get(offset..))
            }
            _ => None,
        };
        Poll::Ready(Ok(bytes.unwrap_or_default()))
    }

    /// Goes to the chunk that holds the position, or finds that there is no more.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            let (wanted, _) = self.layout.locate(self.position);
            match &mut self.source {
                Source::Failed(error) => return Poll::Ready(Err(error.clone())),
                Source::Unasked if wanted == self.layout.count => return Poll::Ready(Ok(())),
                Source::Unasked => self.source = Source::Asked(self.ask(wanted), wanted),
                Source::Asked(answer, next) => {
                    let (next, cursor) = (*next, Box::new(ready!(answer.as_mut().poll(cx))?));
                    self.source = Source::Open { cursor, next, at_chunk: false };
                }
                Source::Open { next, at_chunk: true, .. } if *next == wanted + 1 => {
                    return Poll::Ready(Ok(()));
                }
                Source::Open { cursor, next, at_chunk } => {
                    *at_chunk = false;
                    if !ready!(cursor.poll_advance(cx))? {
                        return Poll::Ready(at_end(*next, &self.layout));
                    }
                    match chunk::check(cursor.current(), *next, &self.layout)? {
                        Found::Surplus => {}
                        Found::Expected => {
                            *at_chunk = true;
                            *next += 1;
                        }
                    }
                }
            }
        }
    }

    /// Asks for the chunks from this one on.
    fn ask(&self, from: u32) -> ActionFuture<'static, Cursor<Document>> {
        let mut filter = exactly("files_id", &self.file.id);
        if from > 0 {
            filter.insert("n", doc! { "$gte": i64::from(from) });
        }
        let chunks = self.bucket.chunks_in_time();
        Box::pin(async move { chunks?.find(filter).sort(doc! { "n": 1 }).await })
    }

    /// These bytes were read.
    fn pass(&mut self, count: usize) {
        self.position = self.position.saturating_add(count as u64);
    }

    /// Goes to another position, which may be past the end.
    fn go_to(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(position) => (position, 0),
            SeekFrom::End(by) => (self.layout.length, by),
            SeekFrom::Current(by) => (self.position, by),
        };
        let position = from.checked_add_signed(by).ok_or_else(|| {
            let message = "a position before the beginning of a file, or beyond all numbers";
            std::io::Error::new(std::io::ErrorKind::InvalidInput, message)
        })?;
        self.position = position;
        let (wanted, _) = self.layout.locate(position);
        // What comes next from the cursor can still be used, and so can what it is at.
        let on_the_way = match &self.source {
            Source::Open { next, at_chunk, .. } => {
                wanted == *next || (*at_chunk && wanted + 1 == *next)
            }
            Source::Asked(_, next) => wanted == *next,
            Source::Unasked | Source::Failed(_) => true,
        };
        if !on_the_way {
            self.source = Source::Unasked;
        }
        Ok(position)
    }
}

/// Whether the chunks may end before this one.
fn at_end(next: u32, layout: &Layout) -> Result<()> {
    if next < layout.count {
        return Err(GridFsErrorKind::MissingChunk { n: next }.into());
    }
    Ok(())
}

impl fmt::Debug for GridFsDownloadStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GridFsDownloadStream")
            .field("bucket", &self.bucket)
            .field("file", &self.file)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
