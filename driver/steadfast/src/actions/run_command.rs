//! Arbitrary commands.

use bson::{Document, RawDocumentBuf};

use super::{ExplicitSession, ImplicitSession, session::OpenCursor};
use crate::{
    ClientSession, Cursor, Database, SessionCursor,
    command::Command,
    error::{Result, command_error::parse},
    operation::{read_reply, run_command},
    options::{RunCommandOptions, RunCursorCommandOptions},
};

impl Database {
    /// Runs a command and returns the reply. See
    /// [run command](https://github.com/mongodb/specifications/blob/master/source/run-command/run-command.md).
    ///
    /// The command is sent to the primary unless `selection_criteria` is set. Read concern, write
    /// concern and read preference of the database are not added, and the command is not retried
    /// after a network error. A [`timeout`](RunCommand::timeout) adds `maxTimeMS`.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let reply = client.database("admin").run_command(doc! { "buildInfo": 1 }).await?;
    /// println!("version {:?}", reply.get_str("version"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error. See
    /// also the [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future after the command was sent does not stop it: the server may still execute it. See
    /// [cancellation](crate::action#cancellation).
    pub fn run_command(&self, command: Document) -> RunCommand<'_> {
        let command = bson::to_raw_document(&command).map_err(Into::into);
        RunCommand { database: self, command, options: None, session: None }
    }

    /// Runs a command given as raw BSON and returns the reply. See
    /// [`run_command`](Self::run_command).
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// use steadfast::bson::rawdoc;
    ///
    /// let reply = database.run_raw_command(rawdoc! { "ping": 1 }).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error. See
    /// also the [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future after the command was sent does not stop it: the server may still execute it. See
    /// [cancellation](crate::action#cancellation).
    pub fn run_raw_command(&self, command: RawDocumentBuf) -> RunCommand<'_> {
        RunCommand { database: self, command: Ok(command), options: None, session: None }
    }

    /// Runs a command that returns a cursor. See
    /// [run command](https://github.com/mongodb/specifications/blob/master/source/run-command/run-command.md).
    ///
    /// The command is sent as is, like that of [`run_command`](Self::run_command). The options
    /// apply to each `getMore` of the cursor.
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let command = doc! { "checkMetadataConsistency": 1 };
    /// let mut cursor = database.run_cursor_command(command).batch_size(50).await?;
    /// while cursor.advance().await? {
    ///     println!("{}", cursor.deserialize_current()?);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error.
    /// - [`ErrorKind::InvalidResponse`](crate::error::ErrorKind::InvalidResponse) if the reply
    ///   contains no cursor.
    ///
    /// See also the [errors of every action](crate::action#errors).
    pub fn run_cursor_command(&self, command: Document) -> RunCursorCommand<'_> {
        let command = bson::to_raw_document(&command).map_err(Into::into);
        RunCursorCommand { database: self, command, options: None, session: ImplicitSession }
    }

    /// Runs a command given as raw BSON that returns a cursor. See
    /// [`run_cursor_command`](Self::run_cursor_command).
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// use steadfast::bson::rawdoc;
    ///
    /// let cursor = database.run_raw_cursor_command(rawdoc! { "listIndexes": "books" }).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error.
    /// - [`ErrorKind::InvalidResponse`](crate::error::ErrorKind::InvalidResponse) if the reply
    ///   contains no cursor.
    ///
    /// See also the [errors of every action](crate::action#errors).
    pub fn run_raw_cursor_command(&self, command: RawDocumentBuf) -> RunCursorCommand<'_> {
        RunCursorCommand {
            database: self,
            command: Ok(command),
            options: None,
            session: ImplicitSession,
        }
    }
}

/// Action that runs a command. See [`Database::run_command`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct RunCommand<'a> {
    database: &'a Database,
    command: Result<RawDocumentBuf>,
    pub(crate) options: Option<RunCommandOptions>,
    session: Option<&'a mut ClientSession>,
}

impl<'a> RunCommand<'a> {
    fn execute(self) -> impl Future<Output = Result<Document>> + Send + use<'a> {
        let client = &self.database.client;
        let command = self.into_command();
        async move {
            let reply = client.executor().run(command?).await?;
            read_reply(&reply, |body| parse(body))
        }
    }

    /// Builds the command before the future, which is smaller without the options.
    fn into_command(self) -> Result<Box<Command>> {
        let command = run_command::run(self.database, self.command?, self.options)?;
        command.in_session(self.session, &self.database.client).map(Box::new)
    }
}

awaitable!(['a] RunCommand<'a> => Document);
takes_session!(['a] RunCommand<'a>);
setters!(RunCommandOptions for ['a] RunCommand<'a>);

/// Action that runs a command that returns a cursor. See [`Database::run_cursor_command`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct RunCursorCommand<'a, S = ImplicitSession> {
    database: &'a Database,
    command: Result<RawDocumentBuf>,
    pub(crate) options: Option<RunCursorCommandOptions>,
    session: S,
}

impl<S> RunCursorCommand<'_, S> {
    async fn execute(self) -> Result<S::Cursor<Document>>
    where
        S: OpenCursor,
    {
        let (command, more) = run_command::run_cursor(self.database, self.command?, self.options)?;
        self.session.open(&self.database.client, command, more).await
    }

    async fn open_batches(self) -> Result<S::Batches>
    where
        S: OpenCursor,
    {
        let (command, more) = run_command::run_cursor(self.database, self.command?, self.options)?;
        self.session.open_batches(&self.database.client, command, more).await
    }
}

awaitable!(['a] RunCursorCommand<'a> => Cursor<Document>, sync crate::blocking::Cursor<Document>);
awaitable!(['a] RunCursorCommand<'a, ExplicitSession<'a>> => SessionCursor<Document>, sync crate::blocking::SessionCursor<Document>);
returns_batches!(['a] RunCursorCommand<'a>, RunCursorCommand<'a, ExplicitSession<'a>>);
takes_session!(
    ['a] RunCursorCommand { database, command, options }:
    RunCursorCommand<'a> => RunCursorCommand<'a, ExplicitSession<'a>>
);
setters!(RunCursorCommandOptions for ['a, S] RunCursorCommand<'a, S>);
