//! The server of the simulation, of which only the handshakes are seen.

use std::time::Duration;

use super::format::{FailPoint, FailPointData, Mode};

const HANDSHAKE_TIME: Duration = Duration::from_millis(1);

/// A server whose fail point may be on.
pub(super) struct Server {
    fail_point: Option<FailPointData>,
    failures_left: u32,
}

/// How a handshake fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HandshakeError {
    pub(super) text: &'static str,
    /// An error of the network during a handshake may mean an overloaded server, for which the
    /// topology does not clear the pool; an answer that is an error is not one of those.
    pub(super) clears_pool: bool,
}

impl Server {
    /// A fail point for another application does not concern this one, nor one for commands that
    /// are no part of a handshake.
    pub(super) fn with(fail_point: Option<FailPoint>, app_name: Option<&str>) -> Self {
        let concerned = fail_point.filter(|FailPoint { data, .. }| {
            data.fail_commands.iter().any(|command| command == "hello")
                && (data.app_name.is_none() || data.app_name.as_deref() == app_name)
        });
        let failures_left = match concerned.as_ref().map(|fail_point| fail_point.mode) {
            None => 0,
            Some(Mode::AlwaysOn) => u32::MAX,
            Some(Mode::Times(times)) => times,
        };
        Self { fail_point: concerned.map(|fail_point| fail_point.data), failures_left }
    }

    /// Begins a handshake: how long it will take, and how it will fail, if it does.
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
