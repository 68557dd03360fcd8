//! Download streams.

mod io;

use std::{
    fmt,
    io::SeekFrom,
    task::{Context, Poll, ready},
};

use bson::{Document, doc};

use super::{
    FilesCollectionDocument, GridFsBucket,
    chunk::{self, ChunkKind},
    equals,
    file::Layout,
};
use crate::{
    Cursor,
    actions::ActionFuture,
    error::{Error, GridFsErrorKind, Result},
};

/// Stream of the contents of a file, opened by
/// [`GridFsBucket::open_download_stream`](super::GridFsBucket::open_download_stream).
///
/// It implements `AsyncRead`, `AsyncBufRead` and `AsyncSeek` of tokio, and those of `futures`. The
/// first read queries the chunks from the current position on. Number and size of each chunk are
/// checked, and at the end that no chunk follows.
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
///
/// # Errors
///
/// Reads return a [`GridFsErrorKind`] if the file is corrupt, and the errors of
/// [`Cursor::advance`](crate::Cursor::advance). The stream repeats its error. The driver's error is
/// inside an `io::Error`; `?` in a function that returns
/// [`steadfast::error::Result`](crate::error::Result) unwraps it.
pub struct GridFsDownloadStream {
    bucket: GridFsBucket,
    file: FilesCollectionDocument,
    layout: Layout,
    /// Offset of the next byte.
    position: u64,
    source: ChunkSource,
}

/// Source of the chunks.
enum ChunkSource {
    /// No query was sent.
    NotQueried,
    /// Query in progress, and the number of its first chunk.
    Querying(ActionFuture<'static, Cursor<Document>>, u32),
    /// Open cursor, the number of its next chunk, and whether it is at the chunk before.
    Open { cursor: Box<Cursor<Document>>, next: u32, at_chunk: bool },
    /// The download failed.
    Failed(Error),
}

impl GridFsDownloadStream {
    pub(super) fn new(bucket: GridFsBucket, file: FilesCollectionDocument) -> Result<Self> {
        let layout = Layout::of(&file)?;
        Ok(Self { bucket, file, layout, position: 0, source: ChunkSource::NotQueried })
    }

    /// Returns the document of the file.
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// let download = bucket.open_download_stream_by_name("film.mkv").await?;
    /// println!("{} bytes", download.file().length);
    /// # Ok(()) }
    /// ```
    pub fn file(&self) -> &FilesCollectionDocument {
        &self.file
    }

    /// Polls for the bytes at the current position, as many as are available. Empty at the end of
    /// the file.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8]>> {
        if let Err(error) = ready!(self.poll_chunk(cx)) {
            self.source = ChunkSource::Failed(error.clone());
            return Poll::Ready(Err(error));
        }
        let (n, offset) = self.layout.locate(self.position);
        let bytes = match &self.source {
            ChunkSource::Open { cursor, next, at_chunk: true } if *next == n + 1 => {
                chunk::data(cursor.current()).and_then(|data| data.get(offset..))
            }
            _ => None,
        };
        Poll::Ready(Ok(bytes.unwrap_or_default()))
    }

    /// Polls for the chunk at the current position.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            let (wanted, _) = self.layout.locate(self.position);
            match &mut self.source {
                ChunkSource::Failed(error) => return Poll::Ready(Err(error.clone())),
                ChunkSource::NotQueried if wanted == self.layout.count => {
                    return Poll::Ready(Ok(()));
                }
                ChunkSource::NotQueried => {
                    self.source = ChunkSource::Querying(self.query_chunks(wanted), wanted);
                }
                ChunkSource::Querying(answer, next) => {
                    let (next, cursor) = (*next, Box::new(ready!(answer.as_mut().poll(cx))?));
                    self.source = ChunkSource::Open { cursor, next, at_chunk: false };
                }
                ChunkSource::Open { next, at_chunk: true, .. } if *next == wanted + 1 => {
                    return Poll::Ready(Ok(()));
                }
                ChunkSource::Open { cursor, next, at_chunk } => {
                    *at_chunk = false;
                    if !ready!(cursor.poll_advance(cx))? {
                        return Poll::Ready(at_end(*next, &self.layout));
                    }
                    match chunk::check(cursor.current(), *next, &self.layout)? {
                        ChunkKind::Surplus => {}
                        ChunkKind::Expected => {
                            *at_chunk = true;
                            *next += 1;
                        }
                    }
                }
            }
        }
    }

    /// Queries the chunks from this one on.
    fn query_chunks(&self, from: u32) -> ActionFuture<'static, Cursor<Document>> {
        let mut filter = equals("files_id", &self.file.id);
        if from > 0 {
            filter.insert("n", doc! { "$gte": i64::from(from) });
        }
        let chunks = self.bucket.chunks_with_timeout();
        Box::pin(async move { chunks?.find(filter).sort(doc! { "n": 1 }).await })
    }

    /// Advances the position.
    fn advance(&mut self, count: usize) {
        self.position = self.position.saturating_add(count as u64);
    }

    /// Seeks to a position, which may be past the end.
    pub(super) fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(position) => (position, 0),
            SeekFrom::End(by) => (self.layout.length, by),
            SeekFrom::Current(by) => (self.position, by),
        };
        let position = from.checked_add_signed(by).ok_or_else(|| {
            let message = "cannot seek before the beginning of the file or past the largest offset";
            std::io::Error::new(std::io::ErrorKind::InvalidInput, message)
        })?;
        self.position = position;
        let (wanted, _) = self.layout.locate(position);
        // The cursor can be used further if the position is in its current or next chunk.
        let on_the_way = match &self.source {
            ChunkSource::Open { next, at_chunk, .. } => {
                wanted == *next || (*at_chunk && wanted + 1 == *next)
            }
            ChunkSource::Querying(_, next) => wanted == *next,
            ChunkSource::NotQueried | ChunkSource::Failed(_) => true,
        };
        if !on_the_way {
            self.source = ChunkSource::NotQueried;
        }
        Ok(position)
    }
}

/// Returns an error if the chunks end before the last one.
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
