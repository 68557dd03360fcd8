//! Sessions, explicit and implicit.
//!
//! Every acknowledged command has a session (`lsid`), if the server supports them. Without an
//! explicit one ([`ClientSession`]) it gets an implicit session for the duration of the command, or
//! of its cursor. Server sessions are pooled.

mod transaction;

use std::{
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

use bson::{RawDocument, RawDocumentBuf, Timestamp, Uuid};
use steadfast_core::{
    cluster_time::{ClusterTime, later_timestamp},
    session::{ServerSession, SessionPool},
    transaction::Transaction,
};
use tokio::sync::watch;

pub(crate) use self::transaction::{
    ABORT_WAIT, AbandonedTransaction, TransactionScope, explicit_write_concern, without_server,
};
use crate::{
    deadline::{Deadline, now},
    error::{Error, Result},
    event::lock,
    pin::PinnedServer,
};

/// Returns the error for an unacknowledged write in an explicit session.
pub(crate) fn unacknowledged() -> Error {
    Error::invalid_argument("unacknowledged writes (w: 0) are not supported in an explicit session")
}

/// Pool of server sessions of a client, and the cluster time.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    pooled: Mutex<PooledSessions>,
    /// Highest cluster time (`$clusterTime`) of the deployment.
    cluster_time: Mutex<Option<Arc<ClusterTime>>>,
}

#[derive(Debug, Default)]
struct PooledSessions {
    pool: SessionPool,
    /// `logicalSessionTimeoutMinutes` of the deployment.
    lifetime: Option<Duration>,
}

impl Sessions {
    /// Begins an implicit or explicit session. `lifetime` is `logicalSessionTimeoutMinutes`; if
    /// `None`, the last known value applies.
    pub(crate) fn begin(
        self: &Arc<Self>,
        lifetime: Option<Duration>,
        kind: SessionKind,
        now: Instant,
    ) -> Session {
        let server = {
            let mut pooled = lock(&self.pooled);
            pooled.lifetime = lifetime.or(pooled.lifetime);
            let lifetime = pooled.lifetime;
            pooled.pool.acquire(lifetime, now, Uuid::new)
        };
        Session {
            kind,
            sessions: Arc::clone(self),
            state: Mutex::new(SessionState {
                server: Some(server),
                commands_in_progress: 0,
                cluster_time: None,
                operation_time: None,
                snapshot_time: None,
                transaction: Transaction::default(),
                transaction_deadline: None,
                pin: None,
                pending_abort: None,
            }),
            operation_lock: OnceLock::new(),
        }
    }

    /// Removes all pooled sessions and returns their ids, for `endSessions`.
    pub(crate) fn drain(&self) -> Vec<Arc<RawDocumentBuf>> {
        lock(&self.pooled).pool.drain()
    }

    /// Returns the highest cluster time of the deployment.
    pub(crate) fn cluster_time(&self) -> Option<Arc<ClusterTime>> {
        lock(&self.cluster_time).clone()
    }

    /// Advances the cluster time. The document is copied only if the time is higher.
    pub(crate) fn advance_cluster_time(&self, time: Timestamp, signed: &RawDocument) {
        let mut latest = lock(&self.cluster_time);
        if latest.as_deref().is_none_or(|latest| latest.is_before(time)) {
            *latest = Some(Arc::new(ClusterTime::new(time, signed)));
        }
    }
}

/// Purpose of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionKind {
    /// Session of one operation and its cursor.
    Implicit,
    /// Explicit session, with or without causal consistency.
    Explicit {
        /// `true` for causal consistency.
        causal: bool,
    },
    /// Explicit session with snapshot reads.
    Snapshot,
}

/// Session in use. Dropping it returns the server session to the pool, unless it is dirty.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) kind: SessionKind,
    sessions: Arc<Sessions>,
    state: Mutex<SessionState>,
    /// Locked by the transaction's operation in progress. Created with the first.
    operation_lock: OnceLock<Arc<tokio::sync::Mutex<()>>>,
}

#[derive(Debug)]
struct SessionState {
    /// `Some` until the session is dropped.
    server: Option<ServerSession>,
    /// Number of commands without a reply yet. Those left at the end of the session are of dropped
    /// futures. It can exceed one, because `killCursors` runs in the background.
    commands_in_progress: u32,
    cluster_time: Option<ClusterTime>,
    operation_time: Option<Timestamp>,
    snapshot_time: Option<Timestamp>,
    transaction: Transaction,
    /// Deadline of the transaction and of all its operations.
    transaction_deadline: Option<Deadline>,
    /// Pin of the transaction.
    pin: Option<PinnedServer>,
    /// Closed when the background abort of the transaction has ended.
    pending_abort: Option<watch::Receiver<()>>,
}

