//! Dropping databases and collections.

use crate::{
    ClientSession, Collection, Database,
    collection::Handle,
    error::Result,
    operation::{
        collections::{self, forgive_missing},
        databases, read_nothing, reading,
    },
    options::{DropCollectionOptions, DropDatabaseOptions},
};

impl Database {
    /// Drops the database with all that is in it. It is no error if it is not there.
    pub fn drop(&self) -> DropDatabase<'_> {
        DropDatabase { database: self, options: None, session: None }
    }
}

impl<T: Send + Sync> Collection<T> {
    /// Drops the collection with its documents and indexes. It is no error if it is not there.
    pub fn drop(&self) -> DropCollection<'_> {
        DropCollection { collection: &self.handle, options: None, session: None }
    }
}

/// Drops a database. See [`Database::drop`].
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
            Ok(reply) => reading(&reply, read_nothing),
            Err(error) => forgive_missing(error),
        }
    }
}

awaitable!(['a] DropDatabase<'a> => ());
takes_session!(['a] DropDatabase<'a>);
setters!(DropDatabaseOptions for ['a] DropDatabase<'a>);

/// Drops a collection. See [`Collection::drop`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct DropCollection<'a> {
    collection: &'a Handle,
    pub(crate) options: Option<DropCollectionOptions>,
    session: Option<&'a mut ClientSession>,
}

impl DropCollection<'_> {
    async fn execute(self) -> Result<()> {
        let command = collections::drop(self.collection, self.options.as_ref())?;
        let command = command.in_session(self.session, &self.collection.client)?;
        match self.collection.client.executor().run(command).await {
            Ok(reply) => reading(&reply, read_nothing),
            Err(error) => forgive_missing(error),
        }
    }
}

awaitable!(['a] DropCollection<'a> => ());
takes_session!(['a] DropCollection<'a>);
setters!(DropCollectionOptions for ['a] DropCollection<'a>);
