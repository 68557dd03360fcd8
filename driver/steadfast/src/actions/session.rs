//! In whose session an action runs that gives a cursor: its own, or the application's.

use std::sync::Arc;

use crate::{
    Client, ClientSession, Cursor, SessionCursor,
    change_stream::{ChangeStream, session::SessionChangeStream},
    command::Command,
    error::Result,
    operation::get_more::More,
    session::Session,
};

/// Marks an action that runs in a session of its own.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ImplicitSession;

/// Marks an action that runs in a session of the application's.
#[derive(Debug)]
pub struct ExplicitSession<'a>(&'a mut ClientSession);

impl<'a> ExplicitSession<'a> {
    pub(super) fn new(session: &'a mut ClientSession) -> Self {
        Self(session)
    }
}

/// What opens cursors of its kind.
pub(super) trait Opens: Sized {
    /// The cursor that an application gets.
    type Cursor<T>;
    /// The change stream that an application gets.
    type ChangeStream<T>;

    /// The session for the command, if it is not to have its own.
    fn share(&self, client: &Client) -> Result<Option<Arc<Session>>>;

    /// The cursor as the application gets it.
    fn keep<T>(self, cursor: Cursor<T>) -> Self::Cursor<T>;

    /// The change stream as the application gets it.
    fn keep_stream<T>(self, stream: ChangeStream<T>) -> Self::ChangeStream<T>;

    /// Runs the command that makes a cursor, for the application.
    async fn open<T>(
        self,
        client: &Client,
        command: Command,
        more: More,
    ) -> Result<Self::Cursor<T>> {
        let cursor = self.open_within(client, command, more).await?;
        Ok(self.keep(cursor))
    }

    /// Runs the command that makes a cursor, to be read by the action itself.
    async fn open_within<T>(
        &self,
        client: &Client,
        command: Command,
        mut more: More,
    ) -> Result<Cursor<T>> {
        let shared = self.share(client)?;
        // A session of the application's is its own between two documents.
        more.ahead &= shared.is_none();
        let command = command.in_shared(shared)?;
        // The time limit of a transaction is one for all steps.
        more.renewed &= command.deadline.is_none();
        Cursor::open(client, command, more).await
    }
}

impl Opens for ImplicitSession {
    type Cursor<T> = Cursor<T>;
    type ChangeStream<T> = ChangeStream<T>;

    fn share(&self, _client: &Client) -> Result<Option<Arc<Session>>> {
        Ok(None)
    }

    fn keep<T>(self, cursor: Cursor<T>) -> Cursor<T> {
        cursor
    }

    fn keep_stream<T>(self, stream: ChangeStream<T>) -> ChangeStream<T> {
        stream
    }
}

impl Opens for ExplicitSession<'_> {
    type Cursor<T> = SessionCursor<T>;
    type ChangeStream<T> = SessionChangeStream<T>;

    fn share(&self, client: &Client) -> Result<Option<Arc<Session>>> {
        self.0.share(client).map(Some)
    }

    fn keep<T>(self, cursor: Cursor<T>) -> SessionCursor<T> {
        SessionCursor::new(cursor, self.0)
    }

    fn keep_stream<T>(self, stream: ChangeStream<T>) -> SessionChangeStream<T> {
        SessionChangeStream::new(stream, self.0)
    }
}
