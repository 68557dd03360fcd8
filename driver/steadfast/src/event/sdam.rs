//! Server discovery and monitoring (SDAM) events. See
//! [SDAM monitoring](https://github.com/mongodb/specifications/blob/master/source/server-discovery-and-monitoring/server-discovery-and-monitoring-logging-and-monitoring.md).

use std::time::Duration;

use bson::Document;
use serde::{Deserialize, Serialize};
use steadfast_core::{address::ServerAddress, event::sdam as core};

pub use steadfast_core::{
    description::{ServerDescription, TopologyDescription, TopologyType},
    event::sdam::{
        ServerClosedEvent, ServerDescriptionChangedEvent, ServerOpeningEvent, TopologyClosedEvent,
        TopologyDescriptionChangedEvent, TopologyOpeningEvent,
    },
};

#[expect(deprecated, reason = "exported for applications that still implement it")]
pub use super::handlers::SdamEventHandler;
use crate::error::Error;

/// An SDAM event.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
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

impl From<core::SdamEvent> for SdamEvent {
    fn from(event: core::SdamEvent) -> Self {
        match event {
            core::SdamEvent::ServerDescriptionChanged(event) => {
                Self::ServerDescriptionChanged(event)
            }
            core::SdamEvent::ServerOpening(event) => Self::ServerOpening(event),
            core::SdamEvent::ServerClosed(event) => Self::ServerClosed(event),
            core::SdamEvent::TopologyDescriptionChanged(event) => {
                Self::TopologyDescriptionChanged(event)
            }
            core::SdamEvent::TopologyOpening(event) => Self::TopologyOpening(event),
            core::SdamEvent::TopologyClosed(event) => Self::TopologyClosed(event),
        }
    }
}

/// Published when a heartbeat starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
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
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerHeartbeatFailedEvent {
    /// Duration of the heartbeat.
    pub duration: Duration,
    /// Error of the heartbeat. Serialized as its message.
    #[serde(serialize_with = "crate::serde_helpers::as_text")]
    pub failure: Error,
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
pub(crate) struct Heartbeat {
    /// Address of the server.
    pub(crate) server_address: ServerAddress,
    /// `true` if the server may delay its reply until its state changes (streaming protocol).
    pub(crate) awaited: bool,
    /// Id of the connection in this driver.
    pub(crate) driver_connection_id: u32,
    /// Id of the connection in the server (`connectionId`). `None` before its first reply.
    pub(crate) server_connection_id: Option<i64>,
}

impl Heartbeat {
    /// Returns the event for the start of the heartbeat.
    pub(crate) fn started(&self) -> SdamEvent {
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
    pub(crate) fn succeeded(&self, duration: Duration, reply: Document) -> SdamEvent {
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
    pub(crate) fn failed(&self, duration: Duration, failure: Error) -> SdamEvent {
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
