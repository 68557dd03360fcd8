//! Cursors: documents of a query, fetched in batches.

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

pub(crate) use self::raw::{Advance, PendingReply, RawCursor, poll_pending, spawn_command};
pub use self::session::{SessionCursor, SessionCursorStream};
use crate::{
    Client,
    command::{Command, Reply},
    decode,
    error::{Error, Result},
    operation::get_more::GetMoreOptions,
};

/// Returns the first document of a reply without creating a cursor. `None` if a cursor is needed.
pub(crate) fn only_document(reply: &Reply) -> Result<Option<Option<Bytes>>> {
    let Some(mut batch) = batch::CursorBatch::complete(reply.bytes()) else { return Ok(None) };
    batch.advance().map_err(|error| error.with_server(&reply.server.address))?;
    Ok(Some(batch.into_current()))
}

/// Cursor over the documents of a query.
/// See [cursors](https://www.mongodb.com/docs/manual/core/cursors/).
///
/// The server returns documents in batches. The next batch is requested at the end of the current
/// one, or earlier while large batches are read one after another. A cursor is a [`Stream`];
/// [`advance`](Cursor::advance) and [`current`](Cursor::current) read documents without copying
/// them.
///
/// After an error a cursor returns no more documents: `advance` repeats the error, and the stream
/// ends.
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
///
/// # Cancellation
///
/// The future of [`advance`](Cursor::advance), or of the stream's `next`, can be dropped: the
/// `getMore` continues in the background, and the next call receives its batch. Dropping the cursor
/// kills it on the server in the background (`killCursors`).
pub struct Cursor<T> {
    raw: RawCursor,
    /// `true` once the stream has returned the error.
    error_returned: bool,
    documents: PhantomData<fn() -> T>,
}

impl<T> Cursor<T> {
    /// Runs the command that creates the cursor.
    pub(crate) async fn open(
        client: &Client,
        command: Command,
        more: GetMoreOptions,
    ) -> Result<Self> {
        let reply = client.executor().run(command).await?;
        Self::new(client, reply, more)
    }

    /// Creates a cursor from the reply of its command.
    pub(crate) fn new(client: &Client, reply: Reply, more: GetMoreOptions) -> Result<Self> {
        let raw = RawCursor::new(client, reply, more)?;
        Ok(Self { raw, error_returned: false, documents: PhantomData })
    }

    /// Advances to the next document, with as many `getMore` commands as necessary. Returns `false`
    /// at the end. A tailable cursor waits for the next document.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let mut cursor = books.find(doc! {}).await?;
    /// while cursor.advance().await? {
    ///     println!("{:?}", cursor.current());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Command`](crate::error::ErrorKind::Command) if a `getMore` fails, for example
    ///   with `CursorNotFound`. A `getMore` is not retried after a network error.
    /// - [`ErrorKind::InvalidResponse`](crate::error::ErrorKind::InvalidResponse) if a batch is
    ///   malformed.
    ///
    /// See also the [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// The future can be dropped. The `getMore` continues in the background, and the next call
    /// receives its batch.
    pub async fn advance(&mut self) -> Result<bool> {
        poll_fn(|cx| self.raw.poll_advance(cx)).await
    }

    /// Polls for the next document.
    pub(crate) fn poll_advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        self.raw.poll_advance(cx)
    }

    /// Advances to the next document, with at most one `getMore`. `false` means that no document is
    /// available now; [`has_next`](Self::has_next) returns whether one may follow.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::CursorType};
    ///
    /// let mut cursor = books.find(doc! {}).cursor_type(CursorType::Tailable).await?;
    /// while cursor.has_next() {
    ///     if cursor.try_advance().await? {
    ///         println!("{:?}", cursor.current());
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`advance`](Self::advance).
    ///
    /// # Cancellation
    ///
    /// As [`advance`](Self::advance).
    pub async fn try_advance(&mut self) -> Result<bool> {
        let advance = poll_fn(|cx| self.raw.poll_try_advance(cx)).await?;
        self.raw.end_iteration();
        Ok(advance == Advance::Document)
    }

    /// Returns the current document.
    ///
    /// # Panics
    ///
    /// Panics unless the last call of [`advance`](Self::advance) returned `Ok(true)`.
    pub fn current(&self) -> &RawDocument {
        self.raw
            .current()
            .expect("no current document: call `current` only after `advance` returned true")
    }

    /// Returns `true` if another document may follow: from the current batch or from the server.
    pub fn has_next(&self) -> bool {
        self.raw.has_next()
    }

    /// Deserializes the current document as `T`, which may borrow from it.
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
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) unless the last
    ///   call of [`advance`](Self::advance) returned `Ok(true)`.
    /// - [`ErrorKind::Bson`](crate::error::ErrorKind::Bson) if the document does not deserialize as
    ///   `T`.
    pub fn deserialize_current<'a>(&'a self) -> Result<T>
    where
        T: Deserialize<'a>,
    {
        let document = self.raw.current().ok_or_else(|| {
            Error::invalid_argument(
                "no current document; call deserialize_current only after advance returned true",
            )
        })?;
        Ok(decode::document(document.as_bytes())?)
    }

    /// Returns the same cursor with another document type.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::{RawDocumentBuf, doc};
    ///
    /// let raw = books.find(doc! {}).await?.with_type::<RawDocumentBuf>();
    /// # Ok(()) }
    /// ```
    pub fn with_type<'a, D>(self) -> Cursor<D>
    where
        D: Deserialize<'a>,
    {
        Cursor { raw: self.raw, error_returned: self.error_returned, documents: PhantomData }
    }
}

impl<T: DeserializeOwned> Stream for Cursor<T> {
    type Item = Result<T>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Self::Item>> {
        if self.error_returned {
            return Poll::Ready(None);
        }
        let item = match ready!(self.raw.poll_advance(cx)) {
            Ok(true) => Some(self.deserialize_current()),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        };
        self.error_returned = self.raw.has_failed();
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
    fn cursors_are_send_and_sync() {
        fn sendable<T: Send + Sync + Unpin + 'static>() {}
        sendable::<Cursor<bson::Document>>();
        // For any document type: a cursor contains no document.
        sendable::<Cursor<std::rc::Rc<()>>>();
    }
}
