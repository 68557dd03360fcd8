//! A change stream in a session of the application's, which it lends for every step.

use std::{fmt, sync::Weak};

use serde::de::DeserializeOwned;

use super::{ChangeStream, event::ResumeToken};
use crate::{
    ClientSession,
    error::{Error, Result},
    session::Session,
};

/// The changes that are made to what is watched, read in a session of the application's.
///
/// It is a [`ChangeStream`] but for the session that its methods take, so that the session can be
/// used for something else between two events. They fail, and the stream stays where it is, if it
/// is another session than the one that [`watch`](crate::Collection::watch) was given.
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
    /// Known to be the same, but not kept in use longer than the stream lives.
    session: Weak<Session>,
}

impl<T> SessionChangeStream<T> {
    /// The stream of a command that ran in this session.
    pub(crate) fn new(stream: ChangeStream<T>, session: &ClientSession) -> Self {
        Self { stream, session: session.downgrade() }
    }

    /// The token of the place that the stream has come to. See [`ChangeStream::resume_token`].
    pub fn resume_token(&self) -> Option<ResumeToken> {
        self.stream.resume_token()
    }

    /// The same stream, its events read as `D`.
    pub fn with_type<D: DeserializeOwned>(self) -> SessionChangeStream<D> {
        SessionChangeStream { stream: self.stream.with_type(), session: self.session }
    }

    /// Whether there may be another event.
    pub fn is_alive(&self) -> bool {
        self.stream.is_alive()
    }

    /// The next event, however long it takes; none if the stream has ended. After an error there
    /// are no more events, and the error is repeated.
    pub async fn next(&mut self, session: &mut ClientSession) -> Result<Option<T>>
    where
        T: DeserializeOwned,
    {
        self.lend(session)?.next_event().await
    }

    /// The next event, if there is one now. See [`ChangeStream::next_if_any`].
    pub async fn next_if_any(&mut self, session: &mut ClientSession) -> Result<Option<T>>
    where
        T: DeserializeOwned,
    {
        self.lend(session)?.next_if_any().await
    }

    /// The stream to read, if the session is the one that it belongs to.
    fn lend(&mut self, session: &ClientSession) -> Result<&mut ChangeStream<T>> {
        if self.session.ptr_eq(&session.downgrade()) {
            Ok(&mut self.stream)
        } else {
            Err(Error::invalid_argument(
                "a change stream is to be read in the session that it was made in, not in another",
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
