//! Aggregation pipelines.

use std::marker::PhantomData;

use bson::Document;

use super::{ExplicitSession, ImplicitSession, session::OpenCursor};
use crate::{
    Collection, Cursor, Database, SessionCursor,
    command::Reply,
    error::Result,
    operation::{
        self,
        aggregate::{self, AggregateSource},
        get_more::GetMoreOptions,
    },
    options::AggregateOptions,
    raw_batch_cursor::RawBatchCursor,
};

impl Database {
    /// Runs an aggregation pipeline on the database, such as one that begins with `$currentOp` or
    /// `$documents`. See the
    /// [`aggregate`](https://www.mongodb.com/docs/manual/reference/command/aggregate/) command.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let stage = doc! { "$currentOp": {} };
    /// let mut operations = client.database("admin").aggregate([stage]).await?;
    /// while operations.advance().await? {
    ///     println!("{:?}", operations.current());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Collection::aggregate`](Collection::aggregate).
    ///
    /// # Cancellation
    ///
    /// Dropping the future of a pipeline with `$out` or `$merge` does not undo its writes. See
    /// [cancellation](crate::action#cancellation).
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate<'_> {
        Aggregate::new(AggregateSource::Database(self), pipeline)
    }
}

impl<T: Send + Sync> Collection<T> {
    /// Runs an aggregation pipeline on the collection. See the
    /// [`aggregate`](https://www.mongodb.com/docs/manual/reference/command/aggregate/) command.
    ///
    /// The cursor returns [`Document`]s; [`with_type`](Aggregate::with_type) selects another type.
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
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error.
    /// - [`ErrorKind::Write`](crate::error::ErrorKind::Write) if the write concern of `$out` or
    ///   `$merge` is not satisfied.
    ///
    /// A pipeline with `$out` or `$merge` is not retried after a network error. See also the
    /// [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future of a pipeline with `$out` or `$merge` does not undo its writes. See
    /// [cancellation](crate::action#cancellation).
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate<'_> {
        Aggregate::new(AggregateSource::Collection(&self.handle), pipeline)
    }
}

/// Action that runs an aggregation pipeline. See [`Collection::aggregate`] and
/// [`Database::aggregate`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct Aggregate<'a, S = ImplicitSession, T = Document> {
    source: AggregateSource<'a>,
    pipeline: Vec<Document>,
    pub(crate) options: Option<AggregateOptions>,
    session: S,
    documents: PhantomData<fn() -> T>,
}

impl<'a> Aggregate<'a> {
    pub(super) fn new(
        source: AggregateSource<'a>,
        pipeline: impl IntoIterator<Item = Document>,
    ) -> Self {
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
    /// Sets the type that result documents deserialize into.
    pub fn with_type<U>(self) -> Aggregate<'a, S, U> {
        let Self { source, pipeline, options, session, documents: _ } = self;
        Aggregate { source, pipeline, options, session, documents: PhantomData }
    }
}

impl<S, T> Aggregate<'_, S, T> {
    async fn execute(self) -> Result<S::Cursor<T>>
    where
        S: OpenCursor,
    {
        let (reply, more) = self.run_command().await?;
        Ok(self.session.wrap(Cursor::new(self.source.client(), reply, more)?))
    }

    async fn open_batches(self) -> Result<S::Batches>
    where
        S: OpenCursor,
    {
        let (reply, more) = self.run_command().await?;
        Ok(self.session.wrap_batches(RawBatchCursor::new(self.source.client(), reply, more)?))
    }

    async fn run_command(&self) -> Result<(Reply, GetMoreOptions)>
    where
        S: OpenCursor,
    {
        let options = self.options.as_ref();
        let (command, more) = aggregate::aggregate(self.source, &self.pipeline, options)?;
        let client = self.source.client();
        let command = command.in_shared(self.session.explicit(client)?)?;
        let reply = client.executor().run(command).await?;
        operation::read_reply(&reply, operation::check_write_concern)?;
        Ok((reply, more))
    }
}

awaitable!(['a, T: 'a] Aggregate<'a, ImplicitSession, T> => Cursor<T>, sync crate::blocking::Cursor<T>);
awaitable!(['a, T: 'a] Aggregate<'a, ExplicitSession<'a>, T> => SessionCursor<T>, sync crate::blocking::SessionCursor<T>);
returns_batches!(
    ['a, T] Aggregate<'a, ImplicitSession, T>, Aggregate<'a, ExplicitSession<'a>, T>
);
takes_session!(
    ['a, T] Aggregate { source, pipeline, options, documents }:
    Aggregate<'a, ImplicitSession, T> => Aggregate<'a, ExplicitSession<'a>, T>
);
setters!(AggregateOptions for ['a, S, T] Aggregate<'a, S, T>);
