//! Log messages of the topology, its servers and their heartbeats.

use bson::oid::ObjectId;
use tracing::Level;

use super::{as_millis, extended_json};
use crate::event::sdam::SdamEvent;

const TARGET: &str = "steadfast::topology";

/// Returns `true` if a subscriber receives messages about the topology.
pub(crate) fn topology_logging_enabled() -> bool {
    tracing::enabled!(target: TARGET, Level::DEBUG)
}

/// Emits a message of the whole topology.
macro_rules! log {
    ($message:literal, $topology_id:expr $(, $($own:tt)*)?) => {
        tracing::debug!(
            target: TARGET,
            topologyId = $topology_id.to_hex(),
            $($($own)*)?
            $message
        )
    };
}

/// Emits a message of one server.
macro_rules! log_server {
    ($message:literal, $topology_id:expr, $address:expr $(, $($own:tt)*)?) => {
        log!(
            $message, $topology_id,
            serverHost = &*$address.host(),
            serverPort = $address.port(),
            $($($own)*)?
        )
    };
}

/// Emits a message of a heartbeat.
macro_rules! log_heartbeat {
    ($message:literal, $topology_id:expr, $event:expr $(, $($own:tt)*)?) => {
        log_server!(
            $message, $topology_id, $event.server_address,
            driverConnectionId = $event.driver_connection_id,
            serverConnectionId = $event.server_connection_id,
            awaited = $event.awaited,
            $($($own)*)?
        )
    };
}

/// Logs an event of the topology. Replies are truncated to `max_document_bytes`.
pub(crate) fn topology(
    event: &SdamEvent,
    topology_id: ObjectId,
    max_document_bytes: Option<usize>,
) {
    if !topology_logging_enabled() {
        return;
    }
    match event {
        // The specification: only the change of the topology is logged.
        SdamEvent::ServerDescriptionChanged(_) => {}
        SdamEvent::TopologyOpening(_) => log!("Starting topology monitoring", topology_id),
        SdamEvent::TopologyClosed(_) => log!("Stopped topology monitoring", topology_id),
        SdamEvent::ServerOpening(event) => {
            log_server!("Starting server monitoring", topology_id, event.address);
        }
        SdamEvent::ServerClosed(event) => {
            log_server!("Stopped server monitoring", topology_id, event.address);
        }
        SdamEvent::TopologyDescriptionChanged(event) => log!(
            "Topology description changed",
            topology_id,
            previousDescription = event.previous_description.to_string(),
            newDescription = event.new_description.to_string(),
        ),
        SdamEvent::ServerHeartbeatStarted(event) => {
            log_heartbeat!("Server heartbeat started", topology_id, event);
        }
        SdamEvent::ServerHeartbeatSucceeded(event) => log_heartbeat!(
            "Server heartbeat succeeded",
            topology_id,
            event,
            durationMS = as_millis(event.duration),
            reply = extended_json::to_extended_json(&event.reply, max_document_bytes),
        ),
        SdamEvent::ServerHeartbeatFailed(event) => log_heartbeat!(
            "Server heartbeat failed",
            topology_id,
            event,
            durationMS = as_millis(event.duration),
            failure = event.failure.to_string(),
        ),
    }
}
