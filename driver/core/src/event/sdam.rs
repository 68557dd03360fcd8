//! Events of server discovery and monitoring: what became of the deployment, its servers and
//! their heartbeats.
//!
//! The topology publishes the first six ([`crate::sdam::Effect::Emit`]); the heartbeats are
//! published by the monitors as they work.

use std::time::Duration;

use bson::{Document, oid::ObjectId};

use crate::{
    address::ServerAddress,
    description::{ServerDescription, TopologyDescription},
};

/// Any event of server discovery and monitoring.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SdamEvent {
    /// What is known of a server changed.
    ServerDescriptionChanged(Box<ServerDescriptionChangedEvent>),
    /// A server is watched from now on.
    ServerOpening(ServerOpeningEvent),
    /// A server is not watched any more.
    ServerClosed(ServerClosedEvent),
    /// What is known of the deployment changed.
    TopologyDescriptionChanged(Box<TopologyDescriptionChangedEvent>),
    /// The deployment is watched from now on: always the first event.
    TopologyOpening(TopologyOpeningEvent),
    /// The deployment is not watched any more: always the last event.
    TopologyClosed(TopologyClosedEvent),
    /// A server is asked for its state.
    ServerHeartbeatStarted(ServerHeartbeatStartedEvent),
    /// A server told its state.
    ServerHeartbeatSucceeded(ServerHeartbeatSucceededEvent),
    /// A server did not tell its state.
    ServerHeartbeatFailed(ServerHeartbeatFailedEvent),
}

/// What is known of a server changed; a new round trip time alone is no change.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerDescriptionChangedEvent {
    /// The server.
    pub address: ServerAddress,
    /// The topology it belongs to.
    pub topology_id: ObjectId,
    /// What was known before.
    pub previous_description: ServerDescription,
    /// What is known now.
    pub new_description: ServerDescription,
}

/// A server is watched from now on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerOpeningEvent {
    /// The server.
    pub address: ServerAddress,
    /// The topology it belongs to.
    pub topology_id: ObjectId,
}

/// A server is not watched any more.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerClosedEvent {
    /// The server.
    pub address: ServerAddress,
    /// The topology it belonged to.
    pub topology_id: ObjectId,
}

/// What is known of the deployment changed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TopologyDescriptionChangedEvent {
    /// The topology.
    pub topology_id: ObjectId,
    /// What was known before.
    pub previous_description: TopologyDescription,
    /// What is known now.
    pub new_description: TopologyDescription,
}

/// The deployment is watched from now on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TopologyOpeningEvent {
    /// The topology.
    pub topology_id: ObjectId,
}

/// The deployment is not watched any more.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TopologyClosedEvent {
    /// The topology.
    pub topology_id: ObjectId,
}

/// A server is asked for its state.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerHeartbeatStartedEvent {
    /// The server.
    pub server_address: ServerAddress,
    /// Whether the server may wait for a change before it replies.
    pub awaited: bool,
    /// The driver's number for the connection.
    pub driver_connection_id: u32,
    /// The server's number for the connection; none before its first reply.
    pub server_connection_id: Option<i64>,
}

/// A server told its state.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerHeartbeatSucceededEvent {
    /// How long it took; no round trip time if `awaited`.
    pub duration: Duration,
    /// What the server replied.
    pub reply: Document,
    /// The server.
    pub server_address: ServerAddress,
    /// Whether the server was free to wait for a change before it replied.
    pub awaited: bool,
    /// The driver's number for the connection.
    pub driver_connection_id: u32,
    /// The server's number for the connection.
    pub server_connection_id: Option<i64>,
}

/// A server did not tell its state.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerHeartbeatFailedEvent {
    /// How long it took to fail.
    pub duration: Duration,
    /// Why.
    pub failure: String,
    /// The server.
    pub server_address: ServerAddress,
    /// Whether the server was free to wait for a change before it replied.
    pub awaited: bool,
    /// The driver's number for the connection.
    pub driver_connection_id: u32,
    /// The server's number for the connection; none if it never replied.
    pub server_connection_id: Option<i64>,
}

/// What all three events of a heartbeat say of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Heartbeat {
    /// The server.
    pub server_address: ServerAddress,
    /// Whether the server may wait for a change before it replies.
    pub awaited: bool,
    /// The driver's number for the connection.
    pub driver_connection_id: u32,
    /// The server's number for the connection; none before its first reply.
    pub server_connection_id: Option<i64>,
}

impl Heartbeat {
    /// The event that it begins.
    pub fn started(&self) -> SdamEvent {
        let Self { server_address, awaited, driver_connection_id, server_connection_id } =
            self.clone();
        SdamEvent::ServerHeartbeatStarted(ServerHeartbeatStartedEvent {
            server_address,
            awaited,
            driver_connection_id,
            server_connection_id,
        })
    }

    /// The event that it was answered.
    pub fn succeeded(&self, duration: Duration, reply: Document) -> SdamEvent {
        let Self { server_address, awaited, driver_connection_id, server_connection_id } =
            self.clone();
        SdamEvent::ServerHeartbeatSucceeded(ServerHeartbeatSucceededEvent {
            duration,
            reply,
            server_address,
            awaited,
            driver_connection_id,
            server_connection_id,
        })
    }

    /// The event that it was not answered, or with an error.
    pub fn failed(&self, duration: Duration, failure: String) -> SdamEvent {
        let Self { server_address, awaited, driver_connection_id, server_connection_id } =
            self.clone();
        SdamEvent::ServerHeartbeatFailed(ServerHeartbeatFailedEvent {
            duration,
            failure,
            server_address,
            awaited,
            driver_connection_id,
            server_connection_id,
        })
    }
}
