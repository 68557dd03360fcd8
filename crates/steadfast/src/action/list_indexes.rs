//! Listing indexes.

use std::marker::PhantomData;

use super::{ListNames, ListSpecifications};
use crate::{
    Collection, Cursor, IndexModel, collection::Handle, error::Result, operation::indexes,
    options::ListIndexesOptions,
};

impl<T: Send + Sync> Collection<T> {
    /// What indexes the collection has.
    pub fn list_indexes(&self) -> ListIndexes<'_> {
        ListIndexes { collection: &self.handle, options: None, mode: PhantomData }
    }

    /// The names of the collection's indexes.
    pub fn list_index_names(&self) -> ListIndexes<'_, ListNames> {
        ListIndexes { collection: &self.handle, options: None, mode: PhantomData }
    }
}

/// Lists indexes. See [`Collection::list_indexes`] and [`Collection::list_index_names`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct ListIndexes<'a, M = ListSpecifications> {
    collection: &'a Handle,
    pub(crate) options: Option<ListIndexesOptions>,
    mode: PhantomData<fn() -> M>,
}

impl<M> ListIndexes<'_, M> {
    async fn list(self) -> Result<Cursor<IndexModel>> {
        let (command, more) = indexes::list(self.collection, self.options.as_ref())?;
        Cursor::open(&self.collection.client, command, more).await
    }
}

impl ListIndexes<'_, ListSpecifications> {
    async fn execute(self) -> Result<Cursor<IndexModel>> {
        self.list().await
    }
}

impl ListIndexes<'_, ListNames> {
    async fn execute(self) -> Result<Vec<String>> {
        let mut cursor = self.list().await?;
        let mut names = Vec::new();
        while cursor.advance().await? {
            let index = cursor.deserialize_current()?;
            names.extend(index.given_name().map(str::to_owned));
        }
        Ok(names)
    }
}

awaitable!(['a] ListIndexes<'a, ListSpecifications> => Cursor<IndexModel>);
awaitable!(['a] ListIndexes<'a, ListNames> => Vec<String>);
