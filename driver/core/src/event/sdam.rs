//! Server discovery and monitoring (SDAM) events.
//!
//! The topology publishes the events of servers and topologies
//! ([`crate::sdam::TopologyEffect::Emit`]). The monitors publish the heartbeat events.

use std::time::Duration;

use bson::{Document, oid::ObjectId};

use crate::{
    address::ServerAddress,
    description::{ServerDescription, TopologyDescription},
};

/// An SDAM event.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SdamEvent {
    /// A server description changed.
    ServerDescriptionChanged(Box<ServerDescriptionChangedEvent>),
    /// Monitoring of a server started.
    ServerOpening(ServerOpeningEvent),
    /// Monitoring of a server ended.
    ServerClosed(ServerClosedEvent),
    /// The topology description changed.
    TopologyDescriptionChanged(Box<TopologyDescriptionChangedEvent>),
    /// Monitoring of the deployment started. Always the first event.
    TopologyOpening(TopologyOpeningEvent),
    /// Monitoring of the deployment ended. Always the last event.
    TopologyClosed(TopologyClosedEvent),
    /// A heartbeat started.
    ServerHeartbeatStarted(ServerHeartbeatStartedEvent),
    /// A heartbeat succeeded.
    ServerHeartbeatSucceeded(ServerHeartbeatSucceededEvent),
    /// A heartbeat failed.
    ServerHeartbeatFailed(ServerHeartbeatFailedEvent),
}

/// Published when a server description changes. A new round trip time alone is not a change.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerDescriptionChangedEvent {
    /// Address of the server.
    pub address: ServerAddress,
    /// Id of the topology.
    pub topology_id: ObjectId,
    /// Description before the change.
    pub previous_description: ServerDescription,
    /// Description after the change.
    pub new_description: ServerDescription,
}

/// Published when monitoring of a server starts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerOpeningEvent {
    /// Address of the server.
    pub address: ServerAddress,
    /// Id of the topology.
    pub topology_id: ObjectId,
}

/// Published when monitoring of a server ends.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerClosedEvent {
    /// Address of the server.
    pub address: ServerAddress,
    /// Id of the topology.
    pub topology_id: ObjectId,
}

/// Published when the topology description changes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TopologyDescriptionChangedEvent {
    /// Id of the topology.
    pub topology_id: ObjectId,
    /// Description before the change.
    pub previous_description: TopologyDescription,
    /// Description after the change.
    pub new_description: TopologyDescription,
}

/// Published when monitoring of the deployment starts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TopologyOpeningEvent {
    /// Id of the topology.
    pub topology_id: ObjectId,
}

/// Published when monitoring of the deployment ends.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TopologyClosedEvent {
    /// Id of the topology.
    pub topology_id: ObjectId,
}

/// Published when a heartbeat starts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerHeartbeatStartedEvent {
    /// Address of the server.
    pub server_address: ServerAddress,
    /// `true` if the server may delay its reply until its state changes (streaming protocol).
    pub awaited: bool,
    /// Id of the connection in this driver.
    pub driver_connection_id: u32,
    /// Id of the connection in the server (`connectionId`). `None` before its first reply.
    pub server_connection_id: Option<i64>,
}

/// Published when a heartbeat succeeds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerHeartbeatSucceededEvent {
    /// Duration of the heartbeat. Not a round trip time if `awaited`.
    pub duration: Duration,
    /// Reply of the server.
    pub reply: Document,
    /// Address of the server.
    pub server_address: ServerAddress,
    /// `true` if the server was allowed to delay its reply until its state changed (streaming
    /// protocol).
    pub awaited: bool,
    /// Id of the connection in this driver.
    pub driver_connection_id: u32,
    /// Id of the connection in the server (`connectionId`).
    pub server_connection_id: Option<i64>,
}

/// Published when a heartbeat fails.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerHeartbeatFailedEvent {
    /// Duration of the heartbeat.
    pub duration: Duration,
    /// Error of the heartbeat.
    pub failure: String,
    /// Address of the server.
    pub server_address: ServerAddress,
    /// `true` if the server was allowed to delay its reply until its state changed (streaming
    /// protocol).
    pub awaited: bool,
    /// Id of the connection in this driver.
    pub driver_connection_id: u32,
    /// Id of the connection in the server (`connectionId`). `None` if it never replied.
    pub server_connection_id: Option<i64>,
}

/// Fields that the three events of one heartbeat have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Heartbeat {
    /// Address of the server.
    pub server_address: ServerAddress,
    /// `true` if the server may delay its reply until its state changes (streaming protocol).
    pub awaited: bool,
    /// Id of the connection in this driver.
    pub driver_connection_id: u32,
    /// Id of the connection in the server (`connectionId`). `None` before its first reply.
    pub server_connection_id: Option<i64>,
}

impl Heartbeat {
    /// Returns the event for the start of the heartbeat.
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

    /// Returns the event for a successful heartbeat.
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

    /// Returns the event for a failed heartbeat.
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
