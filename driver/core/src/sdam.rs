//! Server discovery and monitoring: what the deployment looks like, worked out from what its
//! servers say and from how operations fail.
//!
//! [`Topology`] is a state machine of one shape: [`Topology::apply`] takes what happened
//! ([`Input`]) and returns what is to be done ([`Effect`]). It knows nothing of sockets, tasks or
//! clocks, and nothing of operations but their failures. `update` says what a newly described
//! server means to each type of topology.

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
    effect::Effect,
    input::{
        ApplicationError, CheckFailure, CheckFailureKind, Checked, CommandFailure, ConnectionPhase,
        ErrorCause, Input,
    },
    settings::TopologySettings,
    srv::rescan_interval,
    state_change::StateChange,
};
use self::{draft::Draft, generation::Generations, settings::Connect, transition::FollowUp};

/// The state of a deployment as the client sees it.
///
/// The order of calls: [`new`](Self::new) once, then [`apply`](Self::apply) for each input, one at
/// a time, the effects of each performed before the next; [`Input::Close`] last. What the effects
/// of one input guarantee is written on [`Effect`].
#[derive(Debug)]
pub struct Topology {
    settings: TopologySettings,
    description: Arc<TopologyDescription>,
    servers: BTreeMap<ServerAddress, Server>,
    closed: bool,
}

/// What is kept of a server beside its description.
#[derive(Debug, Default)]
struct Server {
    generations: Generations,
    round_trips: RoundTrips,
}

impl Topology {
    /// A topology of the seeds, and the effects that open it.
    pub fn new(settings: TopologySettings, now: Instant) -> (Self, Vec<Effect>) {
        let mut topology =
            Self { settings, description: Arc::default(), servers: BTreeMap::new(), closed: false };
        let effects = topology.open(now);
        (topology, effects)
    }

    /// Takes in what happened, and returns what is to be done.
    ///
    /// Inputs about servers that are not (or no longer) part of the topology mean nothing, and so
    /// do all inputs after [`Input::Close`].
    pub fn apply(&mut self, input: Input, now: Instant) -> Vec<Effect> {
        if self.closed {
            return Vec::new();
        }
        match input {
            Input::Heartbeat { address, outcome: Ok(checked) } => {
                self.check_succeeded(address, &checked, now)
            }
            Input::Heartbeat { address, outcome: Err(failure) } => {
                self.check_failed(address, failure, now)
            }
            Input::RoundTrip { address, sample } => self.measured(&address, sample),
            Input::OperationError { address, error } => self.operation_failed(address, error, now),
            Input::SrvHosts(hosts) => self.srv_hosts_found(&hosts, now),
            Input::NoSuitableServer => self.check_all(),
            Input::Close => self.close(),
        }
    }

    /// What is known of the deployment: what the latest [`Effect::Publish`] carried.
    pub fn description(&self) -> &Arc<TopologyDescription> {
        &self.description
    }

    /// The generation of a server's new connections (with a service id, of those to that service
    /// behind a load balancer); none if the server is not part of the topology.
    pub fn generation(&self, address: &ServerAddress, service_id: Option<ObjectId>) -> Option<u64> {
        self.servers.get(address).map(|server| server.generations.current(service_id))
    }

    /// Whether servers have monitors: all but a load balancer do.
    pub fn is_monitored(&self) -> bool {
        self.settings.connect != Connect::ToLoadBalancer
    }

    /// Has every server checked, since none suits an operation that waits.
    fn check_all(&self) -> Vec<Effect> {
        if !self.is_monitored() {
            return Vec::new();
        }
        self.servers.keys().cloned().map(Effect::CheckNow).collect()
    }

    /// Puts a newly described server in its place, and lets the kind of topology decide what that
    /// means.
    fn describe(
        &mut self,
        server: ServerDescription,
        mut follow_up: FollowUp,
        now: Instant,
    ) -> Vec<Effect> {
        let mut draft = self.draft(now);
        draft.replace(server.clone());
        match draft.topology.topology_type {
            TopologyType::Single => update::single(&mut draft, &server),
            TopologyType::Unknown => update::unknown(&mut draft, &server),
            TopologyType::Sharded => update::sharded(&mut draft, &server),
            TopologyType::ReplicaSetNoPrimary => update::no_primary(&mut draft, &server),
            TopologyType::ReplicaSetWithPrimary => update::with_primary(&mut draft, &server),
            // Its only server is described once, when it opens.
            TopologyType::LoadBalanced => return Vec::new(),
        }
        let usable = draft.topology.servers.get(&server.address).is_some_and(|server| {
            server.server_type.is_data_bearing()
                || (server.is_available() && draft.topology.topology_type == TopologyType::Single)
        });
        if usable && election::is_about_to_lead(&draft.topology, &server) {
            follow_up.elected = Some(server.address.clone());
        }
        follow_up.ready = usable.then_some(server.address);
        self.adopt(draft, follow_up)
    }

    fn draft(&self, now: Instant) -> Draft {
        let single_seed = self.settings.seeds.len() == 1;
        Draft::new(TopologyDescription::clone(&self.description), single_seed, now)
    }
}
