//! Creation of collections.

use bson::Document;

use crate::{
    ClientSession, Database,
    error::Result,
    operation::{check_write_concern, collections, read_reply},
    options::CreateCollectionOptions,
};

impl Database {
    /// Creates a collection or a view. See the
    /// [`create`](https://www.mongodb.com/docs/manual/reference/command/create/) command.
    ///
    /// A collection without options need not be created: the first insert creates it.
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// database.create_collection("events").capped(true).size(1_u64 << 20).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error.
    /// - [`ErrorKind::Write`](crate::error::ErrorKind::Write) if the write concern is not
    ///   satisfied.
    ///
    /// The command is not retried after a network error;
    /// [`Error::outcome`](crate::error::Error::outcome) states whether it was applied. See also the
    /// [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future after the command was sent does not stop it: the server may still execute it. See
    /// [cancellation](crate::action#cancellation).
    pub fn create_collection(&self, name: impl Into<String>) -> CreateCollection<'_> {
        CreateCollection { database: self, name: name.into(), options: None, session: None }
    }
}

/// Action that creates a collection. See [`Database::create_collection`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct CreateCollection<'a> {
    database: &'a Database,
    name: String,
    pub(crate) options: Option<CreateCollectionOptions>,
    session: Option<&'a mut ClientSession>,
}

impl CreateCollection<'_> {
    async fn execute(self) -> Result<()> {
        let collection = self.database.collection::<Document>(&self.name);
        let command = collections::create(&collection.handle, self.options.as_ref())?;
        let command = command.in_session(self.session, &self.database.client)?;
        let reply = self.database.client.executor().run(command).await?;
        read_reply(&reply, check_write_concern)
    }
}

awaitable!(['a] CreateCollection<'a> => ());
takes_session!(['a] CreateCollection<'a>);
setters!(CreateCollectionOptions for ['a] CreateCollection<'a>);
