//! Change streams.

use std::{marker::PhantomData, sync::Arc};

use bson::Document;

use super::{ExplicitSession, ImplicitSession, session::OpenCursor};
use crate::{
    Client, Collection, Database,
    change_stream::{
        ChangeStream,
        event::{ChangeStreamEvent, ResumeToken},
        session::SessionChangeStream,
    },
    error::Result,
    operation::change_stream::{ChangeStreamPlan, ChangeStreamScope},
    options::ChangeStreamOptions,
};

impl Client {
    /// Opens a change stream on all databases except `admin`, `config` and `local`. See
    /// [`Collection::watch`].
    /// See [change streams](https://www.mongodb.com/docs/manual/changeStreams/).
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use futures_util::TryStreamExt;
    ///
    /// let mut changes = client.watch().await?;
    /// while let Some(event) = changes.try_next().await? {
    ///     println!("{:?} in {:?}", event.operation_type, event.ns);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Collection::watch`].
    ///
    /// # Cancellation
    ///
    /// Dropping the future leaves at most a cursor on the server, which expires there.
    pub fn watch(&self) -> Watch<'_> {
        Watch::new(ChangeStreamScope::cluster(self))
    }
}

impl Database {
    /// Opens a change stream on all collections of the database except system collections. See
    /// [`Collection::watch`].
    /// See [change streams](https://www.mongodb.com/docs/manual/changeStreams/).
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// use futures_util::TryStreamExt;
    ///
    /// let mut changes = database.watch().show_expanded_events(true).await?;
    /// while let Some(event) = changes.try_next().await? {
    ///     println!("{:?} in {:?}", event.operation_type, event.ns);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Collection::watch`].
    ///
    /// # Cancellation
    ///
    /// Dropping the future leaves at most a cursor on the server, which expires there.
    pub fn watch(&self) -> Watch<'_> {
        Watch::new(ChangeStreamScope::Database(self.clone()))
    }
}

impl<T: Send + Sync> Collection<T> {
    /// Opens a change stream on the collection. See
    /// [change streams](https://www.mongodb.com/docs/manual/changeStreams/).
    ///
    /// The [`ChangeStream`] resumes automatically after a resumable error; an aggregation that
    /// begins with `$changeStream` does not. Requires a replica set or a sharded cluster. Servers
    /// support the read concern `majority` only.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use futures_util::TryStreamExt;
    /// use steadfast::{bson::doc, options::FullDocumentType};
    ///
    /// let mut changes = books
    ///     .watch()
    ///     .pipeline([doc! { "$match": { "operationType": "update" } }])
    ///     .full_document(FullDocumentType::UpdateLookup)
    ///     .await?;
    /// while let Some(event) = changes.try_next().await? {
    ///     println!("{:?} is now {:?}", event.document_key, event.full_document);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error, for
    /// example on a standalone server or if the oplog does not reach back to the resume token. See
    /// also the [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future leaves at most a cursor on the server, which expires there.
    pub fn watch(&self) -> Watch<'_, T> {
        Watch::new(ChangeStreamScope::Collection(Arc::clone(&self.handle)))
    }
}

/// Action that opens a change stream. See [`Collection::watch`], [`Database::watch`] and
/// [`Client::watch`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct Watch<'a, T = Document, S = ImplicitSession> {
    scope: ChangeStreamScope,
    pipeline: Vec<Document>,
    pub(crate) options: Option<ChangeStreamOptions>,
    session: S,
    documents: PhantomData<fn() -> T>,
    /// Binds the lifetime, like that of any action.
    watched: PhantomData<&'a ()>,
}

impl<T> Watch<'_, T> {
    fn new(scope: ChangeStreamScope) -> Self {
        Self {
            scope,
            pipeline: Vec::new(),
            options: None,
            session: ImplicitSession,
            documents: PhantomData,
            watched: PhantomData,
        }
    }
}

impl<T, S> Watch<'_, T, S> {
    /// Sets the aggregation pipeline applied to the events (`pipeline`), such as `$match` and
    /// `$project`. Defaults to none.
    ///
    /// The pipeline must keep the `_id` of the events, their resume token. If it changes their form
    /// otherwise, set the type with [`ChangeStream::with_type`].
    pub fn pipeline(mut self, value: impl IntoIterator<Item = Document>) -> Self {
        self.pipeline = value.into_iter().collect();
        self
    }

    /// Resume token of the event to start after (`resumeAfter`), as returned by
    /// [`ChangeStream::resume_token`].
    ///
    /// After an [`Invalidate`](crate::change_stream::event::OperationType::Invalidate) event, use
    /// [`start_after`](Self::start_after) instead.
    pub fn resume_after(mut self, value: impl Into<Option<ResumeToken>>) -> Self {
        self.options.get_or_insert_default().resume_after = value.into();
        self
    }

    async fn execute(self) -> Result<S::ChangeStream<ChangeStreamEvent<T>>>
    where
        S: OpenCursor,
    {
        let Self { scope, pipeline, options, session, .. } = self;
        let shared = session.explicit(scope.client())?;
        let plan = ChangeStreamPlan { scope, pipeline, options: options.unwrap_or_default() };
        Ok(session.wrap_stream(ChangeStream::begin(plan, shared).await?))
    }
}

awaitable!(['a, T: 'a] Watch<'a, T, ImplicitSession> => ChangeStream<ChangeStreamEvent<T>>, sync crate::blocking::ChangeStream<ChangeStreamEvent<T>>);
awaitable!(
    ['a, T: 'a] Watch<'a, T, ExplicitSession<'a>> => SessionChangeStream<ChangeStreamEvent<T>>, sync crate::blocking::SessionChangeStream<ChangeStreamEvent<T>>
);
setters!(ChangeStreamOptions for ['a, T, S] Watch<'a, T, S>);

impl<'a, T> Watch<'a, T, ImplicitSession> {
    /// Runs the operation in this session. It must belong to the same client. The returned
    /// [`SessionChangeStream`] is read with the same session.
    pub fn session(
        self,
        value: impl Into<&'a mut crate::ClientSession>,
    ) -> Watch<'a, T, ExplicitSession<'a>> {
        let Self { scope, pipeline, options, session: _, documents, watched } = self;
        let session = ExplicitSession::new(value.into());
        Watch { scope, pipeline, options, session, documents, watched }
    }
}
