//! Creation of indexes.

use std::marker::PhantomData;

use super::{Multiple, Single};
use crate::{
    ClientSession, Collection, IndexModel,
    collection::CollectionHandle,
    error::Result,
    operation::{check_write_concern, indexes, read_reply},
    options::CreateIndexOptions,
    results::{CreateIndexResult, CreateIndexesResult},
};

impl<T: Send + Sync> Collection<T> {
    /// Creates an index. See the
    /// [`createIndexes`](https://www.mongodb.com/docs/manual/reference/command/createIndexes/)
    /// command.
    ///
    /// Succeeds without effect if an identical index exists.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{IndexModel, bson::doc, options::IndexOptions};
    ///
    /// let unique = IndexOptions::builder().unique(true).build();
    /// let by_isbn = IndexModel::builder().keys(doc! { "isbn": 1 }).options(unique).build();
    /// let created = books.create_index(by_isbn).await?;
    /// assert_eq!(created.index_name, "isbn_1");
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
    pub fn create_index(&self, index: IndexModel) -> CreateIndex<'_> {
        CreateIndex::new(&self.handle, vec![index])
    }

    /// Creates several indexes with one command. See the
    /// [`createIndexes`](https://www.mongodb.com/docs/manual/reference/command/createIndexes/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{IndexModel, bson::doc};
    ///
    /// let fields = ["title", "year"];
    /// let indexes = fields.map(|field| IndexModel::builder().keys(doc! { field: 1 }).build());
    /// let created = books.create_indexes(indexes).await?;
    /// assert_eq!(created.index_names, ["title_1", "year_1"]);
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
    pub fn create_indexes(
        &self,
        indexes: impl IntoIterator<Item = IndexModel>,
    ) -> CreateIndex<'_, Multiple> {
        CreateIndex::new(&self.handle, indexes.into_iter().collect())
    }
}

/// Action that creates indexes. See [`Collection::create_index`] and
/// [`Collection::create_indexes`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct CreateIndex<'a, M = Single> {
    collection: &'a CollectionHandle,
    indexes: Vec<IndexModel>,
    pub(crate) options: Option<CreateIndexOptions>,
    session: Option<&'a mut ClientSession>,
    mode: PhantomData<fn() -> M>,
}

impl<'a, M> CreateIndex<'a, M> {
    fn new(collection: &'a CollectionHandle, indexes: Vec<IndexModel>) -> Self {
        Self { collection, indexes, options: None, session: None, mode: PhantomData }
    }

    async fn create(self) -> Result<Vec<String>> {
        let (command, names) =
            indexes::create(self.collection, self.indexes, self.options.as_ref())?;
        let command = command.in_session(self.session, &self.collection.client)?;
        let reply = self.collection.client.executor().run(command).await?;
        read_reply(&reply, check_write_concern)?;
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
