//! Explicit sessions of the blocking API.

use std::fmt;

use bson::{Document, Timestamp};
use steadfast_core::{cluster_time::ClusterTime, transaction::TransactionState};

use super::Client;
use crate::options::SessionOptions;

/// Explicit session of the blocking API. See the async [`ClientSession`](crate::ClientSession).
///
/// The method `session` of an action accepts a reference to it.
///
/// ```no_run
/// # fn run(client: steadfast::sync::Client) -> steadfast::error::Result<()> {
/// use steadfast::bson::{Document, doc};
///
/// let books = client.database("library").collection::<Document>("books");
/// let mut session = client.start_session().run()?;
/// session.start_transaction().run()?;
/// books.insert_one(doc! { "_id": 1 }).session(&mut session).run()?;
/// session.commit_transaction().run()?;
/// # Ok(()) }
/// ```
pub struct ClientSession {
    inner: crate::ClientSession,
}

impl ClientSession {
    pub(crate) fn new(inner: crate::ClientSession) -> Self {
        Self { inner }
    }

    /// Returns the client. See [`ClientSession::client`](crate::ClientSession::client).
    pub fn client(&self) -> Client {
        self.inner.client().into()
    }

    /// Returns the logical session id (`lsid`). See [`ClientSession::id`](crate::ClientSession::id).
    pub fn id(&self) -> &Document {
        self.inner.id()
    }

    /// Returns the options of the session. See [`ClientSession::options`](crate::ClientSession::options).
    pub fn options(&self) -> &SessionOptions {
        self.inner.options()
    }

    /// Returns the highest cluster time (`$clusterTime`) received in the session. See
    /// [`ClientSession::cluster_time`](crate::ClientSession::cluster_time).
    pub fn cluster_time(&self) -> Option<&ClusterTime> {
        self.inner.cluster_time()
    }

    /// Returns the `operationTime` of the latest operation in the session. See
    /// [`ClientSession::operation_time`](crate::ClientSession::operation_time).
    pub fn operation_time(&self) -> Option<Timestamp> {
        self.inner.operation_time()
    }

    /// Advances the cluster time (`$clusterTime`). See
    /// [`ClientSession::advance_cluster_time`](crate::ClientSession::advance_cluster_time).
    pub fn advance_cluster_time(&mut self, to: &ClusterTime) {
        self.inner.advance_cluster_time(to);
    }

    /// Advances the operation time. See
    /// [`ClientSession::advance_operation_time`](crate::ClientSession::advance_operation_time).
    pub fn advance_operation_time(&mut self, to: Timestamp) {
        self.inner.advance_operation_time(to);
    }

    /// Returns the timestamp of a snapshot session. See
    /// [`ClientSession::snapshot_time`](crate::ClientSession::snapshot_time).
    pub fn snapshot_time(&self) -> Option<Timestamp> {
        self.inner.snapshot_time()
    }

    /// Returns `true` if a network error occurred during a command of the session. See
    /// [`ClientSession::is_dirty`](crate::ClientSession::is_dirty).
    pub fn is_dirty(&self) -> bool {
        self.inner.is_dirty()
    }

    /// Returns the state of the transaction. See
    /// [`ClientSession::transaction_state`](crate::ClientSession::transaction_state).
    pub fn transaction_state(&self) -> TransactionState {
        self.inner.transaction_state()
    }

    /// Returns `true` if the transaction is pinned to a mongos or a connection. See
    /// [`ClientSession::is_pinned`](crate::ClientSession::is_pinned).
    pub fn is_pinned(&self) -> bool {
        self.inner.is_pinned()
    }

    /// Returns the async session that this one wraps.
    pub(crate) fn as_async_mut(&mut self) -> &mut crate::ClientSession {
        &mut self.inner
    }
}

impl From<crate::ClientSession> for ClientSession {
    fn from(inner: crate::ClientSession) -> Self {
        Self::new(inner)
    }
}

/// Lets the method `session` of actions accept sessions of both APIs.
impl<'a> From<&'a mut ClientSession> for &'a mut crate::ClientSession {
    fn from(session: &'a mut ClientSession) -> Self {
        session.as_async_mut()
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