impl Session {
    /// Returns the `lsid` of the commands.
    pub(crate) fn id(&self) -> Arc<RawDocumentBuf> {
        let state = lock(&self.state);
        state.server.as_ref().map(|server| Arc::clone(server.id())).unwrap_or_default()
    }

    /// Returns the highest cluster time in replies to this session.
    pub(crate) fn own_cluster_time(&self) -> Option<ClusterTime> {
        lock(&self.state).cluster_time.clone()
    }

    /// Returns the `operationTime` of the latest operation.
    pub(crate) fn operation_time(&self) -> Option<Timestamp> {
        lock(&self.state).operation_time
    }

    /// Advances the operation time, to which causally consistent reads refer.
    pub(crate) fn advance_operation_time(&self, to: Timestamp) {
        let mut state = lock(&self.state);
        state.operation_time = Some(later_timestamp(state.operation_time, to));
    }

    /// Returns the `atClusterTime` of a snapshot session, once it is known.
    pub(crate) fn snapshot_time(&self) -> Option<Timestamp> {
        lock(&self.state).snapshot_time
    }

    /// Returns `true` after a network error during a command of the session.
    pub(crate) fn is_dirty(&self) -> bool {
        lock(&self.state).server.as_ref().is_some_and(ServerSession::is_dirty)
    }

    /// Returns the next transaction number (`txnNumber`).
    pub(crate) fn next_txn_number(&self) -> Result<i64> {
        let mut state = lock(&self.state);
        state.server.as_mut().and_then(ServerSession::next_txn_number).ok_or_else(|| {
            Error::invalid_argument(
                "the session has no transaction numbers left; start a new session",
            )
        })
    }

    /// Records that a command is about to be sent.
    pub(crate) fn begin_command(&self, now: Instant) {
        let mut state = lock(&self.state);
        state.commands_in_progress += 1;
        if let Some(server) = &mut state.server {
            server.mark_used(now);
        }
    }

    /// Records the reply to a command.
    pub(crate) fn reply_received(&self) {
        lock(&self.state).commands_in_progress -= 1;
    }

    /// Records a network error before the reply, which makes the session dirty (pitfall 17).
    pub(crate) fn mark_dirty(&self) {
        let mut state = lock(&self.state);
        state.commands_in_progress -= 1;
        if let Some(server) = &mut state.server {
            server.mark_dirty();
        }
    }

    /// Returns the higher of the session's cluster time and the deployment's.
    pub(crate) fn cluster_time(&self) -> Option<Arc<ClusterTime>> {
        let deployments = self.sessions.cluster_time();
        let state = lock(&self.state);
        match &state.cluster_time {
            Some(own) if own.is_after(deployments.as_deref()) => Some(Arc::new(own.clone())),
            _ => deployments,
        }
    }

    /// Advances the cluster time of the session.
    pub(crate) fn advance_cluster_time(&self, time: &ClusterTime) {
        let mut state = lock(&self.state);
        if time.is_after(state.cluster_time.as_ref()) {
            state.cluster_time = Some(time.clone());
        }
    }

    /// Advances the operation time to that of a reply. Implicit sessions have none.
    pub(crate) fn record_operation_time(&self, time: Timestamp) {
        if self.kind != SessionKind::Implicit {
            let mut state = lock(&self.state);
            state.operation_time = Some(later_timestamp(state.operation_time, time));
        }
    }

    /// Sets the time of a snapshot session, unless it is set.
    pub(crate) fn set_snapshot_time(&self, time: Timestamp) {
        if self.kind == SessionKind::Snapshot {
            lock(&self.state).snapshot_time.get_or_insert(time);
        }
    }

    /// Returns the read concern fields that the session adds to a read.
    pub(crate) fn read_point(&self) -> Option<ReadPoint> {
        let state = lock(&self.state);
        match self.kind {
            SessionKind::Implicit | SessionKind::Explicit { causal: false } => None,
            SessionKind::Explicit { causal: true } => state.operation_time.map(ReadPoint::After),
            SessionKind::Snapshot => Some(ReadPoint::At(state.snapshot_time)),
        }
    }
}

/// Point in time of a session's reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ReadPoint {
    /// At or after this time (`afterClusterTime`).
    After(Timestamp),
    /// At this time (`atClusterTime`). `None` before the first read, for which the server chooses.
    At(Option<Timestamp>),
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        let Some(mut server) = state.server.take() else { return };
        if state.commands_in_progress > 0 {
            server.mark_dirty();
        }
        let now = now();
        let mut pooled = lock(&self.sessions.pooled);
        let lifetime = pooled.lifetime;
        pooled.pool.release(server, lifetime, now);
    }
}
