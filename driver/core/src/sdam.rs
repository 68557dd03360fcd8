//! Server discovery and monitoring (SDAM): the topology, derived from heartbeats and operation
//! errors.
//!
//! [`Topology`] is a state machine: [`Topology::apply`] takes a [`TopologyInput`] and returns
//! [`TopologyEffect`]s. It has no sockets, tasks or clock, and knows only the errors of operations.
//! The module `update` implements the rules of the specification [Server Discovery and Monitoring]
//! for each topology type.
//!
//! [Server Discovery and Monitoring]:
//! https://github.com/mongodb/specifications/blob/master/source/server-discovery-and-monitoring/server-discovery-and-monitoring.md

mod application_error;
mod compatibility;
mod draft;
mod effect;
mod election;
mod generation;
mod heartbeat;
mod input;
mod settings;
mod srv;
mod state_change;
mod transition;
mod update;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use bson::oid::ObjectId;

use crate::{
    address::ServerAddress,
    description::{ServerDescription, TopologyDescription, TopologyType},
    round_trip::RoundTrips,
};

pub use self::{
    compatibility::{MAX_WIRE_VERSION, MIN_SERVER_VERSION, MIN_WIRE_VERSION},
    effect::TopologyEffect,
    input::{
        ApplicationError, ApplicationErrorKind, CheckFailure, CheckFailureKind, CheckSuccess,
        CommandFailure, ConnectionPhase, TopologyInput,
    },
    settings::TopologySettings,
    srv::rescan_interval,
    state_change::StateChangeError,
};
use self::{
    draft::TopologyDraft, generation::Generations, settings::ConnectMode, transition::FollowUp,
};

/// Topology of a deployment.
///
/// Order of calls: [`new`](Self::new) once, then [`apply`](Self::apply) for one input at a time,
/// performing its effects before the next input; [`TopologyInput::Close`] last. [`TopologyEffect`]
/// documents the order of the effects.
#[derive(Debug)]
pub struct Topology {
    settings: TopologySettings,
    description: Arc<TopologyDescription>,
    servers: BTreeMap<ServerAddress, Server>,
    closed: bool,
}

/// State of a server in addition to its description.
#[derive(Debug, Default)]
struct Server {
    generations: Generations,
    round_trips: RoundTrips,
}

impl Topology {
    /// Creates the topology of the seeds. Returns it with the effects that open it.
    pub fn new(settings: TopologySettings, now: Instant) -> (Self, Vec<TopologyEffect>) {
        let mut topology =
            Self { settings, description: Arc::default(), servers: BTreeMap::new(), closed: false };
        let effects = topology.open(now);
        (topology, effects)
    }

    /// Applies an input and returns the effects to perform.
    ///
    /// Inputs about servers that are not, or no longer, part of the topology have no effect. The
    /// same holds for all inputs after [`TopologyInput::Close`].
    pub fn apply(&mut self, input: TopologyInput, now: Instant) -> Vec<TopologyEffect> {
        if self.closed {
            return Vec::new();
        }
        match input {
            TopologyInput::Heartbeat { address, outcome: Ok(checked) } => {
                self.check_succeeded(address, &checked, now)
            }
            TopologyInput::Heartbeat { address, outcome: Err(failure) } => {
                self.check_failed(address, failure, now)
            }
            TopologyInput::RoundTrip { address, sample } => {
                self.round_trip_measured(&address, sample)
            }
            TopologyInput::OperationError { address, error } => {
                self.operation_failed(address, error, now)
            }
            TopologyInput::SrvHosts(hosts) => self.srv_hosts_found(&hosts, now),
            TopologyInput::NoSuitableServer => self.check_all(),
            TopologyInput::Close => self.close(),
        }
    }

    /// Returns the topology description, as published by the latest [`TopologyEffect::Publish`].
    pub fn description(&self) -> &Arc<TopologyDescription> {
        &self.description
    }

    /// Returns the pool generation of a server or, with a service id, of that service behind a load
    /// balancer. `None` if the server is not part of the topology.
    pub fn generation(&self, address: &ServerAddress, service_id: Option<ObjectId>) -> Option<u64> {
        self.servers.get(address).map(|server| server.generations.current(service_id))
    }

    /// Returns `true` if servers have monitors, which is the case without a load balancer.
    pub fn is_monitored(&self) -> bool {
        self.settings.connect != ConnectMode::LoadBalanced
    }

    /// Requests a check of every server, because none is suitable for a waiting operation.
    fn check_all(&self) -> Vec<TopologyEffect> {
        if !self.is_monitored() {
            return Vec::new();
        }
        self.servers.keys().cloned().map(TopologyEffect::CheckNow).collect()
    }

    /// Updates the description of a server, and the topology by the rules of its type.
    fn describe(
        &mut self,
        server: ServerDescription,
        mut follow_up: FollowUp,
        now: Instant,
    ) -> Vec<TopologyEffect> {
        let mut draft = self.draft(now);
        draft.replace(server.clone());
        match draft.topology.topology_type {
            TopologyType::Single => update::single(&mut draft, &server),
            TopologyType::Unknown => update::unknown(&mut draft, &server),
            TopologyType::Sharded => update::sharded(&mut draft, &server),
            TopologyType::ReplicaSetNoPrimary => update::no_primary(&mut draft, &server),
            TopologyType::ReplicaSetWithPrimary => update::with_primary(&mut draft, &server),
            // The only server is described once, when the topology opens.
            TopologyType::LoadBalanced => return Vec::new(),
        }
        let usable = draft.topology.servers.get(&server.address).is_some_and(|server| {
            server.server_type.is_data_bearing()
                || (server.is_available() && draft.topology.topology_type == TopologyType::Single)
        });
        if usable && election::is_elected_but_not_writable(&draft.topology, &server) {
            follow_up.elected = Some(server.address.clone());
        }
        follow_up.ready = usable.then_some(server.address);
        self.adopt(draft, follow_up)
    }

    fn draft(&self, now: Instant) -> TopologyDraft {
        let single_seed = self.settings.seeds.len() == 1;
        TopologyDraft::new(TopologyDescription::clone(&self.description), single_seed, now)
    }
}
