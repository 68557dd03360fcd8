//! Connection monitoring and pooling (CMAP) events.

use std::{fmt, time::Duration};

use bson::oid::ObjectId;
use serde::Serialize;

use crate::address::ServerAddress;

/// A CMAP event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub enum CmapEvent {
    /// A pool was created.
    PoolCreated(PoolCreatedEvent),
    /// A pool became ready.
    PoolReady(PoolReadyEvent),
    /// A pool was cleared.
    PoolCleared(PoolClearedEvent),
    /// A pool was closed.
    PoolClosed(PoolClosedEvent),
    /// A connection was created; it is not established yet.
    ConnectionCreated(ConnectionCreatedEvent),
    /// A connection was established.
    ConnectionReady(ConnectionReadyEvent),
    /// A connection was closed.
    ConnectionClosed(ConnectionClosedEvent),
    /// A connection check-out started.
    ConnectionCheckoutStarted(ConnectionCheckoutStartedEvent),
    /// A connection check-out failed.
    ConnectionCheckoutFailed(ConnectionCheckoutFailedEvent),
    /// A connection was checked out.
    ConnectionCheckedOut(ConnectionCheckedOutEvent),
    /// A connection was checked in.
    ConnectionCheckedIn(ConnectionCheckedInEvent),
}

/// Options of a connection pool, as set by the application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectionPoolOptions {
    /// Time after which an idle connection is closed (`maxIdleTimeMS`). Defaults to no limit; zero
    /// means no limit.
    #[serde(rename = "maxIdleTimeMS", serialize_with = "as_millis")]
    pub max_idle_time: Option<Duration>,
    /// Maximum number of connections, those in use included (`maxPoolSize`). Defaults to 100; zero
    /// means no limit.
    pub max_pool_size: Option<u32>,
    /// Minimum number of connections (`minPoolSize`). Defaults to 0.
    pub min_pool_size: Option<u32>,
    /// Maximum number of connections established concurrently (`maxConnecting`). Defaults to 2.
    pub max_connecting: Option<u32>,
    /// Time-out for checking out a connection (`waitQueueTimeoutMS`). Defaults to no limit; zero
    /// means no limit. The pool only reports this option.
    #[serde(rename = "waitQueueTimeoutMS", serialize_with = "as_millis")]
    pub wait_queue_timeout: Option<Duration>,
}

fn as_millis<S: serde::Serializer>(time: &Option<Duration>, out: S) -> Result<S::Ok, S::Error> {
    time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)).serialize(out)
}

/// Published when a pool is created.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PoolCreatedEvent {
    /// Address of the server.
    pub address: ServerAddress,
    /// Options of the pool.
    pub options: Option<ConnectionPoolOptions>,
}

/// Published when a pool becomes ready.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PoolReadyEvent {
    /// Address of the server.
    pub address: ServerAddress,
}

/// Published when a pool, or one service behind a load balancer, is cleared.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PoolClearedEvent {
    /// Address of the server.
    pub address: ServerAddress,
    /// Id of the cleared service behind a load balancer (`serviceId`).
    pub service_id: Option<ObjectId>,
    /// `true` if connections in use are interrupted, too (`interruptInUseConnections`).
    pub interrupt_in_use_connections: bool,
}

/// Published when a pool is closed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PoolClosedEvent {
    /// Address of the server.
    pub address: ServerAddress,
}

/// Published when a connection is created, before it is established.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectionCreatedEvent {
    /// Address of the server.
    pub address: ServerAddress,
    /// Number of the connection in its pool, counted from 1.
    pub connection_id: u32,
}

/// Published when a connection is established: handshake and authentication are complete.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectionReadyEvent {
    /// Address of the server.
    pub address: ServerAddress,
    /// Number of the connection in its pool, counted from 1.
    pub connection_id: u32,
    /// Duration of establishing the connection.
    pub duration: Duration,
}

/// Published when a connection is closed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectionClosedEvent {
    /// Address of the server.
    pub address: ServerAddress,
    /// Number of the connection in its pool, counted from 1.
    pub connection_id: u32,
    /// Reason of closing the connection.
    pub reason: ConnectionClosedReason,
    /// Id of the connection's service behind a load balancer (`serviceId`).
    pub service_id: Option<ObjectId>,
    /// Error that closed the connection, if the reason is one.
    pub error: Option<String>,
}

/// Reason of closing a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ConnectionClosedReason {
    /// The pool was cleared after the connection was created.
    Stale,
    /// The connection was idle for longer than `maxIdleTimeMS`.
    Idle,
    /// The connection failed while it was established or used.
    Error,
    /// The operation that used it was dropped in the middle of a message.
    Dropped,
    /// The pool was closed.
    PoolClosed,
}

impl ConnectionClosedReason {
    /// Returns the name used by the specifications.
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

/// Published when an operation starts to check out a connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ConnectionCheckoutStartedEvent {
    /// Address of the server.
    pub address: ServerAddress,
}

/// Published when an operation fails to check out a connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ConnectionCheckoutFailedEvent {
    /// Address of the server.
    pub address: ServerAddress,
    /// Reason of the failure.
    pub reason: ConnectionCheckoutFailedReason,
    /// Duration of the check-out.
    pub duration: Duration,
    /// Error, if a connection could not be established or the pool was cleared.
    pub error: Option<String>,
}

/// Reason of a failed check-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ConnectionCheckoutFailedReason {
    /// The check-out timed out.
    Timeout,
    /// A connection could not be established, or the pool is paused.
    ConnectionError,
    /// The pool was closed.
    PoolClosed,
    /// The operation was dropped while it waited.
    Abandoned,
}

impl ConnectionCheckoutFailedReason {
    /// Returns the name used by the specifications.
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

/// Published when an operation has checked out a connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectionCheckedOutEvent {
    /// Address of the server.
    pub address: ServerAddress,
    /// Number of the connection in its pool, counted from 1.
    pub connection_id: u32,
    /// Duration of the check-out.
    pub duration: Duration,
}

/// Published when an operation checks in a connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectionCheckedInEvent {
    /// Address of the server.
    pub address: ServerAddress,
    /// Number of the connection in its pool, counted from 1.
    pub connection_id: u32,
}
