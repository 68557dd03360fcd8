//! Making indexes.

use std::marker::PhantomData;

use super::{Multiple, Single};
use crate::{
    ClientSession, Collection, IndexModel,
    collection::Handle,
    error::Result,
    operation::{indexes, read_nothing, reading},
    options::CreateIndexOptions,
    results::{CreateIndexResult, CreateIndexesResult},
};

impl<T: Send + Sync> Collection<T> {
    /// Makes an index. It is no error if the same index is there already.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{IndexModel, bson::doc, options::IndexOptions};
    ///
    /// let unique = IndexOptions::builder().unique(true).build();
    /// let by_isbn = IndexModel::builder().keys(doc! { "isbn": 1 }).options(unique).build();
    /// let made = books.create_index(by_isbn).await?;
    /// assert_eq!(made.index_name, "isbn_1");
    /// # Ok(()) }
    /// ```
    pub fn create_index(&self, index: IndexModel) -> CreateIndex<'_> {
        CreateIndex::new(&self.handle, vec![index])
    }

    /// Makes several indexes at once.
    pub fn create_indexes(
        &self,
        indexes: impl IntoIterator<Item = IndexModel>,
    ) -> CreateIndex<'_, Multiple> {
        CreateIndex::new(&self.handle, indexes.into_iter().collect())
    }
}

/// Makes indexes. See [`Collection::create_index`] and [`Collection::create_indexes`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct CreateIndex<'a, M = Single> {
    collection: &'a Handle,
    indexes: Vec<IndexModel>,
    pub(crate) options: Option<CreateIndexOptions>,
    session: Option<&'a mut ClientSession>,
    mode: PhantomData<fn() -> M>,
}

impl<'a, M> CreateIndex<'a, M> {
    fn new(collection: &'a Handle, indexes: Vec<IndexModel>) -> Self {
        Self { collection, indexes, options: None, session: None, mode: PhantomData }
    }

    async fn create(self) -> Result<Vec<String>> {
        let (command, names) =
            indexes::create(self.collection, self.indexes, self.options.as_ref())?;
        let command = command.in_session(self.session, &self.collection.client)?;
        let reply = self.collection.client.executor().run(command).await?;
        reading(&reply, read_nothing)?;
        Ok(names)
    }
}

impl CreateIndex<'_, Single> {
    async fn execute(self) -> Result<CreateIndexResult> {
        let names = self.create().await?;
        Ok(CreateIndexResult { index_name: names.into_iter().next().unwrap_or_default() })
    }
}

impl CreateIndex<'_, Multiple> {
    async fn execute(self) -> Result<CreateIndexesResult> {
        Ok(CreateIndexesResult { index_names: self.create().await? })
    }
}

awaitable!(['a] CreateIndex<'a, Single> => CreateIndexResult);
awaitable!(['a] CreateIndex<'a, Multiple> => CreateIndexesResult);
takes_session!(['a, M] CreateIndex<'a, M>);
setters!(CreateIndexOptions for ['a, M] CreateIndex<'a, M>);
