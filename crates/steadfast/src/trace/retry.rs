//! Log messages about commands that are tried again.

use bson::oid::ObjectId;
use tracing::Level;

use super::Operation;

const TARGET: &str = "steadfast::retry";

/// A command failed, and will be tried again. `reason` is asked for only if anyone reads it.
pub(crate) fn retrying(
    topology_id: ObjectId,
    operation: Operation<'_>,
    failed_attempts: usize,
    reason: impl FnOnce() -> String,
) {
    if tracing::enabled!(target: TARGET, Level::INFO) {
        tracing::info!(
            target: TARGET,
            topologyId = topology_id.to_hex(),
            operation = operation.name,
            operationId = operation.id,
            attempt = failed_attempts + 1,
            reason = reason(),
            "Command is tried again"
        );
    }
}
