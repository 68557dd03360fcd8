//! Connection monitoring and pooling (CMAP) events.

use std::{fmt, time::Duration};

use bson::oid::ObjectId;
use serde::{Deserialize, Serialize};

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

/// Implements the conversion of each event into [`CmapEvent`].
macro_rules! variants {
    ($($variant:ident($event:ident)),+ $(,)?) => {
        $(
            impl From<$event> for CmapEvent {
                fn from(event: $event) -> Self {
                    Self::$variant(event)
                }
            }
        )+
    };
}

variants! {
    PoolCreated(PoolCreatedEvent),
    PoolReady(PoolReadyEvent),
    PoolCleared(PoolClearedEvent),
    PoolClosed(PoolClosedEvent),
    ConnectionCreated(ConnectionCreatedEvent),
    ConnectionReady(ConnectionReadyEvent),
    ConnectionClosed(ConnectionClosedEvent),
    ConnectionCheckoutStarted(ConnectionCheckoutStartedEvent),
    ConnectionCheckoutFailed(ConnectionCheckoutFailedEvent),
    ConnectionCheckedOut(ConnectionCheckedOutEvent),
    ConnectionCheckedIn(ConnectionCheckedInEvent),
}

/// Options of a connection pool, as set by the application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ConnectionPoolOptions {
    /// Time after which an idle connection is closed (`maxIdleTimeMS`). Defaults to no limit; zero
    /// means no limit.
    #[serde(
        rename = "maxIdleTimeMS",
        serialize_with = "as_millis",
        deserialize_with = "from_millis"
    )]
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
    #[serde(
        rename = "waitQueueTimeoutMS",
        serialize_with = "as_millis",
        deserialize_with = "from_millis"
    )]
    pub wait_queue_timeout: Option<Duration>,
}

fn as_millis<S: serde::Serializer>(time: &Option<Duration>, out: S) -> Result<S::Ok, S::Error> {
    time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)).serialize(out)
}

fn from_millis<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    Ok(Option::<u64>::deserialize(from)?.map(Duration::from_millis))
}

/// Published when a pool is created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PoolCreatedEvent {
    /// Address of the server.
    pub address: ServerAddress,
    /// Options of the pool.
    pub options: Option<ConnectionPoolOptions>,
}

/// Published when a pool becomes ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PoolReadyEvent {
    /// Address of the server.
    pub address: ServerAddress,
}

/// Published when a pool, or one service behind a load balancer, is cleared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PoolClosedEvent {
    /// Address of the server.
    pub address: ServerAddress,
}

/// Published when a connection is created, before it is established.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectionCreatedEvent {
    /// Address of the server.
    pub address: ServerAddress,
    /// Number of the connection in its pool, counted from 1.
    pub connection_id: u32,
}

/// Published when a connection is established: handshake and authentication are complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConnectionCheckoutStartedEvent {
    /// Address of the server.
    pub address: ServerAddress,
}

/// Published when an operation fails to check out a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectionCheckedInEvent {
    /// Address of the server.
    pub address: ServerAddress,
    /// Number of the connection in its pool, counted from 1.
    pub connection_id: u32,
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn pool_options_have_the_names_of_uri_options() {
        let options = ConnectionPoolOptions {
            max_idle_time: Some(Duration::from_millis(5)),
            max_pool_size: Some(7),
            ..ConnectionPoolOptions::default()
        };
        let document = bson::serialize_to_document(&options).unwrap();
        assert_eq!(document.get_i64("maxIdleTimeMS").unwrap(), 5);
        assert_eq!(
            bson::deserialize_from_document::<ConnectionPoolOptions>(document).unwrap(),
            options
        );
        let few: ConnectionPoolOptions =
            bson::deserialize_from_document(doc! { "maxPoolSize": 7 }).unwrap();
        assert_eq!((few.max_pool_size, few.max_idle_time), (Some(7), None));
    }

    #[test]
    fn event_round_trips() {
        let address = ServerAddress::parse("a:1").unwrap();
        let closed = ConnectionClosedEvent {
            address,
            connection_id: 3,
            reason: ConnectionClosedReason::Idle,
            service_id: None,
            error: None,
        };
        let document = bson::serialize_to_document(&closed).unwrap();
        assert_eq!(document.get_str("reason").unwrap(), "idle");
        let back: ConnectionClosedEvent = bson::deserialize_from_document(document).unwrap();
        assert_eq!(CmapEvent::from(back), CmapEvent::ConnectionClosed(closed));
    }
}
