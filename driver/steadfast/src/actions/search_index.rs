//! Search indexes of MongoDB Atlas: creation, update, removal and lists.

use std::marker::PhantomData;

use bson::Document;

use super::{ExplicitSession, ImplicitSession, Multiple, Single, session::OpenCursor};
use crate::{
    ClientSession, Collection, Cursor, SearchIndexModel, SessionCursor,
    collection::CollectionHandle,
    error::{Error, Result},
    operation::{
        aggregate::{self, AggregateSource},
        check_write_concern,
        collections::ignore_missing,
        read_reply, search_indexes,
    },
    options::{
        AggregateOptions, CreateSearchIndexOptions, DropSearchIndexOptions, ListSearchIndexOptions,
        UpdateSearchIndexOptions,
    },
};

impl<T: Send + Sync> Collection<T> {
    /// Requests the creation of a search index and returns its name. See the
    /// [`createSearchIndexes`](https://www.mongodb.com/docs/manual/reference/command/createSearchIndexes/)
    /// command.
    ///
    /// The server builds the index in the background.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{SearchIndexModel, bson::doc};
    ///
    /// let definition = doc! { "mappings": { "dynamic": true } };
    /// let model = SearchIndexModel::builder().definition(definition).build();
    /// let name = books.create_search_index(model).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error, for
    /// example if it has no search indexes. The command is not retried after a network error. See
    /// also the [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future after the command was sent does not stop it: the server may still execute it. See
    /// [cancellation](crate::action#cancellation).
    pub fn create_search_index(&self, model: SearchIndexModel) -> CreateSearchIndex<'_, Single> {
        CreateSearchIndex::new(&self.handle, vec![model])
    }

    /// Requests the creation of several search indexes and returns their names. See the
    /// [`createSearchIndexes`](https://www.mongodb.com/docs/manual/reference/command/createSearchIndexes/)
    /// command.
    ///
    /// The server builds the indexes in the background.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{SearchIndexModel, bson::doc};
    ///
    /// let definition = doc! { "mappings": { "dynamic": true } };
    /// let model = SearchIndexModel::builder().definition(definition).build();
    /// let names = books.create_search_indexes([model]).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error, for
    /// example if it has no search indexes. The command is not retried after a network error. See
    /// also the [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future after the command was sent does not stop it: the server may still execute it. See
    /// [cancellation](crate::action#cancellation).
    pub fn create_search_indexes(
        &self,
        models: impl IntoIterator<Item = SearchIndexModel>,
    ) -> CreateSearchIndex<'_, Multiple> {
        CreateSearchIndex::new(&self.handle, models.into_iter().collect())
    }

    /// Updates the definition of a search index. See the
    /// [`updateSearchIndex`](https://www.mongodb.com/docs/manual/reference/command/updateSearchIndex/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// books.update_search_index("default", doc! { "mappings": { "dynamic": false } }).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error, for
    /// example if it has no search indexes. The command is not retried after a network error. See
    /// also the [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future after the command was sent does not stop it: the server may still execute it. See
    /// [cancellation](crate::action#cancellation).
    pub fn update_search_index(
        &self,
        name: impl Into<String>,
        definition: Document,
    ) -> UpdateSearchIndex<'_> {
        let name = name.into();
        UpdateSearchIndex {
            collection: &self.handle,
            name,
            definition,
            options: None,
            session: None,
        }
    }

    /// Drops a search index by name. See the
    /// [`dropSearchIndex`](https://www.mongodb.com/docs/manual/reference/command/dropSearchIndex/)
    /// command.
    ///
    /// Succeeds without effect if the collection does not exist.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// books.drop_search_index("default").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error, for
    /// example if it has no search indexes. The command is not retried after a network error. See
    /// also the [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future after the command was sent does not stop it: the server may still execute it. See
    /// [cancellation](crate::action#cancellation).
    pub fn drop_search_index(&self, name: impl Into<String>) -> DropSearchIndex<'_> {
        DropSearchIndex {
            collection: &self.handle,
            name: name.into(),
            options: None,
            session: None,
        }
    }

    /// Lists the search indexes of the collection with their status. See the
    /// [`$listSearchIndexes`](https://www.mongodb.com/docs/manual/reference/operator/aggregation/listSearchIndexes/)
    /// stage.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// let mut indexes = books.list_search_indexes().name("default").await?;
    /// while indexes.advance().await? {
    ///     println!("{:?}", indexes.current().get_str("status"));
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error. See
    /// also the [errors of every action](crate::action#errors).
    pub fn list_search_indexes(&self) -> ListSearchIndexes<'_> {
        ListSearchIndexes {
            collection: &self.handle,
            name: None,
            aggregate_options: None,
            options: None,
            session: ImplicitSession,
        }
    }
}

/// Action that creates search indexes. See [`Collection::create_search_index`] and
/// [`Collection::create_search_indexes`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct CreateSearchIndex<'a, M = Single> {
    collection: &'a CollectionHandle,
    models: Vec<SearchIndexModel>,
    pub(crate) options: Option<CreateSearchIndexOptions>,
    session: Option<&'a mut ClientSession>,
    mode: PhantomData<fn() -> M>,
}

impl<'a, M> CreateSearchIndex<'a, M> {
    fn new(collection: &'a CollectionHandle, models: Vec<SearchIndexModel>) -> Self {
        Self { collection, models, options: None, session: None, mode: PhantomData }
    }

