//! Sessions: what ties operations together, and what lets a server recognise a write.
//!
//! Every acknowledged command runs in a session. Without one of the application's own
//! ([`ClientSession`]) it gets an implicit one for as long as it takes: for a cursor, until that is
//! exhausted. Servers know a session by an id that comes from a pool and goes back to it.

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

/// The error for a write in a session of the application's that nobody will hear of.
pub(crate) fn unacknowledged() -> Error {
    Error::invalid_argument("unacknowledged writes (w: 0) are not supported in an explicit session")
}

/// The sessions of a client that are not in use, and what they have in common.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    at_rest: Mutex<AtRest>,
    /// The latest cluster time of the deployment.
    cluster_time: Mutex<Option<Arc<ClusterTime>>>,
}

#[derive(Debug, Default)]
struct AtRest {
    pool: SessionPool,
    /// `logicalSessionTimeoutMinutes` of the deployment.
    lifetime: Option<Duration>,
}

impl Sessions {
    /// Begins a session, implicit or the application's own. `lifetime` is what the deployment says
    /// now; none if that is not known just now, and what was known before then goes on to hold.
    pub(crate) fn begin(
        self: &Arc<Self>,
        lifetime: Option<Duration>,
        kind: Kind,
        now: Instant,
    ) -> Session {
        let server = {
            let mut at_rest = lock(&self.at_rest);
            at_rest.lifetime = lifetime.or(at_rest.lifetime);
            let lifetime = at_rest.lifetime;
            at_rest.pool.acquire(lifetime, now, Uuid::new)
        };
        Session {
            kind,
            sessions: Arc::clone(self),
            state: Mutex::new(State {
                server: Some(server),
                under_way: 0,
                cluster_time: None,
                operation_time: None,
                snapshot_time: None,
                transaction: Transaction::default(),
                transaction_deadline: None,
                pin: None,
                pending_abort: None,
            }),
            turn: OnceLock::new(),
        }
    }

    /// The ids of all sessions at rest, which are then nobody's: to be ended.
    pub(crate) fn drain(&self) -> Vec<Arc<RawDocumentBuf>> {
        lock(&self.at_rest).pool.drain()
    }

    /// The latest cluster time that any server of the deployment told.
    pub(crate) fn cluster_time(&self) -> Option<Arc<ClusterTime>> {
        lock(&self.cluster_time).clone()
    }

    /// A server told its cluster time. Most tell what is known already, of which no copy is made.
    pub(crate) fn advance_cluster_time(&self, time: Timestamp, signed: &RawDocument) {
        let mut latest = lock(&self.cluster_time);
        if latest.as_deref().is_none_or(|latest| latest.is_before(time)) {
            *latest = Some(Arc::new(ClusterTime::new(time, signed)));
        }
    }
}

/// Purpose of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One operation.
    Implicit,
    /// The application's operations, which see each other's effects if that is asked for.
    Explicit {
        /// `true` for causal consistency.
        causal: bool,
    },
    /// The application's reads, which all see one moment.
    Snapshot,
}

/// A session in use. Dropping it gives the server's part back, unless a command's fate is unknown.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) kind: Kind,
    sessions: Arc<Sessions>,
    state: Mutex<State>,
    /// Held by the operation of its transaction that is under way. Made when it has a first.
    turn: OnceLock<Arc<tokio::sync::Mutex<()>>>,
}

#[derive(Debug)]
struct State {
    /// Always there until the session is dropped.
    server: Option<ServerSession>,
    /// Number of sent commands without a reply. At the end of the session, they are those of
    /// dropped futures. It can exceed one before, because `killCursors` runs in the background.
    under_way: u32,
    cluster_time: Option<ClusterTime>,
    operation_time: Option<Timestamp>,
    snapshot_time: Option<Timestamp>,
    transaction: Transaction,
    /// Deadline of the transaction and of all its operations.
    transaction_deadline: Option<Deadline>,
    /// Pin of the transaction.
    pin: Option<PinnedServer>,
    /// Ends when the background abort of the transaction has ended.
    pending_abort: Option<watch::Receiver<()>>,
}

impl Session {
    /// The `lsid` of its commands.
    pub(crate) fn id(&self) -> Arc<RawDocumentBuf> {
        let state = lock(&self.state);
        state.server.as_ref().map(|server| Arc::clone(server.id())).unwrap_or_default()
    }

