//! Change streams in an explicit session, which is passed to each step.

use std::{fmt, sync::Weak};

use serde::de::DeserializeOwned;

use super::{ChangeStream, event::ResumeToken};
use crate::{
    ClientSession,
    error::{Error, Result},
    session::Session,
};

/// Change stream in an explicit session.
///
/// Like a [`ChangeStream`], but its methods take the session, so that the application can use it
/// between two events.
///
/// ```no_run
/// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
/// use steadfast::bson::{Document, doc};
///
/// let library = client.database("library");
/// let (books, log) = (library.collection::<Document>("books"), library.collection("log"));
/// let mut session = client.start_session().await?;
/// let mut changes = books.watch().session(&mut session).await?;
/// while let Some(event) = changes.next(&mut session).await? {
///     log.insert_one(doc! { "book": event.document_key }).session(&mut session).await?;
/// }
/// # Ok(()) }
/// ```
pub struct SessionChangeStream<T> {
    stream: ChangeStream<T>,
    /// Identifies the session without keeping the server session in use.
    session: Weak<Session>,
}

impl<T> SessionChangeStream<T> {
    /// Creates the stream of a command in this session.
    pub(crate) fn new(stream: ChangeStream<T>, session: &ClientSession) -> Self {
        Self { stream, session: session.downgrade() }
    }

    /// Returns the resume token. See [`ChangeStream::resume_token`].
    pub fn resume_token(&self) -> Option<ResumeToken> {
        self.stream.resume_token()
    }

    /// Returns the same stream with another event type.
    pub fn with_type<D: DeserializeOwned>(self) -> SessionChangeStream<D> {
        SessionChangeStream { stream: self.stream.with_type(), session: self.session }
    }

    /// Returns `true` if another event may follow.
    pub fn is_alive(&self) -> bool {
        self.stream.is_alive()
    }

    /// Returns the next event. Waits for one; `None` if the stream has ended.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::bson::Document;
    ///
    /// let books = client.database("library").collection::<Document>("books");
    /// let mut session = client.start_session().await?;
    /// let mut changes = books.watch().session(&mut session).await?;
    /// if let Some(event) = changes.next(&mut session).await? {
    ///     println!("{:?}", event.operation_type);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) with another
    /// session than that of the stream; the stream does not move. Otherwise as
    /// [`ChangeStream::next_if_any`]. Later calls repeat the error.
    ///
    /// # Cancellation
    ///
    /// As [`ChangeStream::next_if_any`].
    pub async fn next(&mut self, session: &mut ClientSession) -> Result<Option<T>>
    where
        T: DeserializeOwned,
    {
        self.in_session(session)?.next_event().await
    }

    /// Returns the next event, if there is one now. See [`ChangeStream::next_if_any`].
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::bson::Document;
    ///
    /// let books = client.database("library").collection::<Document>("books");
    /// let mut session = client.start_session().await?;
    /// let mut changes = books.watch().session(&mut session).await?;
    /// if let Some(event) = changes.next_if_any(&mut session).await? {
    ///     println!("{:?}", event.operation_type);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    ///
    /// # Cancellation
    ///
    /// As [`ChangeStream::next_if_any`].
    pub async fn next_if_any(&mut self, session: &mut ClientSession) -> Result<Option<T>>
    where
        T: DeserializeOwned,
    {
        self.in_session(session)?.next_if_any().await
    }

    /// Returns the stream if the session is its own.
    fn in_session(&mut self, session: &mut ClientSession) -> Result<&mut ChangeStream<T>> {
        session.begin_use();
        if self.session.ptr_eq(&session.downgrade()) {
            Ok(&mut self.stream)
        } else {
            Err(Error::invalid_argument(
                "the change stream was opened in another session; pass the session given to watch",
            ))
        }
    }
}

impl<T> fmt::Debug for SessionChangeStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SessionChangeStream");
        shown.field("is_alive", &self.is_alive()).finish_non_exhaustive()
    }
}
