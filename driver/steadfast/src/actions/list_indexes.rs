//! Lists of indexes.

use std::marker::PhantomData;

use super::{ExplicitSession, ImplicitSession, ListNames, ListSpecifications, session::OpenCursor};
use crate::{
    Collection, Cursor, IndexModel, SessionCursor, collection::CollectionHandle, error::Result,
    operation::indexes, options::ListIndexesOptions,
};

impl<T: Send + Sync> Collection<T> {
    /// Lists the indexes of the collection. See the
    /// [`listIndexes`](https://www.mongodb.com/docs/manual/reference/command/listIndexes/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// let mut indexes = books.list_indexes().await?;
    /// while indexes.advance().await? {
    ///     println!("{}", indexes.deserialize_current()?.keys);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error. See
    /// also the [errors of every action](crate::action#errors).
    pub fn list_indexes(&self) -> ListIndexes<'_> {
        ListIndexes {
            collection: &self.handle,
            options: None,
            session: ImplicitSession,
            mode: PhantomData,
        }
    }

    /// Lists the names of the indexes of the collection. See the
    /// [`listIndexes`](https://www.mongodb.com/docs/manual/reference/command/listIndexes/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// println!("{}", books.list_index_names().await?.join(", "));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error. See
    /// also the [errors of every action](crate::action#errors).
    pub fn list_index_names(&self) -> ListIndexes<'_, ListNames> {
        ListIndexes {
            collection: &self.handle,
            options: None,
            session: ImplicitSession,
            mode: PhantomData,
        }
    }
}

/// Action that lists indexes. See [`Collection::list_indexes`] and
/// [`Collection::list_index_names`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct ListIndexes<'a, M = ListSpecifications, S = ImplicitSession> {
    collection: &'a CollectionHandle,
    pub(crate) options: Option<ListIndexesOptions>,
    session: S,
    mode: PhantomData<fn() -> M>,
}

impl<S> ListIndexes<'_, ListSpecifications, S> {
    async fn execute(self) -> Result<S::Cursor<IndexModel>>
    where
        S: OpenCursor,
    {
        let (command, more) = indexes::list(self.collection, self.options.as_ref())?;
        self.session.open(&self.collection.client, command, more).await
    }

    async fn open_batches(self) -> Result<S::Batches>
    where
        S: OpenCursor,
    {
        let (command, more) = indexes::list(self.collection, self.options.as_ref())?;
        self.session.open_batches(&self.collection.client, command, more).await
    }
}

impl<S> ListIndexes<'_, ListNames, S> {
    async fn execute(self) -> Result<Vec<String>>
    where
        S: OpenCursor,
    {
        let (command, more) = indexes::list(self.collection, self.options.as_ref())?;
        let cursor = self.session.open_internal(&self.collection.client, command, more);
        let mut cursor: Cursor<IndexModel> = cursor.await?;
        let mut names = Vec::new();
        while cursor.advance().await? {
            let index = cursor.deserialize_current()?;
            names.extend(index.given_name().map(str::to_owned));
        }
        Ok(names)
    }
}

awaitable!(['a] ListIndexes<'a, ListSpecifications> => Cursor<IndexModel>, sync crate::blocking::Cursor<IndexModel>);
awaitable!(['a] ListIndexes<'a, ListSpecifications, ExplicitSession<'a>> => SessionCursor<IndexModel>, sync crate::blocking::SessionCursor<IndexModel>);
awaitable!(['a] ListIndexes<'a, ListNames> => Vec<String>);
awaitable!(['a] ListIndexes<'a, ListNames, ExplicitSession<'a>> => Vec<String>);
returns_batches!(
    ['a] ListIndexes<'a>, ListIndexes<'a, ListSpecifications, ExplicitSession<'a>>
);
takes_session!(
    ['a, M] ListIndexes { collection, options, mode }:
    ListIndexes<'a, M> => ListIndexes<'a, M, ExplicitSession<'a>>
);
setters!(ListIndexesOptions for ['a, M, S] ListIndexes<'a, M, S>);
