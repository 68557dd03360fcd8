//! Log messages about finding a server for an operation.

use std::{sync::Arc, time::Duration};

use bson::oid::ObjectId;
use steadfast_core::{description::TopologyDescription, selection::SelectionTarget};
use tracing::Level;

use super::{as_whole_millis, topology::Shown};
use crate::error::{Error, ErrorKind};

const TARGET: &str = "steadfast::server_selection";

/// The operation that a message is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'a> {
    pub(crate) name: &'a str,
    pub(crate) id: i64,
}

/// A message with the fields that all messages about selection have.
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
            topologyDescription = Shown(&$description).to_string(),
            $($($own)*)?
            $message
        )
    };
}

/// A server is looked for.
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

/// There is none yet. To be told once for each operation.
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

/// A server was found: `server`, when `description` was known.
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

/// No server was found.
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
            failure = why(error),
        );
    }
}

/// An error in words, but without the servers: those are in the description already, and the
/// specification wants nothing said twice.
fn why(error: &Error) -> String {
    match &*error.kind {
        ErrorKind::ServerSelection { .. } => "no suitable server was found in time".to_owned(),
        _ => error.to_string(),
    }
}
