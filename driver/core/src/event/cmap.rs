//! Events of connection pools: what became of a pool, its connections and the requests for them.

use std::{fmt, time::Duration};

use bson::oid::ObjectId;
use serde::Serialize;

use crate::address::ServerAddress;

/// Any event of a connection pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub enum CmapEvent {
    /// A pool was created.
    PoolCreated(PoolCreatedEvent),
    /// A pool began to hand out connections.
    PoolReady(PoolReadyEvent),
    /// All connections of a pool were declared unfit.
    PoolCleared(PoolClearedEvent),
    /// A pool was closed for good.
    PoolClosed(PoolClosedEvent),
    /// A connection is about to be established.
    ConnectionCreated(ConnectionCreatedEvent),
    /// A connection was established.
    ConnectionReady(ConnectionReadyEvent),
    /// A connection was closed.
    ConnectionClosed(ConnectionClosedEvent),
    /// An operation asked for a connection.
    ConnectionCheckoutStarted(ConnectionCheckoutStartedEvent),
    /// An operation that asked for a connection got none.
    ConnectionCheckoutFailed(ConnectionCheckoutFailedEvent),
    /// An operation got a connection.
    ConnectionCheckedOut(ConnectionCheckedOutEvent),
    /// An operation gave its connection back.
    ConnectionCheckedIn(ConnectionCheckedInEvent),
}

/// The options a pool works by, as far as the application set them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectionPoolOptions {
    /// How long a connection may lie unused before it is closed; unset or zero means forever.
    #[serde(rename = "maxIdleTimeMS", serialize_with = "as_millis")]
    pub max_idle_time: Option<Duration>,
    /// The most connections the pool holds, those in use included. 100 unless set; zero means no
    /// limit.
    pub max_pool_size: Option<u32>,
    /// As many connections are kept even when nobody asks for them. None unless set.
    pub min_pool_size: Option<u32>,
    /// The most connections being established at one time. 2 unless set.
    pub max_connecting: Option<u32>,
    /// How long an operation waits for a connection; unset or zero means as long as its own
    /// deadline allows. The pool itself only reports it.
    #[serde(rename = "waitQueueTimeoutMS", serialize_with = "as_millis")]
    pub wait_queue_timeout: Option<Duration>,
}

fn as_millis<S: serde::Serializer>(time: &Option<Duration>, out: S) -> Result<S::Ok, S::Error> {
    time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)).serialize(out)
}

/// A pool was created.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PoolCreatedEvent {
    /// The server the pool's connections lead to.
    pub address: ServerAddress,
    /// What the pool was configured with.
    pub options: Option<ConnectionPoolOptions>,
}

/// A pool began to hand out connections.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PoolReadyEvent {
    /// The server the pool's connections lead to.
    pub address: ServerAddress,
}

/// All connections of a pool, or of one service behind a load balancer, were declared unfit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PoolClearedEvent {
    /// The server the pool's connections lead to.
    pub address: ServerAddress,
    /// Behind a load balancer, the service whose connections were cleared.
    pub service_id: Option<ObjectId>,
    /// Whether operations in progress were interrupted, too.
    pub interrupt_in_use_connections: bool,
}

/// A pool was closed for good.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PoolClosedEvent {
    /// The server the pool's connections led to.
    pub address: ServerAddress,
}

/// A connection is about to be established.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectionCreatedEvent {
    /// The server the connection will lead to.
    pub address: ServerAddress,
    /// The connection's number in its pool, counted from 1.
    pub connection_id: u32,
}

/// A connection was established: handshake and authentication are done.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectionReadyEvent {
    /// The server the connection leads to.
    pub address: ServerAddress,
    /// The connection's number in its pool, counted from 1.
    pub connection_id: u32,
    /// How long it took to establish.
    pub duration: Duration,
}

/// A connection was closed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectionClosedEvent {
    /// The server the connection led to.
    pub address: ServerAddress,
    /// The connection's number in its pool, counted from 1.
    pub connection_id: u32,
    /// Why it was closed.
    pub reason: ConnectionClosedReason,
    /// Behind a load balancer, the service the connection led to.
    pub service_id: Option<ObjectId>,
    /// What went wrong, when that is why it was closed.
    pub error: Option<String>,
}

/// Why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ConnectionClosedReason {
    /// The pool was cleared after the connection had been created.
    Stale,
    /// It lay unused for longer than the pool's `max_idle_time`.
    Idle,
    /// It failed while it was established or used.
    Error,
    /// The operation that used it was dropped halfway through a message.
    Dropped,
    /// Its pool was closed.
    PoolClosed,
}

impl ConnectionClosedReason {
    /// The reason's name in MongoDB's specifications.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Idle => "idle",
            Self::Error => "error",
            Self::Dropped => "dropped",
            Self::PoolClosed => "poolClosed",
        }
    }
}

impl fmt::Display for ConnectionClosedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An operation asked for a connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ConnectionCheckoutStartedEvent {
    /// The server the connection will lead to.
    pub address: ServerAddress,
}

/// An operation that asked for a connection got none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ConnectionCheckoutFailedEvent {
    /// The server the connection would have led to.
    pub address: ServerAddress,
    /// Why there was none.
    pub reason: ConnectionCheckoutFailedReason,
    /// How long the operation waited.
    pub duration: Duration,
    /// What went wrong, when a connection could not be established or the pool was cleared.
    pub error: Option<String>,
}

/// Why an operation got no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ConnectionCheckoutFailedReason {
    /// It waited for as long as it was allowed to.
    Timeout,
    /// A connection could not be established, or the pool is waiting for its server to come back.
    ConnectionError,
    /// The pool was closed.
    PoolClosed,
    /// The operation itself was dropped while it waited.
    Abandoned,
}

impl ConnectionCheckoutFailedReason {
    /// The reason's name in MongoDB's specifications.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::ConnectionError => "connectionError",
            Self::PoolClosed => "poolClosed",
            Self::Abandoned => "abandoned",
        }
    }
}

impl fmt::Display for ConnectionCheckoutFailedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An operation got a connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectionCheckedOutEvent {
    /// The server the connection leads to.
    pub address: ServerAddress,
    /// The connection's number in its pool, counted from 1.
    pub connection_id: u32,
    /// How long the operation waited for it.
    pub duration: Duration,
}

/// An operation gave its connection back.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectionCheckedInEvent {
    /// The server the connection leads to.
    pub address: ServerAddress,
    /// The connection's number in its pool, counted from 1.
    pub connection_id: u32,
}
