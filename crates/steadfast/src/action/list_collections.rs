//! Listing the collections of a database.

use std::marker::PhantomData;

use serde::Deserialize;

use super::{ListNames, ListSpecifications};
use crate::{
    Cursor, Database, error::Result, operation::collections, options::ListCollectionsOptions,
    results::CollectionSpecification,
};

impl Database {
    /// What collections the database has, and how they were made.
    pub fn list_collections(&self) -> ListCollections<'_> {
        ListCollections { database: self, options: None, mode: PhantomData }
    }

    /// The names of the database's collections.
    pub fn list_collection_names(&self) -> ListCollections<'_, ListNames> {
        ListCollections { database: self, options: None, mode: PhantomData }
    }
}

/// Lists collections. See [`Database::list_collections`] and [`Database::list_collection_names`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct ListCollections<'a, M = ListSpecifications> {
    database: &'a Database,
    pub(crate) options: Option<ListCollectionsOptions>,
    mode: PhantomData<fn() -> M>,
}

impl<M> ListCollections<'_, M> {
    async fn list<T>(self, name_only: bool) -> Result<Cursor<T>> {
        let options = self.options.as_ref();
        let (command, more) = collections::list(self.database, name_only, options)?;
        Cursor::open(&self.database.client, command, more).await
    }
}

impl ListCollections<'_, ListSpecifications> {
    async fn execute(self) -> Result<Cursor<CollectionSpecification>> {
        self.list(false).await
    }
}

impl ListCollections<'_, ListNames> {
    async fn execute(self) -> Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        let mut cursor = self.list::<Named>(true).await?;
        let mut names = Vec::new();
        while cursor.advance().await? {
            names.push(cursor.deserialize_current()?.name);
        }
        Ok(names)
    }
}

awaitable!(['a] ListCollections<'a, ListSpecifications> => Cursor<CollectionSpecification>);
awaitable!(['a] ListCollections<'a, ListNames> => Vec<String>);
