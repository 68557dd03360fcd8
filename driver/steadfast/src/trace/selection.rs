//! Log messages of server selection.

use std::{sync::Arc, time::Duration};

use bson::oid::ObjectId;
use steadfast_core::{description::TopologyDescription, selection::SelectionTarget};
use tracing::Level;

use super::as_whole_millis;
use crate::error::{Error, ErrorKind};

const TARGET: &str = "steadfast::server_selection";

/// Operation of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'a> {
    pub(crate) name: &'a str,
    pub(crate) id: i64,
}

/// Emits a message with the common fields of selection messages.
macro_rules! log {
    (
        $level:ident, $message:literal, $topology_id:expr, $operation:expr, $target:expr,
        $description:expr $(, $($own:tt)*)?
    ) => {
        tracing::event!(
            target: TARGET,
            Level::$level,
            topologyId = $topology_id.to_hex(),
            operation = $operation.name,
            operationId = $operation.id,
            selector = $target.to_string(),
            topologyDescription = $description.to_string(),
            $($($own)*)?
            $message
        )
    };
}

/// Logs the start of a server selection.
pub(crate) fn selection_started(
    topology_id: ObjectId,
    operation: Operation<'_>,
    target: SelectionTarget<'_>,
    description: impl FnOnce() -> Arc<TopologyDescription>,
) {
    if tracing::enabled!(target: TARGET, Level::DEBUG) {
        let known = description();
        log!(DEBUG, "Server selection started", topology_id, operation, target, known);
    }
}

/// Logs that no server is suitable yet. Must be called once per operation.
pub(crate) fn selection_waits(
    topology_id: ObjectId,
    operation: Operation<'_>,
    target: SelectionTarget<'_>,
    left: Duration,
    description: impl FnOnce() -> Arc<TopologyDescription>,
) {
    if tracing::enabled!(target: TARGET, Level::INFO) {
        let known = description();
        log!(
            INFO,
            "Waiting for suitable server to become available",
            topology_id,
            operation,
            target,
            known,
            remainingTimeMS = as_whole_millis(left),
        );
    }
}

/// Logs the selected server, with the topology at that time.
pub(crate) fn selection_succeeded(
    topology_id: ObjectId,
    operation: Operation<'_>,
    target: SelectionTarget<'_>,
    server: &steadfast_core::address::ServerAddress,
    description: &TopologyDescription,
) {
    log!(
        DEBUG,
        "Server selection succeeded",
        topology_id,
        operation,
        target,
        *description,
        serverHost = &*server.host(),
        serverPort = server.port(),
    );
}

/// Logs a failed server selection.
pub(crate) fn selection_failed(
    topology_id: ObjectId,
    operation: Operation<'_>,
    target: SelectionTarget<'_>,
    error: &Error,
    description: impl FnOnce() -> Arc<TopologyDescription>,
) {
    if tracing::enabled!(target: TARGET, Level::DEBUG) {
        let known = description();
        log!(
            DEBUG,
            "Server selection failed",
            topology_id,
            operation,
            target,
            known,
            failure = failure_text(error),
        );
    }
}

/// Returns the text of an error, without the servers: by the specification, the topology
/// description contains them.
fn failure_text(error: &Error) -> String {
    match &*error.kind {
        ErrorKind::ServerSelection { .. } => "no suitable server was found in time".to_owned(),
        _ => error.to_string(),
    }
}
