//! Session of an action that returns a cursor: implicit, or an explicit one of the application.

use std::sync::Arc;

use crate::{
    Client, ClientSession, Cursor, SessionCursor,
    change_stream::{ChangeStream, session::SessionChangeStream},
    command::Command,
    error::Result,
    operation::get_more::GetMoreOptions,
    raw_batch_cursor::{RawBatchCursor, SessionRawBatchCursor},
    session::Session,
};

/// Type parameter of actions in an implicit session.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ImplicitSession;

/// Type parameter of actions in an explicit session.
#[derive(Debug)]
pub struct ExplicitSession<'a>(&'a mut ClientSession);

impl<'a> ExplicitSession<'a> {
    pub(super) fn new(session: &'a mut ClientSession) -> Self {
        session.begin_use();
        Self(session)
    }
}

/// Opens cursors of the kind that the session requires.
pub(super) trait OpenCursor: Sized {
    /// Cursor type returned to the application.
    type Cursor<T>;
    /// Type of cursors over batches, returned to the application.
    type Batches;
    /// Change stream type returned to the application.
    type ChangeStream<T>;

    /// Returns the explicit session for the command; `None` for an implicit session.
    fn explicit(&self, client: &Client) -> Result<Option<Arc<Session>>>;

    /// Converts a cursor into the type returned to the application.
    fn wrap<T>(self, cursor: Cursor<T>) -> Self::Cursor<T>;

    /// Converts a cursor over batches into the type returned to the application.
    fn wrap_batches(self, cursor: RawBatchCursor) -> Self::Batches;

    /// Converts a change stream into the type returned to the application.
    fn wrap_stream<T>(self, stream: ChangeStream<T>) -> Self::ChangeStream<T>;

    /// Runs the command and returns the cursor for the application.
    async fn open<T>(
        self,
        client: &Client,
        command: Command,
        more: GetMoreOptions,
    ) -> Result<Self::Cursor<T>> {
        let cursor = self.open_internal(client, command, more).await?;
        Ok(self.wrap(cursor))
    }

    /// Runs the command and returns a cursor over its batches.
    async fn open_batches(
        self,
        client: &Client,
        command: Command,
        more: GetMoreOptions,
    ) -> Result<Self::Batches> {
        let (command, more) = self.prepare(client, command, more)?;
        let reply = client.executor().run(command).await?;
        Ok(self.wrap_batches(RawBatchCursor::new(client, reply, more)?))
    }

    /// Runs the command and returns a cursor for the action itself.
    async fn open_internal<T>(
        &self,
        client: &Client,
        command: Command,
        more: GetMoreOptions,
    ) -> Result<Cursor<T>> {
        let (command, more) = self.prepare(client, command, more)?;
        Cursor::open(client, command, more).await
    }

    /// Sets the session of the command, and the options that depend on it.
    fn prepare(
        &self,
        client: &Client,
        command: Command,
        mut more: GetMoreOptions,
    ) -> Result<(Command, GetMoreOptions)> {
        let shared = self.explicit(client)?;
        // The application may use its session between two documents, so no batch is requested
        // ahead.
        more.ahead &= shared.is_none();
        let command = command.in_shared(shared)?;
        // The deadline of a transaction covers all iterations.
        more.renewed &= command.deadline.is_none();
        Ok((command, more))
    }
}

impl OpenCursor for ImplicitSession {
    type Cursor<T> = Cursor<T>;
    type Batches = RawBatchCursor;
    type ChangeStream<T> = ChangeStream<T>;

    fn explicit(&self, _client: &Client) -> Result<Option<Arc<Session>>> {
        Ok(None)
    }

    fn wrap<T>(self, cursor: Cursor<T>) -> Cursor<T> {
        cursor
    }

    fn wrap_batches(self, cursor: RawBatchCursor) -> RawBatchCursor {
        cursor
    }

    fn wrap_stream<T>(self, stream: ChangeStream<T>) -> ChangeStream<T> {
        stream
    }
}

impl OpenCursor for ExplicitSession<'_> {
    type Cursor<T> = SessionCursor<T>;
    type Batches = SessionRawBatchCursor;
    type ChangeStream<T> = SessionChangeStream<T>;

    fn explicit(&self, client: &Client) -> Result<Option<Arc<Session>>> {
        self.0.share(client).map(Some)
    }

    fn wrap<T>(self, cursor: Cursor<T>) -> SessionCursor<T> {
        SessionCursor::new(cursor, self.0)
    }

    fn wrap_batches(self, cursor: RawBatchCursor) -> SessionRawBatchCursor {
        SessionRawBatchCursor::new(cursor, self.0)
    }

    fn wrap_stream<T>(self, stream: ChangeStream<T>) -> SessionChangeStream<T> {
        SessionChangeStream::new(stream, self.0)
    }
}
