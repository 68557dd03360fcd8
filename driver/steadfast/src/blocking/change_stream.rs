//! Change streams of the blocking API.

use std::fmt;

use serde::de::DeserializeOwned;

use super::{ClientSession, cursor::next_item};
use crate::{
    change_stream::{
        ChangeStream as AsyncChangeStream, event::ResumeToken,
        session::SessionChangeStream as AsyncSessionChangeStream,
    },
    error::Result,
    runtime::block_on_step,
};

/// Change stream: an [`Iterator`] over the changes of a collection, a database or a deployment. See the async
/// [`ChangeStream`](crate::change_stream::ChangeStream).
///
/// The iterator waits for the next event. [`next_if_any`](Self::next_if_any) returns after one `getMore`.
///
/// ```no_run
/// # fn run(books: steadfast::sync::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// for event in books.watch().run()? {
///     println!("{:?}", event?.operation_type);
/// }
/// # Ok(()) }
/// ```
pub struct ChangeStream<T> {
    inner: AsyncChangeStream<T>,
    /// `true` once the iterator has returned an error of blocking.
    error_returned: bool,
}

impl<T> ChangeStream<T> {
    pub(crate) fn new(inner: AsyncChangeStream<T>) -> Self {
        Self { inner, error_returned: false }
    }

    /// Returns the resume token of the last event. See
    /// [`ChangeStream::resume_token`](crate::change_stream::ChangeStream::resume_token).
    pub fn resume_token(&self) -> Option<ResumeToken> {
        self.inner.resume_token()
    }

    /// Returns the same stream with another event type. See
    /// [`ChangeStream::with_type`](crate::change_stream::ChangeStream::with_type).
    pub fn with_type<D: DeserializeOwned>(self) -> ChangeStream<D> {
        ChangeStream { inner: self.inner.with_type(), error_returned: self.error_returned }
    }

    /// Returns `true` if another event may follow. See
    /// [`ChangeStream::is_alive`](crate::change_stream::ChangeStream::is_alive).
    pub fn is_alive(&self) -> bool {
        self.inner.is_alive()
    }

    /// Returns the next event, with at most one `getMore`. `None` means that there is no event now. See
    /// [`ChangeStream::next_if_any`](crate::change_stream::ChangeStream::next_if_any).
    pub fn next_if_any(&mut self) -> Result<Option<T>>
    where
        T: DeserializeOwned,
    {
        block_on_step(self.inner.next_if_any())?
    }
}

/// Events of the stream. It waits for each, and ends after the first error that is not one of deserialization.
impl<T: DeserializeOwned> Iterator for ChangeStream<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        next_item(&mut self.inner, &mut self.error_returned)
    }
}

impl<T> fmt::Debug for ChangeStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// Change stream in an explicit session. See the async
/// [`SessionChangeStream`](crate::change_stream::session::SessionChangeStream).
///
/// ```no_run
/// # fn run(client: steadfast::sync::Client) -> steadfast::error::Result<()> {
/// use steadfast::bson::Document;
///
/// let books = client.database("library").collection::<Document>("books");
/// let mut session = client.start_session().run()?;
/// let mut changes = books.watch().session(&mut session).run()?;
/// while let Some(event) = changes.next(&mut session)? {
///     println!("{:?}", event.operation_type);
/// }
/// # Ok(()) }
/// ```
pub struct SessionChangeStream<T> {
    inner: AsyncSessionChangeStream<T>,
}

impl<T> SessionChangeStream<T> {
    pub(crate) fn new(inner: AsyncSessionChangeStream<T>) -> Self {
        Self { inner }
    }

    /// Returns the resume token of the last event. See
    /// [`SessionChangeStream::resume_token`](crate::change_stream::session::SessionChangeStream::resume_token).
    pub fn resume_token(&self) -> Option<ResumeToken> {
        self.inner.resume_token()
    }

    /// Returns the same stream with another event type. See
    /// [`SessionChangeStream::with_type`](crate::change_stream::session::SessionChangeStream::with_type).
    pub fn with_type<D: DeserializeOwned>(self) -> SessionChangeStream<D> {
        SessionChangeStream { inner: self.inner.with_type() }
    }

    /// Returns `true` if another event may follow. See
    /// [`SessionChangeStream::is_alive`](crate::change_stream::session::SessionChangeStream::is_alive).
    pub fn is_alive(&self) -> bool {
        self.inner.is_alive()
    }

    /// Returns the next event. Waits for one; `None` if the stream has ended. See
    /// [`SessionChangeStream::next`](crate::change_stream::session::SessionChangeStream::next).
    pub fn next(&mut self, session: &mut ClientSession) -> Result<Option<T>>
    where
        T: DeserializeOwned,
    {
        block_on_step(self.inner.next(session.as_async_mut()))?
    }

    /// Returns the next event, if there is one now. See
    /// [`SessionChangeStream::next_if_any`](crate::change_stream::session::SessionChangeStream::next_if_any).
    pub fn next_if_any(&mut self, session: &mut ClientSession) -> Result<Option<T>>
    where
        T: DeserializeOwned,
    {
        block_on_step(self.inner.next_if_any(session.as_async_mut()))?
    }
}

impl<T> fmt::Debug for SessionChangeStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
