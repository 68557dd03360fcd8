//! The documents that a query found, fetched as they are asked for.

mod batch;
mod progress;
mod raw;
mod session;

use std::{
    fmt,
    future::poll_fn,
    marker::PhantomData,
    task::{Context, Poll, ready},
};

use bson::RawDocument;
use bytes::Bytes;
use futures_core::Stream;
use serde::{Deserialize, de::DeserializeOwned};

pub(crate) use self::raw::{Advance, Answer, RawCursor, ask, poll_answer};
pub use self::session::{SessionCursor, SessionCursorStream};
use crate::{
    Client,
    command::{Command, Reply},
    decode,
    error::{Error, Result},
    operation::get_more::More,
};

/// The first document that a reply brings, read without making a cursor of it. None if it takes one.
pub(crate) fn only_document(reply: &Reply) -> Result<Option<Option<Bytes>>> {
    let Some(mut batch) = batch::Batch::complete(reply.bytes()) else { return Ok(None) };
    batch.advance().map_err(|error| error.with_server(&reply.server.address))?;
    Ok(Some(batch.into_current()))
}

/// The documents that a query found.
///
/// The server sends them in batches; a batch is asked for when the one before it has been read, or,
/// while large ones are read one after another, some time before. A cursor is a [`Stream`]; where
/// documents need not be owned, [`advance`](Cursor::advance) and [`current`](Cursor::current) read
/// them where they lie, without copying.
///
/// Dropping a cursor before its end has the server forget it, in the background. The future of
/// [`advance`](Cursor::advance), or of a stream's `next`, can be dropped at any time: a batch that
/// was asked for is not lost, and the next call goes on with it. After an error a cursor gives no
/// more documents: `advance` repeats the error, and a stream ends.
///
/// ```no_run
/// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::bson::doc;
///
/// let mut cursor = books.find(doc! { "author": "George Orwell" }).await?;
/// while cursor.advance().await? {
///     println!("{:?}", cursor.current().get_str("title"));
/// }
/// # Ok(()) }
/// ```
pub struct Cursor<T> {
    raw: RawCursor,
    /// The failure was given out as an item of the stream.
    told: bool,
    documents: PhantomData<fn() -> T>,
}

impl<T> Cursor<T> {
    /// Runs the command that makes a cursor.
    pub(crate) async fn open(client: &Client, command: Command, more: More) -> Result<Self> {
        let reply = client.executor().run(command).await?;
        Self::new(client, reply, more)
    }

    /// A cursor that begins with the reply of the command that made it.
    pub(crate) fn new(client: &Client, reply: Reply, more: More) -> Result<Self> {
        let raw = RawCursor::new(client, reply, more)?;
        Ok(Self { raw, told: false, documents: PhantomData })
    }

    /// Moves on to the next document and says whether there is one, asking the server for more as
    /// often as it takes. A tailable cursor waits until there is one.
    pub async fn advance(&mut self) -> Result<bool> {
        poll_fn(|cx| self.raw.poll_advance(cx)).await
    }

    /// Moves on to the next document, for what is itself polled.
    pub(crate) fn poll_advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        self.raw.poll_advance(cx)
    }

    /// Like [`advance`](Self::advance), but asks the server at most once: false means that there is
    /// no document now. Whether there may be one later, [`has_next`](Self::has_next) knows.
    pub async fn try_advance(&mut self) -> Result<bool> {
        let advance = poll_fn(|cx| self.raw.poll_try_advance(cx)).await?;
        self.raw.end_step();
        Ok(advance == Advance::Document)
    }

    /// The document that the cursor is at.
    ///
    /// # Panics
    ///
    /// If the last call of [`advance`](Self::advance) did not return `Ok(true)`.
    pub fn current(&self) -> &RawDocument {
        self.raw.current().expect("a cursor is at a document only after `advance` returned true")
    }

    /// Whether there may be another document: some have come already, or the server may have more.
    pub fn has_next(&self) -> bool {
        self.raw.has_next()
    }

    /// The document that the cursor is at, as a `T` that may borrow from it.
    ///
    /// Fails if the last call of [`advance`](Self::advance) did not return `Ok(true)`, or if the
    /// document is not a `T`.
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// use serde::Deserialize;
    /// use steadfast::bson::{Document, doc};
    ///
    /// #[derive(Deserialize)]
    /// struct Title<'a> {
    ///     title: &'a str,
    /// }
    ///
    /// let books = database.collection::<Document>("books");
    /// let mut cursor = books.find(doc! {}).await?.with_type::<Title<'_>>();
    /// while cursor.advance().await? {
    ///     println!("{}", cursor.deserialize_current()?.title);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn deserialize_current<'a>(&'a self) -> Result<T>
    where
        T: Deserialize<'a>,
    {
        let document = self.raw.current().ok_or_else(|| {
            Error::invalid_argument("a cursor is at a document only after `advance` returned true")
        })?;
        Ok(decode::document(document.as_bytes())?)
    }

    /// The same cursor, its documents read as `D`.
    pub fn with_type<'a, D>(self) -> Cursor<D>
    where
        D: Deserialize<'a>,
    {
        Cursor { raw: self.raw, told: self.told, documents: PhantomData }
    }
}

impl<T: DeserializeOwned> Stream for Cursor<T> {
    type Item = Result<T>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Self::Item>> {
        if self.told {
            return Poll::Ready(None);
        }
        let item = match ready!(self.raw.poll_advance(cx)) {
            Ok(true) => Some(self.deserialize_current()),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        };
        self.told = self.raw.has_failed();
        Poll::Ready(item)
    }
}

impl<T> fmt::Debug for Cursor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").field("has_next", &self.has_next()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Cursor;

    #[test]
    fn a_cursor_can_be_sent_and_shared() {
        fn sendable<T: Send + Sync + Unpin + 'static>() {}
        sendable::<Cursor<bson::Document>>();
        // Whatever its documents are: it holds none.
        sendable::<Cursor<std::rc::Rc<()>>>();
    }
}
