//! Removal of databases and collections.

use crate::{
    ClientSession, Collection, Database,
    collection::CollectionHandle,
    error::Result,
    operation::{
        check_write_concern,
        collections::{self, ignore_missing},
        databases, read_reply,
    },
    options::{DropCollectionOptions, DropDatabaseOptions},
};

impl Database {
    /// Drops the database with all its collections. See the
    /// [`dropDatabase`](https://www.mongodb.com/docs/manual/reference/command/dropDatabase/)
    /// command.
    ///
    /// Succeeds without effect if the database does not exist.
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// database.drop().await?;
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
    pub fn drop(&self) -> DropDatabase<'_> {
        DropDatabase { database: self, options: None, session: None }
    }
}

impl<T: Send + Sync> Collection<T> {
    /// Drops the collection with its documents and indexes. See the
    /// [`drop`](https://www.mongodb.com/docs/manual/reference/command/drop/) command.
    ///
    /// Succeeds without effect if the collection does not exist.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// books.drop().await?;
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
    pub fn drop(&self) -> DropCollection<'_> {
        DropCollection { collection: &self.handle, options: None, session: None }
    }
}

/// Action that drops a database. See [`Database::drop`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct DropDatabase<'a> {
    database: &'a Database,
    pub(crate) options: Option<DropDatabaseOptions>,
    session: Option<&'a mut ClientSession>,
}

impl DropDatabase<'_> {
    async fn execute(self) -> Result<()> {
        let command = databases::drop(self.database, self.options.as_ref())?;
        let command = command.in_session(self.session, &self.database.client)?;
        match self.database.client.executor().run(command).await {
            Ok(reply) => read_reply(&reply, check_write_concern),
            Err(error) => ignore_missing(error),
        }
    }
}

awaitable!(['a] DropDatabase<'a> => ());
takes_session!(['a] DropDatabase<'a>);
setters!(DropDatabaseOptions for ['a] DropDatabase<'a>);

/// Action that drops a collection. See [`Collection::drop`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct DropCollection<'a> {
    collection: &'a CollectionHandle,
    pub(crate) options: Option<DropCollectionOptions>,
    session: Option<&'a mut ClientSession>,
}

impl DropCollection<'_> {
    async fn execute(self) -> Result<()> {
        let command = collections::drop(self.collection, self.options.as_ref())?;
        let command = command.in_session(self.session, &self.collection.client)?;
        match self.collection.client.executor().run(command).await {
            Ok(reply) => read_reply(&reply, check_write_concern),
            Err(error) => ignore_missing(error),
        }
    }
}

awaitable!(['a] DropCollection<'a> => ());
takes_session!(['a] DropCollection<'a>);
setters!(DropCollectionOptions for ['a] DropCollection<'a>);