    /// The latest cluster time that its own operations have seen.
    pub(crate) fn own_cluster_time(&self) -> Option<ClusterTime> {
        lock(&self.state).cluster_time.clone()
    }

    /// The `operationTime` of its latest operation.
    pub(crate) fn operation_time(&self) -> Option<Timestamp> {
        lock(&self.state).operation_time
    }

    /// Makes its reads see at least the data of this time.
    pub(crate) fn advance_operation_time(&self, to: Timestamp) {
        let mut state = lock(&self.state);
        state.operation_time = Some(later_timestamp(state.operation_time, to));
    }

    /// The `atClusterTime` of a snapshot session, once it is known.
    pub(crate) fn snapshot_time(&self) -> Option<Timestamp> {
        lock(&self.state).snapshot_time
    }

    /// Returns `true` if a connection broke while one of its commands was in flight.
    pub(crate) fn is_dirty(&self) -> bool {
        lock(&self.state).server.as_ref().is_some_and(ServerSession::is_dirty)
    }

    /// The number of the next write in it.
    pub(crate) fn next_txn_number(&self) -> Result<i64> {
        let mut state = lock(&self.state);
        state.server.as_mut().and_then(ServerSession::next_txn_number).ok_or_else(|| {
            Error::invalid_argument(
                "the session has no transaction numbers left; start a new session",
            )
        })
    }

    /// A command is about to be sent.
    pub(crate) fn sending(&self, now: Instant) {
        let mut state = lock(&self.state);
        state.under_way += 1;
        if let Some(server) = &mut state.server {
            server.mark_used(now);
        }
    }

    /// The command was answered.
    pub(crate) fn answered(&self) {
        lock(&self.state).under_way -= 1;
    }

    /// The connection broke before the command was answered (pitfall 17).
    pub(crate) fn mark_dirty(&self) {
        let mut state = lock(&self.state);
        state.under_way -= 1;
        if let Some(server) = &mut state.server {
            server.mark_dirty();
        }
    }

    /// The later of its own cluster time and the deployment's.
    pub(crate) fn cluster_time(&self) -> Option<Arc<ClusterTime>> {
        let deployments = self.sessions.cluster_time();
        let state = lock(&self.state);
        match &state.cluster_time {
            Some(own) if own.is_after(deployments.as_deref()) => Some(Arc::new(own.clone())),
            _ => deployments,
        }
    }

    /// A server told its cluster time.
    pub(crate) fn advance_cluster_time(&self, time: &ClusterTime) {
        let mut state = lock(&self.state);
        if time.is_after(state.cluster_time.as_ref()) {
            state.cluster_time = Some(time.clone());
        }
    }

    /// An operation of the session took place at this time.
    pub(crate) fn see_operation_time(&self, time: Timestamp) {
        if self.kind != Kind::Implicit {
            let mut state = lock(&self.state);
            state.operation_time = Some(later_timestamp(state.operation_time, time));
        }
    }

    /// The moment that a snapshot session reads at; the first to be told stays.
    pub(crate) fn see_snapshot_time(&self, time: Timestamp) {
        if self.kind == Kind::Snapshot {
            lock(&self.state).snapshot_time.get_or_insert(time);
        }
    }

    /// Returns the read concern fields that the session adds to a read.
    pub(crate) fn read_point(&self) -> Option<ReadPoint> {
        let state = lock(&self.state);
        match self.kind {
            Kind::Implicit | Kind::Explicit { causal: false } => None,
            Kind::Explicit { causal: true } => state.operation_time.map(ReadPoint::After),
            Kind::Snapshot => Some(ReadPoint::At(state.snapshot_time)),
        }
    }
}

/// Point in time of a session's reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ReadPoint {
    /// Not before this time.
    After(Timestamp),
    /// At this moment; at one that the server chooses if none was chosen yet.
    At(Option<Timestamp>),
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        let Some(mut server) = state.server.take() else { return };
        if state.under_way > 0 {
            server.mark_dirty();
        }
        let now = now();
        let mut at_rest = lock(&self.sessions.at_rest);
        let lifetime = at_rest.lifetime;
        at_rest.pool.release(server, lifetime, now);
    }
}
