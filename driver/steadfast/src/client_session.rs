//! The session of an application.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use bson::{Document, Timestamp};
use steadfast_core::{
    cluster_time::ClusterTime,
    transaction::{TransactionSettings, TransactionState},
};

use crate::{
    Client,
    command::Command,
    error::{Error, Result},
    options::{SessionOptions, TransactionOptions},
    session::{ABORT_WAIT, Session},
};

/// A session of the application's own.
///
/// Operations that are given the same session see each other's effects, also when they read from
/// secondaries ([causal consistency](SessionOptions::causal_consistency)), or all see one moment
/// ([snapshot](SessionOptions::snapshot)). Made by [`Client::start_session`], given to an action by
/// its `session` method. In a session, operations on many documents can be made to happen together or
/// not at all: see [`start_transaction`](ClientSession::start_transaction).
///
/// Dropping a session ends it, and has a transaction that is in progress aborted in the background.
///
/// ```no_run
/// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
/// use steadfast::bson::{Document, doc};
///
/// let books = client.database("library").collection::<Document>("books");
/// let mut session = client.start_session().await?;
/// books.insert_one(doc! { "_id": 1 }).session(&mut session).await?;
/// assert!(books.find_one(doc! { "_id": 1 }).session(&mut session).await?.is_some());
/// # Ok(()) }
/// ```
pub struct ClientSession {
    session: Arc<Session>,
    client: Client,
    id: Document,
    options: SessionOptions,
}

impl ClientSession {
    pub(crate) fn new(
        client: Client,
        session: Arc<Session>,
        id: Document,
        options: SessionOptions,
    ) -> Self {
        Self { session, client, id, options }
    }

    /// The client it belongs to.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// What the servers know it by.
    pub fn id(&self) -> &Document {
        &self.id
    }

    /// What it was started with.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// The latest cluster time that its operations have seen.
    pub fn cluster_time(&self) -> Option<ClusterTime> {
        self.session.own_cluster_time()
    }

    /// The time of its latest operation.
    pub fn operation_time(&self) -> Option<Timestamp> {
        self.session.operation_time()
    }

    /// Makes the session know a cluster time that another session has seen.
    pub fn advance_cluster_time(&mut self, to: &ClusterTime) {
        self.session.see_cluster_time(to);
    }

    /// Makes the session's reads see at least what was there at this time.
    pub fn advance_operation_time(&mut self, to: Timestamp) {
        self.session.advance_operation_time(to);
    }

    /// The moment that a snapshot session reads at, once its first read has chosen it.
    pub fn snapshot_time(&self) -> Option<Timestamp> {
        self.session.snapshot_time()
    }

    /// Whether the connection broke while one of its commands was under way. The session can be used
    /// further, but when it ends the servers' part of it is given up instead of being used again.
    pub fn is_dirty(&self) -> bool {
        self.session.is_dirty()
    }

    /// Where its transaction is.
    pub fn transaction_state(&self) -> TransactionState {
        self.session.transaction(|transaction| transaction.state())
    }

    /// Whether its transaction is bound to one router of a sharded cluster, or behind a load balancer
    /// to one connection.
    pub fn is_pinned(&self) -> bool {
        self.session.pin().is_some()
    }

    /// Starts a transaction with these options, and what else is to be inherited.
    pub(crate) fn begin_transaction(&self, options: Option<&TransactionOptions>) -> Result<()> {
        let settings = |options: Option<&TransactionOptions>| {
            options.map(TransactionOptions::settings).unwrap_or_default()
        };
        let mut of_client = TransactionSettings::default();
        of_client.read_concern = self.client.read_concern().cloned();
        of_client.write_concern = self.client.write_concern().cloned();
        of_client.criteria = self.client.selection_criteria().cloned();
        let of_session = settings(self.options.default_transaction_options.as_ref());
        self.session.start_transaction(settings(options).or(of_session).or(of_client))
    }

    /// How long what ends its transactions may take, unless it says so itself.
    pub(crate) fn default_timeout(&self) -> Option<Duration> {
        self.options.default_timeout.or(self.client.timeout())
    }

    /// The session itself, for what concerns its transaction.
    pub(crate) fn shared(&self) -> &Arc<Session> {
        &self.session
    }

    /// For a command to run in it.
    pub(crate) fn share(&self, client: &Client) -> Result<Arc<Session>> {
        if !client.is_same_as(&self.client) {
            return Err(Error::invalid_argument(
                "the session was started by another client than the one that uses it",
            ));
        }
        Ok(Arc::clone(&self.session))
    }

    /// For a cursor to know it again.
    pub(crate) fn downgrade(&self) -> Weak<Session> {
        Arc::downgrade(&self.session)
    }
}

/// Ends the session. A transaction in progress is aborted in the background, so that its locks do not
/// block others until the server's `transactionLifetimeLimitSeconds`.
impl Drop for ClientSession {
    fn drop(&mut self) {
        // A short `timeoutMS` is for calls that an application waits for.
        let timeout = self.default_timeout().map(|timeout| timeout.max(ABORT_WAIT));
        self.client.executor().abort_in_background(&self.session, timeout);
        drop(self.session.unpin());
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Command {
    /// The same command in the application's session, if it has one for it.
    pub(crate) fn in_session(
        self,
        session: Option<&mut ClientSession>,
        client: &Client,
    ) -> Result<Self> {
        let session = session.map(|session| session.share(client)).transpose()?;
        self.in_shared(session)
    }
}