    async fn create(self) -> Result<Vec<String>> {
        let own = self.options.as_ref().and_then(|options| options.timeout);
        let command = search_indexes::create(self.collection, &self.models)?;
        let command = command.limited(own, self.collection.timeout);
        let command = command.in_session(self.session, &self.collection.client)?;
        let reply = self.collection.client.executor().run(command).await?;
        read_reply(&reply, search_indexes::read_create)
    }
}

impl CreateSearchIndex<'_, Single> {
    async fn execute(self) -> Result<String> {
        let names = self.create().await?;
        <[String; 1]>::try_from(names).map(|[name]| name).map_err(|names| {
            Error::invalid_response(format!(
                "createSearchIndexes returned {} names for one index",
                names.len()
            ))
        })
    }
}

impl CreateSearchIndex<'_, Multiple> {
    async fn execute(self) -> Result<Vec<String>> {
        self.create().await
    }
}

awaitable!(['a] CreateSearchIndex<'a, Single> => String);
awaitable!(['a] CreateSearchIndex<'a, Multiple> => Vec<String>);
takes_session!(['a, M] CreateSearchIndex<'a, M>);
setters!(CreateSearchIndexOptions for ['a, M] CreateSearchIndex<'a, M>);

/// Action that updates a search index. See [`Collection::update_search_index`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct UpdateSearchIndex<'a> {
    collection: &'a CollectionHandle,
    name: String,
    definition: Document,
    pub(crate) options: Option<UpdateSearchIndexOptions>,
    session: Option<&'a mut ClientSession>,
}

impl UpdateSearchIndex<'_> {
    async fn execute(self) -> Result<()> {
        let own = self.options.as_ref().and_then(|options| options.timeout);
        let command = search_indexes::update(self.collection, &self.name, &self.definition)?;
        let command = command.limited(own, self.collection.timeout);
        let command = command.in_session(self.session, &self.collection.client)?;
        let reply = self.collection.client.executor().run(command).await?;
        read_reply(&reply, check_write_concern)
    }
}

awaitable!(['a] UpdateSearchIndex<'a> => ());
takes_session!(['a] UpdateSearchIndex<'a>);
setters!(UpdateSearchIndexOptions for ['a] UpdateSearchIndex<'a>);

/// Action that drops a search index. See [`Collection::drop_search_index`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct DropSearchIndex<'a> {
    collection: &'a CollectionHandle,
    name: String,
    pub(crate) options: Option<DropSearchIndexOptions>,
    session: Option<&'a mut ClientSession>,
}

impl DropSearchIndex<'_> {
    async fn execute(self) -> Result<()> {
        let own = self.options.as_ref().and_then(|options| options.timeout);
        let command = search_indexes::drop(self.collection, &self.name)?;
        let command = command.limited(own, self.collection.timeout);
        let command = command.in_session(self.session, &self.collection.client)?;
        match self.collection.client.executor().run(command).await {
            Ok(reply) => read_reply(&reply, check_write_concern),
            Err(error) => ignore_missing(error),
        }
    }
}

awaitable!(['a] DropSearchIndex<'a> => ());
takes_session!(['a] DropSearchIndex<'a>);
setters!(DropSearchIndexOptions for ['a] DropSearchIndex<'a>);

/// Action that lists search indexes. See [`Collection::list_search_indexes`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct ListSearchIndexes<'a, S = ImplicitSession> {
    collection: &'a CollectionHandle,
    name: Option<String>,
    aggregate_options: Option<AggregateOptions>,
    pub(crate) options: Option<ListSearchIndexOptions>,
    session: S,
}

impl<S> ListSearchIndexes<'_, S> {
    /// Lists only the search index with this name.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use futures_util::TryStreamExt;
    ///
    /// let indexes = books.list_search_indexes().name("titles").await?;
    /// println!("{:?}", indexes.try_collect::<Vec<_>>().await?);
    /// # Ok(()) }
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the options of the aggregation that lists the search indexes.
    pub fn aggregate_options(mut self, value: AggregateOptions) -> Self {
        self.aggregate_options = Some(value);
        self
    }
}

impl<S> ListSearchIndexes<'_, S> {
    async fn execute(self) -> Result<S::Cursor<Document>>
    where
        S: OpenCursor,
    {
        let pipeline = search_indexes::listing(self.name.as_deref());
        let source = AggregateSource::CollectionWithoutConcerns(self.collection);
        let mut options = self.aggregate_options.unwrap_or_default();
        options.timeout = self.options.and_then(|options| options.timeout).or(options.timeout);
        let (command, more) = aggregate::aggregate(source, &pipeline, Some(&options))?;
        self.session.open(&self.collection.client, command, more).await
    }
}

awaitable!(['a] ListSearchIndexes<'a> => Cursor<Document>, sync crate::blocking::Cursor<Document>);
awaitable!(['a] ListSearchIndexes<'a, ExplicitSession<'a>> => SessionCursor<Document>, sync crate::blocking::SessionCursor<Document>);
takes_session!(
    ['a] ListSearchIndexes { collection, name, aggregate_options, options }:
    ListSearchIndexes<'a> => ListSearchIndexes<'a, ExplicitSession<'a>>
);
setters!(ListSearchIndexOptions for ['a, S] ListSearchIndexes<'a, S>);
