//! Explicit sessions.

use std::{
    fmt,
    sync::{Arc, OnceLock, Weak},
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

/// Explicit session, for causal consistency, snapshot reads and transactions.
/// See [server sessions](https://www.mongodb.com/docs/manual/reference/server-sessions/).
///
/// [`Client::start_session`] creates one; the method `session` of an action uses it. With
/// [causal consistency](SessionOptions::causal_consistency), the default, operations of a session
/// observe each other's effects, also on secondaries. With [snapshot](SessionOptions::snapshot),
/// all reads observe one point in time. [`start_transaction`](ClientSession::start_transaction)
/// makes several operations atomic.
///
/// Dropping a session ends it and aborts a transaction in progress in the background.
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
    /// Cluster time returned to the application, until the session is used again.
    cluster_time: OnceLock<ClusterTime>,
}

impl ClientSession {
    pub(crate) fn new(
        client: Client,
        session: Arc<Session>,
        id: Document,
        options: SessionOptions,
    ) -> Self {
        Self { session, client, id, options, cluster_time: OnceLock::new() }
    }

    /// Returns the client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the logical session id (`lsid`).
    pub fn id(&self) -> &Document {
        &self.id
    }

    /// Returns the options of the session.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// Returns the highest cluster time (`$clusterTime`) received in the session, as of the first
    /// call after the latest operation.
    pub fn cluster_time(&self) -> Option<&ClusterTime> {
        if self.cluster_time.get().is_none() {
            // Another thread may be faster; its value is as good.
            let _ = self.cluster_time.set(self.session.own_cluster_time()?);
        }
        self.cluster_time.get()
    }

    /// Prepares the session for an operation, which can advance the cluster time.
    pub(crate) fn begin_use(&mut self) {
        self.cluster_time.take();
    }

    /// Returns the `operationTime` of the latest operation in the session.
    pub fn operation_time(&self) -> Option<Timestamp> {
        self.session.operation_time()
    }

    /// Advances the cluster time (`$clusterTime`) to that of another session, if it is higher.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// let first = client.start_session().await?;
    /// let mut second = client.start_session().await?;
    /// if let Some(time) = first.cluster_time() {
    ///     second.advance_cluster_time(time);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn advance_cluster_time(&mut self, to: &ClusterTime) {
        self.begin_use();
        self.session.advance_cluster_time(to);
    }

    /// Advances the operation time to that of another session, if it is higher. Later reads observe
    /// at least the data of that time.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// let first = client.start_session().await?;
    /// let mut second = client.start_session().await?;
    /// if let Some(time) = first.operation_time() {
    ///     second.advance_operation_time(time);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn advance_operation_time(&mut self, to: Timestamp) {
        self.session.advance_operation_time(to);
    }

    /// Returns the timestamp of a snapshot session (`atClusterTime`), once its first read has
    /// determined it.
    pub fn snapshot_time(&self) -> Option<Timestamp> {
        self.session.snapshot_time()
    }

    /// Returns `true` if a network error occurred during a command of the session. The session can
    /// be used further, but its server session does not return to the pool.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// let session = client.start_session().await?;
    /// assert!(!session.is_dirty());
    /// # Ok(()) }
    /// ```
    pub fn is_dirty(&self) -> bool {
        self.session.is_dirty()
    }

    /// Returns the state of the transaction.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// let mut session = client.start_session().await?;
    /// session.start_transaction().await?;
    /// println!("{:?}", session.transaction_state());
    /// session.abort_transaction().await?;
    /// # Ok(()) }
    /// ```
    pub fn transaction_state(&self) -> TransactionState {
        self.session.transaction(|transaction| transaction.state())
    }

    /// Returns `true` if the transaction is pinned to a mongos, or to a connection behind a load
    /// balancer.
    pub fn is_pinned(&self) -> bool {
        self.session.pin().is_some()
    }

    /// Starts a transaction. Options that are not set are inherited from the session, then from the
    /// client.
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

    /// Returns the default time-out of commit, abort and convenient transactions.
    pub(crate) fn default_timeout(&self) -> Option<Duration> {
        self.options.default_timeout.or(self.client.timeout())
    }

    /// Returns the shared state of the session.
    pub(crate) fn shared(&self) -> &Arc<Session> {
        &self.session
    }

    /// Returns the shared state for a command of this client.
    pub(crate) fn share(&self, client: &Client) -> Result<Arc<Session>> {
        if !client.is_same_as(&self.client) {
            return Err(Error::invalid_argument(
                "the session belongs to another client; start one with the client of this operation",
            ));
        }
        Ok(Arc::clone(&self.session))
    }

    /// Returns a weak reference, by which a cursor identifies its session.
    pub(crate) fn downgrade(&self) -> Weak<Session> {
        Arc::downgrade(&self.session)
    }
}

/// Ends the session. A transaction in progress is aborted in the background, so that its locks do
/// not last until the server's `transactionLifetimeLimitSeconds`.
impl Drop for ClientSession {
    fn drop(&mut self) {
        // A short `timeoutMS` limits the wait of the application, not a background task.
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
    /// Sets the explicit session of the command, if there is one.
    pub(crate) fn in_session(
        self,
        session: Option<&mut ClientSession>,
        client: &Client,
    ) -> Result<Self> {
        let session = session.map(|session| {
            session.begin_use();
            session.share(client)
        });
        let session = session.transpose()?;
        self.in_shared(session)
    }
}
