//! Server discovery and monitoring (SDAM) events.
//!
//! The topology publishes the events of servers and topologies
//! ([`crate::sdam::TopologyEffect::Emit`]). The heartbeat events are those of the monitors, outside of
//! this crate.

use bson::oid::ObjectId;
use serde::{Deserialize, Serialize};

use crate::{
    address::ServerAddress,
    description::{ServerDescription, TopologyDescription},
};

/// An event of a topology or a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
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
}

/// Published when a server description changes. A new round trip time alone is not a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerOpeningEvent {
    /// Address of the server.
    pub address: ServerAddress,
    /// Id of the topology.
    pub topology_id: ObjectId,
}

/// Published when monitoring of a server ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerClosedEvent {
    /// Address of the server.
    pub address: ServerAddress,
    /// Id of the topology.
    pub topology_id: ObjectId,
}

/// Published when the topology description changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TopologyOpeningEvent {
    /// Id of the topology.
    pub topology_id: ObjectId,
}

/// Published when monitoring of the deployment ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TopologyClosedEvent {
    /// Id of the topology.
    pub topology_id: ObjectId,
}
