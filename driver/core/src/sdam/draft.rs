//! The next description of a deployment while it is being worked out.
//!
//! The handlers of the topology kinds write here. Nobody else sees it until it is whole.

use std::{collections::BTreeSet, time::Instant};

use crate::{
    address::ServerAddress,
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
};

use super::compatibility;

pub(super) struct Draft {
    pub(super) topology: TopologyDescription,
    /// Servers that a handler wants checked without delay.
    pub(super) recheck: BTreeSet<ServerAddress>,
    /// Whether the application named exactly one seed.
    pub(super) single_seed: bool,
    pub(super) now: Instant,
}

impl Draft {
    pub(super) fn new(topology: TopologyDescription, single_seed: bool, now: Instant) -> Self {
        Self { topology, recheck: BTreeSet::new(), single_seed, now }
    }

    /// Puts a description in the place of the one with the same address.
    pub(super) fn replace(&mut self, server: ServerDescription) {
        self.topology.servers.insert(server.address.clone(), server);
    }

    /// Adds a server of which nothing is known, unless it is there already.
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

    /// The specification's "checkIfHasPrimary".
    pub(super) fn check_if_has_primary(&mut self) {
        self.topology.topology_type = match self.topology.primary() {
            Some(_) => TopologyType::ReplicaSetWithPrimary,
            None => TopologyType::ReplicaSetNoPrimary,
        };
    }

    /// Works out what follows from the servers together, and hands over the result.
    pub(super) fn finish(mut self) -> (TopologyDescription, BTreeSet<ServerAddress>) {
        self.topology.logical_session_timeout = session_timeout(&self.topology);
        self.topology.compatibility_error = compatibility::error(&self.topology);
        self.recheck.retain(|address| self.topology.servers.contains_key(address));
        (self.topology, self.recheck)
    }
}

/// The shortest session lifetime among the servers that hold data; none if one has no sessions.
fn session_timeout(topology: &TopologyDescription) -> Option<std::time::Duration> {
    let mut timeouts = topology
        .servers
        .values()
        .filter(|server| holds_sessions(server.server_type))
        .map(|server| server.logical_session_timeout);
    let first = timeouts.next()?;
    // `None` is less than any `Some`: one server without sessions is enough.
    timeouts.fold(first, Option::min)
}

/// A load balancer has sessions whose lifetime is not to be seen.
fn holds_sessions(server_type: ServerType) -> bool {
    server_type.is_data_bearing() && server_type != ServerType::LoadBalancer
}
