//! Watching for changes.

use std::{marker::PhantomData, sync::Arc};

use bson::Document;

use super::{ExplicitSession, ImplicitSession, session::Opens};
use crate::{
    Client, Collection, Database,
    change_stream::{
        ChangeStream,
        event::{ChangeStreamEvent, ResumeToken},
        session::SessionChangeStream,
    },
    error::Result,
    operation::change_stream::{Plan, Scope},
    options::ChangeStreamOptions,
};

impl Client {
    /// Watches for changes in all databases but `admin`, `config` and `local`. See
    /// [`Collection::watch`].
    pub fn watch(&self) -> Watch<'_> {
        Watch::new(Scope::cluster(self))
    }
}

impl Database {
    /// Watches for changes in all the database's collections but those of the system. See
    /// [`Collection::watch`].
    pub fn watch(&self) -> Watch<'_> {
        Watch::new(Scope::Database(self.clone()))
    }
}

impl<T: Send + Sync> Collection<T> {
    /// Watches for changes in the collection: documents inserted, updated, replaced and deleted,
    /// the collection dropped and renamed.
    ///
    /// What comes of it is a [`ChangeStream`], which is taken up again by itself when a connection
    /// breaks. Prefer it to an aggregation that begins with `$changeStream`, which is not. Servers
    /// have change streams in replica sets and sharded clusters, and take no read concern for them
    /// but majority.
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
    pub fn watch(&self) -> Watch<'_, T> {
        Watch::new(Scope::Collection(Arc::clone(&self.handle)))
    }
}

/// Watches for changes. See [`Collection::watch`], [`Database::watch`] and [`Client::watch`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct Watch<'a, T = Document, S = ImplicitSession> {
    scope: Scope,
    pipeline: Vec<Document>,
    pub(crate) options: Option<ChangeStreamOptions>,
    session: S,
    documents: PhantomData<fn() -> T>,
    /// It does not outlive what is watched, as no action does.
    watched: PhantomData<&'a ()>,
}

impl<T> Watch<'_, T> {
    fn new(scope: Scope) -> Self {
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
    /// What is done to the events before they are sent: `$match`, `$project` and the like.
    ///
    /// It must leave the events their `_id`, which the stream is taken up again by. If it changes
    /// what they look like otherwise, read them as what they then are:
    /// [`ChangeStream::with_type`].
    pub fn pipeline(mut self, value: impl IntoIterator<Item = Document>) -> Self {
        self.pipeline = value.into_iter().collect();
        self
    }

    /// Begins with what happened after the event of this token; what
    /// [`ChangeStream::resume_token`] returned can be given as it is.
    ///
    /// A stream that an [`Invalidate`](crate::change_stream::event::OperationType::Invalidate)
    /// ended is taken up with [`start_after`](Self::start_after) instead.
    pub fn resume_after(mut self, value: impl Into<Option<ResumeToken>>) -> Self {
        self.options.get_or_insert_default().resume_after = value.into();
        self
    }

    async fn execute(self) -> Result<S::ChangeStream<ChangeStreamEvent<T>>>
    where
        S: Opens,
    {
        let Self { scope, pipeline, options, session, .. } = self;
        let shared = session.share(scope.client())?;
        let plan = Plan { scope, pipeline, options: options.unwrap_or_default() };
        Ok(session.keep_stream(ChangeStream::begin(plan, shared).await?))
    }
}

awaitable!(['a, T: 'a] Watch<'a, T, ImplicitSession> => ChangeStream<ChangeStreamEvent<T>>);
awaitable!(
    ['a, T: 'a] Watch<'a, T, ExplicitSession<'a>> => SessionChangeStream<ChangeStreamEvent<T>>
);
setters!(ChangeStreamOptions for ['a, T, S] Watch<'a, T, S>);

impl<'a, T> Watch<'a, T, ImplicitSession> {
    /// Runs in this session, which must be of the same client. What comes of it is a
    /// [`SessionChangeStream`], to be read in the same session.
    pub fn session(
        self,
        value: impl Into<&'a mut crate::ClientSession>,
    ) -> Watch<'a, T, ExplicitSession<'a>> {
        let Self { scope, pipeline, options, session: _, documents, watched } = self;
        let session = ExplicitSession::new(value.into());
        Watch { scope, pipeline, options, session, documents, watched }
    }
}
