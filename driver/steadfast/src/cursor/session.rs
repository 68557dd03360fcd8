//! Cursors in an explicit session, which is passed to each step.

use std::{
    fmt,
    marker::PhantomData,
    pin::Pin,
    sync::Weak,
    task::{Context, Poll},
};

use bson::RawDocument;
use futures_core::Stream;
use serde::{Deserialize, de::DeserializeOwned};

use super::Cursor;
use crate::{
    ClientSession,
    error::{Error, Result},
    session::Session,
};

/// Cursor over the documents of a query in an explicit session.
/// See [cursors](https://www.mongodb.com/docs/manual/core/cursors/).
///
/// Like a [`Cursor`], but its methods take the session, so that the application can use it between
/// two documents.
///
/// ```no_run
/// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
/// use steadfast::bson::{Document, doc};
///
/// let library = client.database("library");
/// let (books, lent) = (library.collection::<Document>("books"), library.collection("lent"));
/// let mut session = client.start_session().await?;
/// let mut cursor = books.find(doc! { "copies": 0 }).session(&mut session).await?;
/// while let Some(book) = cursor.next(&mut session).await.transpose()? {
///     lent.insert_one(book).session(&mut session).await?;
/// }
/// # Ok(()) }
/// ```
pub struct SessionCursor<T> {
    cursor: Cursor<T>,
    /// Identifies the session without keeping the server session in use.
    session: Weak<Session>,
}

impl<T> SessionCursor<T> {
    /// Creates the cursor of a command in this session.
    pub(crate) fn new(cursor: Cursor<T>, session: &ClientSession) -> Self {
        Self { cursor, session: session.downgrade() }
    }

    /// Advances to the next document. Returns `false` at the end. See [`Cursor::advance`].
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::bson::{Document, doc};
    ///
    /// let books = client.database("library").collection::<Document>("books");
    /// let mut session = client.start_session().await?;
    /// let mut cursor = books.find(doc! {}).session(&mut session).await?;
    /// while cursor.advance(&mut session).await? {
    ///     println!("{:?}", cursor.current());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) with another
    /// session than that of the query; the cursor does not move. Otherwise as [`Cursor::advance`].
    ///
    /// # Cancellation
    ///
    /// As [`Cursor::advance`].
    pub async fn advance(&mut self, session: &mut ClientSession) -> Result<bool> {
        self.in_session(session)?.advance().await
    }

    /// Advances to the next document, with at most one `getMore`. See [`Cursor::try_advance`].
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::{Document, doc}, options::CursorType};
    ///
    /// let log = client.database("library").collection::<Document>("log");
    /// let mut session = client.start_session().await?;
    /// let mut cursor = log.find(doc! {}).cursor_type(CursorType::Tailable).session(&mut session).await?;
    /// while cursor.has_next() {
    ///     if cursor.try_advance(&mut session).await? {
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
    /// As [`Cursor::advance`].
    pub async fn try_advance(&mut self, session: &mut ClientSession) -> Result<bool> {
        self.in_session(session)?.try_advance().await
    }

    /// Returns the next document, or `None` at the end.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::bson::{Document, doc};
    ///
    /// let books = client.database("library").collection::<Document>("books");
    /// let mut session = client.start_session().await?;
    /// let mut cursor = books.find(doc! {}).session(&mut session).await?;
    /// while let Some(book) = cursor.next(&mut session).await {
    ///     println!("{}", book?);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`advance`](Self::advance), or [`ErrorKind::Bson`](crate::error::ErrorKind::Bson) if the
    /// document does not deserialize as `T`.
    pub async fn next(&mut self, session: &mut ClientSession) -> Option<Result<T>>
    where
        T: DeserializeOwned,
    {
        let mut stream = self.stream(session);
        std::future::poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await
    }

    /// Returns the documents as a [`Stream`], which borrows the session.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use futures_util::TryStreamExt;
    /// use steadfast::bson::{Document, doc};
    ///
    /// let books = client.database("library").collection::<Document>("books");
    /// let mut session = client.start_session().await?;
    /// let mut cursor = books.find(doc! {}).session(&mut session).await?;
    /// let all: Vec<Document> = cursor.stream(&mut session).try_collect().await?;
    /// # Ok(()) }
    /// ```
    pub fn stream<'session>(
        &mut self,
        session: &'session mut ClientSession,
    ) -> SessionCursorStream<'_, 'session, T> {
        SessionCursorStream { cursor: self.in_session(session).map_err(Some), session: PhantomData }
    }

    /// Returns the current document.
    ///
    /// # Panics
    ///
    /// Panics unless the last call of [`advance`](Self::advance) returned `Ok(true)`.
    pub fn current(&self) -> &RawDocument {
        self.cursor.current()
    }

    /// Returns `true` if another document may follow: from the current batch or from the server.
    pub fn has_next(&self) -> bool {
        self.cursor.has_next()
    }

    /// Deserializes the current document as `T`, which may borrow from it. See
    /// [`Cursor::deserialize_current`].
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::bson::{Document, doc};
    ///
    /// let books = client.database("library").collection::<Document>("books");
    /// let mut session = client.start_session().await?;
    /// let mut cursor = books.find(doc! {}).session(&mut session).await?;
    /// if cursor.advance(&mut session).await? {
    ///     println!("{}", cursor.deserialize_current()?);
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
        self.cursor.deserialize_current()
    }

    /// Returns the same cursor with another document type.
    pub fn with_type<'a, D>(self) -> SessionCursor<D>
    where
        D: Deserialize<'a>,
    {
        SessionCursor { cursor: self.cursor.with_type(), session: self.session }
    }

    /// Returns the cursor if the session is its own.
    fn in_session(&mut self, session: &mut ClientSession) -> Result<&mut Cursor<T>> {
        session.begin_use();
        if self.session.ptr_eq(&session.downgrade()) {
            Ok(&mut self.cursor)
        } else {
            Err(Error::invalid_argument(
                "the cursor was created in another session; pass the session of the query",
            ))
        }
    }
}

impl<T> fmt::Debug for SessionCursor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCursor").field("has_next", &self.has_next()).finish_non_exhaustive()
    }
}

/// Documents of a [`SessionCursor`] as a [`Stream`]. See [`SessionCursor::stream`].
pub struct SessionCursorStream<'cursor, 'session, T = bson::Document> {
    /// Cursor, or the error for a wrong session until the stream has returned it.
    cursor: std::result::Result<&'cursor mut Cursor<T>, Option<Error>>,
    session: PhantomData<&'session mut ClientSession>,
}

impl<T: DeserializeOwned> Stream for SessionCursorStream<'_, '_, T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.cursor {
            Ok(cursor) => Pin::new(&mut **cursor).poll_next(cx),
            Err(error) => Poll::Ready(error.take().map(Err)),
        }
    }
}

impl<T> fmt::Debug for SessionCursorStream<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCursorStream").finish_non_exhaustive()
    }
}
