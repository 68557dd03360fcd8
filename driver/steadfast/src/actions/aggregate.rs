//! Running pipelines.

use std::marker::PhantomData;

use bson::Document;

use super::{ExplicitSession, ImplicitSession, session::Opens};
use crate::{
    Collection, Cursor, Database, SessionCursor,
    error::Result,
    operation::{
        self,
        aggregate::{self, Source},
    },
    options::AggregateOptions,
};

impl Database {
    /// Runs a pipeline that begins with no collection, such as `$currentOp` or `$documents`.
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate<'_> {
        Aggregate::new(Source::Database(self), pipeline)
    }
}

impl<T: Send + Sync> Collection<T> {
    /// Runs a pipeline on the collection's documents.
    ///
    /// What comes out are [`Document`]s, unless [`with_type`](Aggregate::with_type) says otherwise.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use serde::Deserialize;
    /// use steadfast::bson::doc;
    ///
    /// #[derive(Deserialize)]
    /// struct PerAuthor {
    ///     #[serde(rename = "_id")]
    ///     author: String,
    ///     books: i64,
    /// }
    ///
    /// let mut cursor = books
    ///     .aggregate([doc! { "$group": { "_id": "$author", "books": { "$count": {} } } }])
    ///     .with_type::<PerAuthor>()
    ///     .await?;
    /// while cursor.advance().await? {
    ///     let PerAuthor { author, books } = cursor.deserialize_current()?;
    ///     println!("{author}: {books}");
    /// }
    /// # Ok(()) }
    /// ```
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate<'_> {
        Aggregate::new(Source::Collection(&self.handle), pipeline)
    }
}

/// Runs a pipeline. See [`Collection::aggregate`] and [`Database::aggregate`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct Aggregate<'a, S = ImplicitSession, T = Document> {
    source: Source<'a>,
    pipeline: Vec<Document>,
    pub(crate) options: Option<AggregateOptions>,
    session: S,
    documents: PhantomData<fn() -> T>,
}

impl<'a> Aggregate<'a> {
    pub(super) fn new(source: Source<'a>, pipeline: impl IntoIterator<Item = Document>) -> Self {
        Self {
            source,
            pipeline: pipeline.into_iter().collect(),
            options: None,
            session: ImplicitSession,
            documents: PhantomData,
        }
    }
}

impl<'a, S, T> Aggregate<'a, S, T> {
    /// Reads what comes out as `U`.
    pub fn with_type<U>(self) -> Aggregate<'a, S, U> {
        let Self { source, pipeline, options, session, documents: _ } = self;
        Aggregate { source, pipeline, options, session, documents: PhantomData }
    }
}

impl<S, T> Aggregate<'_, S, T> {
    async fn execute(self) -> Result<S::Cursor<T>>
    where
        S: Opens,
    {
        let options = self.options.as_ref();
        let (command, more) = aggregate::aggregate(self.source, &self.pipeline, options)?;
        let client = self.source.client();
        let command = command.in_shared(self.session.share(client)?)?;
        let reply = client.executor().run(command).await?;
        operation::reading(&reply, operation::read_nothing)?;
        Ok(self.session.keep(Cursor::new(client, reply, more)?))
    }
}

awaitable!(['a, T: 'a] Aggregate<'a, ImplicitSession, T> => Cursor<T>);
awaitable!(['a, T: 'a] Aggregate<'a, ExplicitSession<'a>, T> => SessionCursor<T>);
takes_session!(
    ['a, T] Aggregate { source, pipeline, options, documents }:
    Aggregate<'a, ImplicitSession, T> => Aggregate<'a, ExplicitSession<'a>, T>
);
setters!(AggregateOptions for ['a, S, T] Aggregate<'a, S, T>);
