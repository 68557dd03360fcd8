//! Errors of operations, and of connections established for them, as inputs of the topology.

use std::time::Instant;

use bson::oid::ObjectId;

use crate::{
    address::ServerAddress,
    description::{ServerDescription, TopologyVersion},
};

use super::{
    ApplicationError, ApplicationErrorKind, ConnectionPhase, StateChangeError, Topology,
    TopologyEffect,
    transition::{ClearPool, FollowUp},
};

/// Consequence of an error for its server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ServerImpact {
    /// None.
    Nothing,
    /// The server responds, but reports a state change.
    Changed { change: StateChangeError, topology_version: Option<TopologyVersion> },
    /// The server is unreachable: it becomes Unknown and its pool is cleared.
    Unusable,
}

impl ApplicationError {
    fn impact(&self) -> ServerImpact {
        if let ApplicationErrorKind::Command(failure) = &self.cause
            && let Some(change) = failure.state_change()
        {
            return ServerImpact::Changed { change, topology_version: failure.topology_version };
        }
        let unusable = match (self.phase, &self.cause) {
            // A connection that fails during its handshake is never usable.
            (ConnectionPhase::Connecting | ConnectionPhase::Authenticating, _) => true,
            (ConnectionPhase::Established, ApplicationErrorKind::Network) => true,
            // The operation may be slow, not the server.
            (ConnectionPhase::Established, ApplicationErrorKind::NetworkTimeout) => false,
            (
                ConnectionPhase::Established,
                ApplicationErrorKind::Command(_) | ApplicationErrorKind::Other,
            ) => false,
        };
        // An overloaded server is alive, and clearing its pool would add load.
        if unusable && !self.overloaded { ServerImpact::Unusable } else { ServerImpact::Nothing }
    }

    fn topology_version(&self) -> Option<TopologyVersion> {
        match &self.cause {
            ApplicationErrorKind::Command(failure) => failure.topology_version,
            ApplicationErrorKind::Network
            | ApplicationErrorKind::NetworkTimeout
            | ApplicationErrorKind::Other => None,
        }
    }
}

impl Topology {
    /// Applies an error of an operation, or of a connection established for one.
    pub(super) fn operation_failed(
        &mut self,
        address: ServerAddress,
        error: ApplicationError,
        now: Instant,
    ) -> Vec<TopologyEffect> {
        if self.is_stale(&address, &error) {
            return Vec::new();
        }
        if !self.is_monitored() {
            return self.failed_behind_load_balancer(address, &error);
        }
        let clear =
            ClearPool { address: address.clone(), service_id: None, interrupt_in_use: false };
        match error.impact() {
            ServerImpact::Nothing => Vec::new(),
            ServerImpact::Changed { change, topology_version } => {
                let follow_up = FollowUp {
                    // Other connections stay usable unless the server shuts down.
                    clear: (change == StateChangeError::NodeIsShuttingDown).then_some(clear),
                    check: Some(address.clone()),
                    ..FollowUp::default()
                };
                let unknown = ServerDescription::unknown_because(address, error.message, now);
                self.describe(ServerDescription { topology_version, ..unknown }, follow_up, now)
            }
            ServerImpact::Unusable => {
                let follow_up = FollowUp {
                    clear: Some(clear),
                    cancel: Some(address.clone()),
                    ..FollowUp::default()
                };
                let unknown = ServerDescription::unknown_because(address, error.message, now);
                self.describe(unknown, follow_up, now)
            }
        }
    }

    /// Applies an error behind a load balancer: at most the connections of one service are cleared.
    fn failed_behind_load_balancer(
        &mut self,
        address: ServerAddress,
        error: &ApplicationError,
    ) -> Vec<TopologyEffect> {
        let Some(service_id) = error.service_id else { return Vec::new() };
        match (error.phase, error.impact()) {
            // Before the reply to `hello`, the service is unknown.
            (ConnectionPhase::Connecting, _) | (_, ServerImpact::Nothing) => Vec::new(),
            (
                _,
                ServerImpact::Changed { change: StateChangeError::NodeIsShuttingDown, .. }
                | ServerImpact::Unusable,
            ) => self
                .clear(ClearPool { address, service_id: Some(service_id), interrupt_in_use: false })
                .into_iter()
                .collect(),
            (_, ServerImpact::Changed { .. }) => Vec::new(),
        }
    }

    /// Returns `true` for an error older than the description: the pool was cleared after the
    /// connection was established, or the server was described after the error.
    fn is_stale(&self, address: &ServerAddress, error: &ApplicationError) -> bool {
        let service_id: Option<ObjectId> =
            if self.is_monitored() { None } else { error.service_id };
        if self.generation(address, service_id) != Some(error.generation) {
            return true;
        }
        let current =
            self.description.servers.get(address).and_then(|server| server.topology_version);
        match (current, error.topology_version()) {
            // Every state change increments the topology version: an equal version is not newer.
            (Some(current), Some(error)) => error == current || error.is_older_than(current),
            (None, _) | (_, None) => false,
        }
    }
}
