//! Running commands of the application's own.

use bson::{Document, RawDocumentBuf};

use super::{ExplicitSession, ImplicitSession, session::Opens};
use crate::{
    ClientSession, Cursor, Database, SessionCursor,
    command::Command,
    error::{Result, command_error::parse},
    operation::{reading, run_command},
    options::{RunCommandOptions, RunCursorCommandOptions},
};

impl Database {
    /// Runs a command as it is and returns the whole reply.
    ///
    /// Nothing is added from the defaults of the database: neither concerns nor a read preference.
    /// It goes to the primary unless `selection_criteria` is set.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let reply = client.database("admin").run_command(doc! { "buildInfo": 1 }).await?;
    /// println!("version {:?}", reply.get_str("version"));
    /// # Ok(()) }
    /// ```
    pub fn run_command(&self, command: Document) -> RunCommand<'_> {
        let command = RawDocumentBuf::try_from(&command).map_err(Into::into);
        RunCommand { database: self, command, options: None, session: None }
    }

    /// Like [`run_command`](Self::run_command), for a command that is in bytes already.
    pub fn run_raw_command(&self, command: RawDocumentBuf) -> RunCommand<'_> {
        RunCommand { database: self, command: Ok(command), options: None, session: None }
    }

    /// Runs a command that answers with a cursor.
    ///
    /// The options say how the cursor asks for more; the command itself is sent as it is.
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
    pub fn run_cursor_command(&self, command: Document) -> RunCursorCommand<'_> {
        let command = RawDocumentBuf::try_from(&command).map_err(Into::into);
        RunCursorCommand { database: self, command, options: None, session: ImplicitSession }
    }

    /// Like [`run_cursor_command`](Self::run_cursor_command), for a command that is in bytes
    /// already.
    pub fn run_raw_cursor_command(&self, command: RawDocumentBuf) -> RunCursorCommand<'_> {
        RunCursorCommand {
            database: self,
            command: Ok(command),
            options: None,
            session: ImplicitSession,
        }
    }
}

/// Runs a command. See [`Database::run_command`].
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
            reading(&reply, |body| parse(body))
        }
    }

    /// Made before the future is, which is then as small as what it needs from there on.
    fn into_command(self) -> Result<Box<Command>> {
        let command = run_command::run(self.database, self.command?, self.options)?;
        command.in_session(self.session, &self.database.client).map(Box::new)
    }
}

awaitable!(['a] RunCommand<'a> => Document);
takes_session!(['a] RunCommand<'a>);
setters!(RunCommandOptions for ['a] RunCommand<'a>);

/// Runs a command that answers with a cursor. See [`Database::run_cursor_command`].
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
        S: Opens,
    {
        let (command, more) = run_command::run_cursor(self.database, self.command?, self.options)?;
        self.session.open(&self.database.client, command, more).await
    }
}

awaitable!(['a] RunCursorCommand<'a> => Cursor<Document>);
awaitable!(['a] RunCursorCommand<'a, ExplicitSession<'a>> => SessionCursor<Document>);
takes_session!(
    ['a] RunCursorCommand { database, command, options }:
    RunCursorCommand<'a> => RunCursorCommand<'a, ExplicitSession<'a>>
);
setters!(RunCursorCommandOptions for ['a, S] RunCursorCommand<'a, S>);
