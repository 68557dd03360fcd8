//! The simulated server, which only executes handshakes.

use std::time::Duration;

use super::format::{FailPoint, FailPointData, FailPointMode};

const HANDSHAKE_TIME: Duration = Duration::from_millis(1);

/// A simulated server with an optional fail point.
pub(super) struct SimulatedServer {
    fail_point: Option<FailPointData>,
    failures_left: u32,
}

/// Error of a handshake.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HandshakeError {
    pub(super) text: &'static str,
    /// False for a network error: it may mean that the server is overloaded, and the topology does not clear the pool.
    /// True for an error reply.
    pub(super) clears_pool: bool,
}

impl SimulatedServer {
    /// Creates a server. A fail point for another application, or without `hello`, has no effect.
    pub(super) fn with(fail_point: Option<FailPoint>, app_name: Option<&str>) -> Self {
        let applicable = fail_point.filter(|FailPoint { data, .. }| {
            data.fail_commands.iter().any(|command| command == "hello")
                && (data.app_name.is_none() || data.app_name.as_deref() == app_name)
        });
        let failures_left = match applicable.as_ref().map(|fail_point| fail_point.mode) {
            None => 0,
            Some(FailPointMode::AlwaysOn) => u32::MAX,
            Some(FailPointMode::Times(times)) => times,
        };
        Self { fail_point: applicable.map(|fail_point| fail_point.data), failures_left }
    }

    /// Starts a handshake. Returns its duration, and its error if it fails.
    pub(super) fn handshake(&mut self) -> (Duration, Option<HandshakeError>) {
        let Some(data) = self.fail_point.as_ref().filter(|_| self.failures_left > 0) else {
            return (HANDSHAKE_TIME, None);
        };
        self.failures_left -= 1;
        let blocked = if data.block_connection { data.block_time_ms } else { 0 };
        let error = if data.close_connection {
            Some(HandshakeError { text: "connection closed", clears_pool: false })
        } else {
            data.error_code.map(|_| HandshakeError { text: "hello failed", clears_pool: true })
        };
        (HANDSHAKE_TIME + Duration::from_millis(blocked), error)
    }
}
