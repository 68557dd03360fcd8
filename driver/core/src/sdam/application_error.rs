//! What the failure of an operation, or of a connection made for one, says of its server.

use std::time::Instant;

use bson::oid::ObjectId;

use crate::{
    address::ServerAddress,
    description::{ServerDescription, TopologyVersion},
};

use super::{
    ApplicationError, ConnectionPhase, Effect, ErrorCause, StateChange, Topology,
    transition::{ClearPool, FollowUp},
};

/// What an error says of its server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    /// Nothing.
    Nothing,
    /// It is there, but is not what it is taken for.
    Changed { change: StateChange, topology_version: Option<TopologyVersion> },
    /// It cannot be used, and neither can its other connections.
    Unusable,
}

impl ApplicationError {
    fn verdict(&self) -> Verdict {
        if let ErrorCause::Command(failure) = &self.cause
            && let Some(change) = failure.state_change()
        {
            return Verdict::Changed { change, topology_version: failure.topology_version };
        }
        let unusable = match (self.phase, &self.cause) {
            // Whatever goes wrong here, no connection comes of it.
            (ConnectionPhase::Connecting | ConnectionPhase::Authenticating, _) => true,
            (ConnectionPhase::Established, ErrorCause::Network) => true,
            // It may be only the operation that is slow, not the server.
            (ConnectionPhase::Established, ErrorCause::NetworkTimeout) => false,
            (ConnectionPhase::Established, ErrorCause::Command(_) | ErrorCause::Other) => false,
        };
        // A server that sheds load is alive, and clearing its pool would add to the load.
        if unusable && !self.overloaded { Verdict::Unusable } else { Verdict::Nothing }
    }

    fn topology_version(&self) -> Option<TopologyVersion> {
        match &self.cause {
            ErrorCause::Command(failure) => failure.topology_version,
            ErrorCause::Network | ErrorCause::NetworkTimeout | ErrorCause::Other => None,
        }
    }
}

impl Topology {
    /// An operation, or the establishing of a connection for one, failed.
    pub(super) fn operation_failed(
        &mut self,
        address: ServerAddress,
        error: ApplicationError,
        now: Instant,
    ) -> Vec<Effect> {
        if self.is_stale(&address, &error) {
            return Vec::new();
        }
        if !self.is_monitored() {
            return self.failed_behind_load_balancer(address, &error);
        }
        let clear =
            ClearPool { address: address.clone(), service_id: None, interrupt_in_use: false };
        match error.verdict() {
            Verdict::Nothing => Vec::new(),
            Verdict::Changed { change, topology_version } => {
                let follow_up = FollowUp {
                    // The others' connections are still good unless the server goes down.
                    clear: (change == StateChange::ShuttingDown).then_some(clear),
                    check: Some(address.clone()),
                    ..FollowUp::default()
                };
                let unknown = ServerDescription::unknown_because(address, error.message, now);
                self.describe(ServerDescription { topology_version, ..unknown }, follow_up, now)
            }
            Verdict::Unusable => {
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

    /// The balancer stays what it is; only connections to the one service may be unfit.
    fn failed_behind_load_balancer(
        &mut self,
        address: ServerAddress,
        error: &ApplicationError,
    ) -> Vec<Effect> {
        let Some(service_id) = error.service_id else { return Vec::new() };
        match (error.phase, error.verdict()) {
            // Which service it would have been is not known before hello is answered.
            (ConnectionPhase::Connecting, _) | (_, Verdict::Nothing) => Vec::new(),
            (_, Verdict::Changed { change: StateChange::ShuttingDown, .. } | Verdict::Unusable) => {
                self.clear(ClearPool {
                    address,
                    service_id: Some(service_id),
                    interrupt_in_use: false,
                })
                .into_iter()
                .collect()
            }
            (_, Verdict::Changed { .. }) => Vec::new(),
        }
    }

    /// Whether something newer is known of the server than what the error tells: its pool was
    /// cleared since the connection was made, or the server was described since it failed.
    fn is_stale(&self, address: &ServerAddress, error: &ApplicationError) -> bool {
        let service_id: Option<ObjectId> =
            if self.is_monitored() { None } else { error.service_id };
        if self.generation(address, service_id) != Some(error.generation) {
            return true;
        }
        let current =
            self.description.servers.get(address).and_then(|server| server.topology_version);
        match (current, error.topology_version()) {
            // Any change of state is a change of version: the same version is no news.
            (Some(current), Some(error)) => error == current || error.is_older_than(current),
            (None, _) | (_, None) => false,
        }
    }
}
