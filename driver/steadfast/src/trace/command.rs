//! Log messages of commands.

use bson::oid::ObjectId;
use tracing::Level;

use super::{as_millis, extended_json};
use crate::{error::Error, event::command::CommandEvent};

const TARGET: &str = "steadfast::command";

/// Returns `true` if a subscriber receives messages about commands.
pub(crate) fn command_logging_enabled() -> bool {
    tracing::enabled!(target: TARGET, Level::DEBUG)
}

/// Emits a message with the common fields of command messages.
macro_rules! log {
    ($message:literal, $topology_id:expr, $event:expr, $($own:tt)*) => {
        tracing::debug!(
            target: TARGET,
            topologyId = $topology_id.to_hex(),
            commandName = $event.command_name.as_str(),
            databaseName = $event.db.as_str(),
            requestId = $event.request_id,
            operationId = $event.operation_id,
            driverConnectionId = $event.connection.id,
            serverConnectionId = $event.connection.server_id,
            serverHost = &*$event.connection.address.host(),
            serverPort = $event.connection.address.port(),
            serviceId = $event.service_id.map(|id| id.to_hex()),
            $($own)*
            $message
        )
    };
}

/// Logs a command event. Documents are truncated to `max_document_bytes`.
pub(crate) fn command(
    event: &CommandEvent,
    topology_id: ObjectId,
    max_document_bytes: Option<usize>,
) {
    if !command_logging_enabled() {
        return;
    }
    match event {
        CommandEvent::Started(event) => log!(
            "Command started",
            topology_id,
            event,
            command = extended_json::to_extended_json(&event.command, max_document_bytes),
        ),
        CommandEvent::Succeeded(event) => log!(
            "Command succeeded",
            topology_id,
            event,
            durationMS = as_millis(event.duration),
            reply = extended_json::to_extended_json(&event.reply, max_document_bytes),
        ),
        CommandEvent::Failed(event) => log!(
            "Command failed",
            topology_id,
            event,
            durationMS = as_millis(event.duration),
            failure = failure_text(&event.failure),
        ),
    }
}

/// Returns the text of an error. A custom text is returned as is.
fn failure_text(error: &Error) -> String {
    error.get_custom::<String>().cloned().unwrap_or_else(|| error.to_string())
}
