//! Cursors of the blocking API.

use std::{fmt, future::poll_fn, pin::Pin};

use bson::{Document, RawDocument};
use futures_core::Stream;
use serde::{Deserialize, de::DeserializeOwned};

use super::ClientSession;
use crate::{SessionCursorStream, error::Result, runtime::block_on_step};

/// Cursor over the documents of a query: an [`Iterator`]. See the async [`Cursor`](crate::Cursor).
///
/// [`advance`](Self::advance) and [`current`](Self::current) read documents without copying them.
///
/// ```no_run
/// # fn run(books: steadfast::sync::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::bson::doc;
///
/// for book in books.find(doc! { "author": "George Orwell" }).run()? {
///     println!("{}", book?);
/// }
/// # Ok(()) }
/// ```
pub struct Cursor<T> {
    inner: crate::Cursor<T>,
    /// `true` once the iterator has returned an error of blocking.
    error_returned: bool,
}

impl<T> Cursor<T> {
    pub(crate) fn new(inner: crate::Cursor<T>) -> Self {
        Self { inner, error_returned: false }
    }

    /// Advances to the next document. Returns `false` at the end. See
    /// [`Cursor::advance`](crate::Cursor::advance).
    ///
    /// ```no_run
    /// # fn run(books: steadfast::sync::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let mut cursor = books.find(doc! {}).run()?;
    /// while cursor.advance()? {
    ///     println!("{:?}", cursor.current());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn advance(&mut self) -> Result<bool> {
        block_on_step(self.inner.advance())?
    }

    /// Advances to the next document, with at most one `getMore`. See
    /// [`Cursor::try_advance`](crate::Cursor::try_advance).
    pub fn try_advance(&mut self) -> Result<bool> {
        block_on_step(self.inner.try_advance())?
    }

    /// Returns the current document. See [`Cursor::current`](crate::Cursor::current).
    ///
    /// # Panics
    ///
    /// Panics unless the last call of [`advance`](Self::advance) returned `Ok(true)`.
    pub fn current(&self) -> &RawDocument {
        self.inner.current()
    }

    /// Returns `true` if another document may follow. See [`Cursor::has_next`](crate::Cursor::has_next).
    pub fn has_next(&self) -> bool {
        self.inner.has_next()
    }

    /// Deserializes the current document as `T`. See
    /// [`Cursor::deserialize_current`](crate::Cursor::deserialize_current).
    pub fn deserialize_current<'a>(&'a self) -> Result<T>
    where
        T: Deserialize<'a>,
    {
        self.inner.deserialize_current()
    }

    /// Returns the same cursor with another document type. See [`Cursor::with_type`](crate::Cursor::with_type).
    pub fn with_type<'a, D>(self) -> Cursor<D>
    where
        D: Deserialize<'a>,
    {
        Cursor { inner: self.inner.with_type(), error_returned: self.error_returned }
    }
}

/// Documents of the cursor. It ends after the first error that is not one of deserialization.
impl<T: DeserializeOwned> Iterator for Cursor<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        next_item(&mut self.inner, &mut self.error_returned)
    }
}

impl<T> fmt::Debug for Cursor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// Returns the next item of a stream. After an error of blocking the iterator ends, so that a loop that ignores errors
/// ends, too.
pub(super) fn next_item<T>(
    stream: &mut (impl Stream<Item = Result<T>> + Unpin),
    error_returned: &mut bool,
) -> Option<Result<T>> {
    if *error_returned {
        return None;
    }
    let next = block_on_step(poll_fn(|context| Pin::new(&mut *stream).poll_next(context)));
    next.unwrap_or_else(|error| {
        *error_returned = true;
        Some(Err(error))
    })
}

/// Cursor over the documents of a query in an explicit session. See the async
/// [`SessionCursor`](crate::SessionCursor).
///
/// ```no_run
/// # fn run(client: steadfast::sync::Client) -> steadfast::error::Result<()> {
/// use steadfast::bson::{Document, doc};
///
/// let books = client.database("library").collection::<Document>("books");
/// let mut session = client.start_session().run()?;
/// let mut cursor = books.find(doc! {}).session(&mut session).run()?;
/// for book in cursor.iter(&mut session) {
///     println!("{}", book?);
/// }
/// # Ok(()) }
/// ```
pub struct SessionCursor<T> {
    inner: crate::SessionCursor<T>,
}

impl<T> SessionCursor<T> {
    pub(crate) fn new(inner: crate::SessionCursor<T>) -> Self {
        Self { inner }
    }

    /// Advances to the next document. Returns `false` at the end. See
    /// [`SessionCursor::advance`](crate::SessionCursor::advance).
    pub fn advance(&mut self, session: &mut ClientSession) -> Result<bool> {
        block_on_step(self.inner.advance(session.as_async_mut()))?
    }

    /// Advances to the next document, with at most one `getMore`. See
    /// [`SessionCursor::try_advance`](crate::SessionCursor::try_advance).
    pub fn try_advance(&mut self, session: &mut ClientSession) -> Result<bool> {
        block_on_step(self.inner.try_advance(session.as_async_mut()))?
    }

    /// Returns the next document, or `None` at the end. The session can be used between two calls. See
    /// [`SessionCursor::next`](crate::SessionCursor::next).
    pub fn next(&mut self, session: &mut ClientSession) -> Option<Result<T>>
    where
        T: DeserializeOwned,
    {
        self.iter(session).next()
    }

    /// Returns an iterator over the documents, which borrows the session. See
    /// [`SessionCursor::stream`](crate::SessionCursor::stream).
    pub fn iter<'session>(
        &mut self,
        session: &'session mut ClientSession,
    ) -> SessionCursorIter<'_, 'session, T> {
        let stream = self.inner.stream(session.as_async_mut());
        SessionCursorIter { stream, error_returned: false }
    }

    /// Returns the current document. See [`SessionCursor::current`](crate::SessionCursor::current).
    ///
    /// # Panics
    ///
    /// Panics unless the last call of [`advance`](Self::advance) returned `Ok(true)`.
    pub fn current(&self) -> &RawDocument {
        self.inner.current()
    }

    /// Returns `true` if another document may follow. See
    /// [`SessionCursor::has_next`](crate::SessionCursor::has_next).
    pub fn has_next(&self) -> bool {
        self.inner.has_next()
    }

    /// Deserializes the current document as `T`. See
    /// [`SessionCursor::deserialize_current`](crate::SessionCursor::deserialize_current).
    pub fn deserialize_current<'a>(&'a self) -> Result<T>
    where
        T: Deserialize<'a>,
    {
        self.inner.deserialize_current()
    }

    /// Returns the same cursor with another document type. See
    /// [`SessionCursor::with_type`](crate::SessionCursor::with_type).
    pub fn with_type<'a, D>(self) -> SessionCursor<D>
    where
        D: Deserialize<'a>,
    {
        SessionCursor { inner: self.inner.with_type() }
    }
}

impl<T> fmt::Debug for SessionCursor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// Documents of a [`SessionCursor`] as an [`Iterator`]. See [`SessionCursor::iter`].
pub struct SessionCursorIter<'cursor, 'session, T = Document> {
    stream: SessionCursorStream<'cursor, 'session, T>,
    /// `true` once the iterator has returned an error of blocking.
    error_returned: bool,
}

impl<T: DeserializeOwned> Iterator for SessionCursorIter<'_, '_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        next_item(&mut self.stream, &mut self.error_returned)
    }
}

impl<T> fmt::Debug for SessionCursorIter<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCursorIter").finish_non_exhaustive()
    }
}
