//! Log messages of retries.

use std::time::Duration;

use bson::oid::ObjectId;
use tracing::Level;

use super::Operation;

const TARGET: &str = "steadfast::retry";

/// Logs a scheduled retry. `reason` is called only if the message is enabled.
pub(crate) fn retrying(
    (topology_id, operation): (ObjectId, Operation<'_>),
    failed_attempts: usize,
    backoff: Duration,
    tokens_left: f64,
    reason: impl FnOnce() -> String,
) {
    if tracing::enabled!(target: TARGET, Level::INFO) {
        tracing::info!(
            target: TARGET,
            topologyId = topology_id.to_hex(),
            operation = operation.name,
            operationId = operation.id,
            attempt = failed_attempts + 1,
            backoffMS = backoff.as_secs_f64() * 1000.0,
            tokensLeft = tokens_left,
            reason = reason(),
            "Command is retried"
        );
    }
}

/// Logs a command that failed on an overloaded server and is not retried.
pub(crate) fn overload_given_up(
    (topology_id, operation): (ObjectId, Operation<'_>),
    failed_attempts: usize,
    budget_exhausted: bool,
    tokens_left: f64,
    reason: impl FnOnce() -> String,
) {
    if tracing::enabled!(target: TARGET, Level::WARN) {
        tracing::warn!(
            target: TARGET,
            topologyId = topology_id.to_hex(),
            operation = operation.name,
            operationId = operation.id,
            failedAttempts = failed_attempts,
            budgetExhausted = budget_exhausted,
            tokensLeft = tokens_left,
            reason = reason(),
            "Command is not retried: the server is overloaded"
        );
    }
}
