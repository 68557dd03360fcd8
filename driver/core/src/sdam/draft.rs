//! The next topology description, before it is complete.
//!
//! The rules of the topology types write here.

use std::{collections::BTreeSet, time::Instant};

use crate::{
    address::ServerAddress,
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
};

use super::compatibility;

pub(super) struct TopologyDraft {
    pub(super) topology: TopologyDescription,
    /// Servers to check immediately.
    pub(super) recheck: BTreeSet<ServerAddress>,
    /// `true` if the application specified exactly one seed.
    pub(super) single_seed: bool,
    pub(super) now: Instant,
}

impl TopologyDraft {
    pub(super) fn new(topology: TopologyDescription, single_seed: bool, now: Instant) -> Self {
        Self { topology, recheck: BTreeSet::new(), single_seed, now }
    }

    /// Replaces the description with the same address.
    pub(super) fn replace(&mut self, server: ServerDescription) {
        self.topology.servers.insert(server.address.clone(), server);
    }

    /// Adds a server of type Unknown, unless it exists.
    pub(super) fn add(&mut self, address: &ServerAddress) {
        self.topology
            .servers
            .entry(address.clone())
            .or_insert_with(|| ServerDescription::unknown(address.clone()));
    }

    pub(super) fn remove(&mut self, address: &ServerAddress) {
        self.topology.servers.remove(address);
    }

    pub(super) fn mark_unknown(&mut self, address: &ServerAddress, why: impl Into<String>) {
        self.replace(ServerDescription::unknown_because(address.clone(), why, self.now));
    }

    /// Implements "checkIfHasPrimary" of the specification.
    pub(super) fn check_if_has_primary(&mut self) {
        self.topology.topology_type = match self.topology.primary() {
            Some(_) => TopologyType::ReplicaSetWithPrimary,
            None => TopologyType::ReplicaSetNoPrimary,
        };
    }

    /// Computes the values derived from all servers, and returns the description.
    pub(super) fn finish(mut self) -> (TopologyDescription, BTreeSet<ServerAddress>) {
        self.topology.logical_session_timeout = session_timeout(&self.topology);
        self.topology.compatibility_error = compatibility::error(&self.topology);
        self.recheck.retain(|address| self.topology.servers.contains_key(address));
        (self.topology, self.recheck)
    }
}

/// Returns the shortest session lifetime of the data-bearing servers, or `None` if one of them does
/// not support sessions.
fn session_timeout(topology: &TopologyDescription) -> Option<std::time::Duration> {
    let mut timeouts = topology
        .servers
        .values()
        .filter(|server| holds_sessions(server.server_type))
        .map(|server| server.logical_session_timeout);
    let first = timeouts.next()?;
    // `None` is less than any `Some`: one server without session support is enough.
    timeouts.fold(first, Option::min)
}

/// Returns `true` for data-bearing servers other than load balancers, which do not report a session
/// lifetime.
fn holds_sessions(server_type: ServerType) -> bool {
    server_type.is_data_bearing() && server_type != ServerType::LoadBalancer
}
