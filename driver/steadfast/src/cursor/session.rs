//! A cursor in a session of the application's, which it lends for every step.

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

/// The documents that a query found, read in the session that it ran in.
///
/// It is a [`Cursor`] but for the session that its methods take, so that the session can be used
/// for something else between two documents. They fail, and the cursor stays where it is, if it is
/// another session than the one the query ran in.
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
    /// Known to be the same, but not kept in use longer than the server keeps the cursor.
    session: Weak<Session>,
}

impl<T> SessionCursor<T> {
    /// The cursor of a command that ran in this session.
    pub(crate) fn new(cursor: Cursor<T>, session: &ClientSession) -> Self {
        Self { cursor, session: session.downgrade() }
    }

    /// Moves on to the next document and says whether there is one. See [`Cursor::advance`].
    pub async fn advance(&mut self, session: &mut ClientSession) -> Result<bool> {
        self.lend(session)?.advance().await
    }

    /// Like [`advance`](Self::advance), but asks the server at most once. See
    /// [`Cursor::try_advance`].
    pub async fn try_advance(&mut self, session: &mut ClientSession) -> Result<bool> {
        self.lend(session)?.try_advance().await
    }

    /// The next document, if there is one.
    pub async fn next(&mut self, session: &mut ClientSession) -> Option<Result<T>>
    where
        T: DeserializeOwned,
    {
        let mut stream = self.stream(session);
        std::future::poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await
    }

    /// The documents as a [`Stream`], for which the session is lent as long as the stream lives.
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
        SessionCursorStream { cursor: self.lend(session).map_err(Some), session: PhantomData }
    }

    /// The document that the cursor is at.
    ///
    /// # Panics
    ///
    /// If the last call of [`advance`](Self::advance) did not return `Ok(true)`.
    pub fn current(&self) -> &RawDocument {
        self.cursor.current()
    }

    /// Whether there may be another document: some have come already, or the server may have more.
    pub fn has_next(&self) -> bool {
        self.cursor.has_next()
    }

    /// The document that the cursor is at, as a `T` that may borrow from it.
    ///
    /// Fails if the last call of [`advance`](Self::advance) did not return `Ok(true)`, or if the
    /// document is not a `T`.
    pub fn deserialize_current<'a>(&'a self) -> Result<T>
    where
        T: Deserialize<'a>,
    {
        self.cursor.deserialize_current()
    }

    /// The same cursor, its documents read as `D`.
    pub fn with_type<'a, D>(self) -> SessionCursor<D>
    where
        D: Deserialize<'a>,
    {
        SessionCursor { cursor: self.cursor.with_type(), session: self.session }
    }

    /// The cursor to read, if the session is the one that it belongs to.
    fn lend(&mut self, session: &ClientSession) -> Result<&mut Cursor<T>> {
        if self.session.ptr_eq(&session.downgrade()) {
            Ok(&mut self.cursor)
        } else {
            Err(Error::invalid_argument(
                "a cursor is to be read in the session that it was made in, not in another",
            ))
        }
    }
}

impl<T> fmt::Debug for SessionCursor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCursor").field("has_next", &self.has_next()).finish_non_exhaustive()
    }
}

/// The documents of a [`SessionCursor`] as a [`Stream`]. See [`SessionCursor::stream`].
pub struct SessionCursorStream<'cursor, 'session, T = bson::Document> {
    /// Or why there are no documents, until that was told.
    cursor: std::result::Result<&'cursor mut Cursor<T>, Option<Error>>,
    session: PhantomData<&'session mut ClientSession>,
}

impl<T: DeserializeOwned> Stream for SessionCursorStream<'_, '_, T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.cursor {
            Ok(cursor) => Pin::new(&mut **cursor).poll_next(cx),
            Err(refusal) => Poll::Ready(refusal.take().map(Err)),
        }
    }
}

impl<T> fmt::Debug for SessionCursorStream<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCursorStream").finish_non_exhaustive()
    }
}
