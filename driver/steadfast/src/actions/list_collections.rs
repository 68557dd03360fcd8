//! Lists of collections.

use std::marker::PhantomData;

use serde::Deserialize;

use super::{ExplicitSession, ImplicitSession, ListNames, ListSpecifications, session::OpenCursor};
use crate::{
    Cursor, Database, SessionCursor, error::Result, operation::collections,
    options::ListCollectionsOptions, results::CollectionSpecification,
};

impl Database {
    /// Lists the collections of the database with their options. See the
    /// [`listCollections`](https://www.mongodb.com/docs/manual/reference/command/listCollections/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// let mut collections = database.list_collections().await?;
    /// while collections.advance().await? {
    ///     let collection = collections.deserialize_current()?;
    ///     println!("{} ({:?})", collection.name, collection.collection_type);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error. See
    /// also the [errors of every action](crate::action#errors).
    pub fn list_collections(&self) -> ListCollections<'_> {
        ListCollections {
            database: self,
            options: None,
            session: ImplicitSession,
            mode: PhantomData,
        }
    }

    /// Lists the names of the collections of the database. See the
    /// [`listCollections`](https://www.mongodb.com/docs/manual/reference/command/listCollections/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// for name in database.list_collection_names().await? {
    ///     println!("{name}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error. See
    /// also the [errors of every action](crate::action#errors).
    pub fn list_collection_names(&self) -> ListCollections<'_, ListNames> {
        ListCollections {
            database: self,
            options: None,
            session: ImplicitSession,
            mode: PhantomData,
        }
    }
}

/// Action that lists collections. See [`Database::list_collections`] and
/// [`Database::list_collection_names`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct ListCollections<'a, M = ListSpecifications, S = ImplicitSession> {
    database: &'a Database,
    pub(crate) options: Option<ListCollectionsOptions>,
    session: S,
    mode: PhantomData<fn() -> M>,
}

impl<S> ListCollections<'_, ListSpecifications, S> {
    async fn execute(self) -> Result<S::Cursor<CollectionSpecification>>
    where
        S: OpenCursor,
    {
        let (command, more) = collections::list(self.database, false, self.options.as_ref())?;
        self.session.open(&self.database.client, command, more).await
    }

    async fn open_batches(self) -> Result<S::Batches>
    where
        S: OpenCursor,
    {
        let (command, more) = collections::list(self.database, false, self.options.as_ref())?;
        self.session.open_batches(&self.database.client, command, more).await
    }
}

impl<S> ListCollections<'_, ListNames, S> {
    async fn execute(self) -> Result<Vec<String>>
    where
        S: OpenCursor,
    {
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        let (command, more) = collections::list(self.database, true, self.options.as_ref())?;
        let cursor = self.session.open_internal(&self.database.client, command, more);
        let mut cursor: Cursor<Named> = cursor.await?;
        let mut names = Vec::new();
        while cursor.advance().await? {
            names.push(cursor.deserialize_current()?.name);
        }
        Ok(names)
    }
}

awaitable!(['a] ListCollections<'a, ListSpecifications> => Cursor<CollectionSpecification>, sync crate::blocking::Cursor<CollectionSpecification>);
awaitable!(['a] ListCollections<'a, ListSpecifications, ExplicitSession<'a>> => SessionCursor<CollectionSpecification>, sync crate::blocking::SessionCursor<CollectionSpecification>);
awaitable!(['a] ListCollections<'a, ListNames> => Vec<String>);
awaitable!(['a] ListCollections<'a, ListNames, ExplicitSession<'a>> => Vec<String>);
returns_batches!(
    ['a] ListCollections<'a>, ListCollections<'a, ListSpecifications, ExplicitSession<'a>>
);
takes_session!(
    ['a, M] ListCollections { database, options, mode }:
    ListCollections<'a, M> => ListCollections<'a, M, ExplicitSession<'a>>
);
setters!(ListCollectionsOptions for ['a, M, S] ListCollections<'a, M, S>);
