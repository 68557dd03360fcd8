//! Settings of a topology.

use bson::oid::ObjectId;

use crate::{address::ServerAddress, description::TopologyType};

/// Settings of a topology.
///
/// The constructors correspond to the ways to connect. Contradictory settings, such as several
/// seeds with a direct connection, cannot be expressed.
#[derive(Clone, Debug)]
pub struct TopologySettings {
    pub(super) topology_id: ObjectId,
    pub(super) seeds: Vec<ServerAddress>,
    pub(super) replica_set: Option<String>,
    pub(super) connect: ConnectMode,
    pub(super) srv_max_hosts: Option<usize>,
}

/// Way to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectMode {
    Discover,
    Direct,
    LoadBalanced,
}

impl TopologySettings {
    /// Discovers the topology type and the other members from the seeds.
    ///
    /// Without seeds the topology stays empty.
    pub fn discovering(
        topology_id: ObjectId,
        seeds: impl IntoIterator<Item = ServerAddress>,
    ) -> Self {
        let mut distinct: Vec<ServerAddress> = Vec::new();
        for seed in seeds {
            if !distinct.contains(&seed) {
                distinct.push(seed);
            }
        }
        Self::new(topology_id, distinct, ConnectMode::Discover)
    }

    /// Connects to a single server of any type (`directConnection=true`).
    pub fn direct(topology_id: ObjectId, server: ServerAddress) -> Self {
        Self::new(topology_id, vec![server], ConnectMode::Direct)
    }

    /// Connects to a load balancer (`loadBalanced=true`), without monitoring.
    pub fn load_balanced(topology_id: ObjectId, balancer: ServerAddress) -> Self {
        Self::new(topology_id, vec![balancer], ConnectMode::LoadBalanced)
    }

    fn new(topology_id: ObjectId, seeds: Vec<ServerAddress>, connect: ConnectMode) -> Self {
        Self { topology_id, seeds, replica_set: None, connect, srv_max_hosts: None }
    }

    /// Requires this replica set name (`replicaSet`). Has no effect behind a load balancer.
    pub fn replica_set(mut self, name: Option<String>) -> Self {
        self.replica_set = name;
        self
    }

    /// Limits the number of hosts from SRV records (`srvMaxHosts`). Zero means no limit.
    pub fn srv_max_hosts(mut self, most: Option<usize>) -> Self {
        self.srv_max_hosts = most.filter(|&most| most > 0);
        self
    }

    /// Returns the initial topology type.
    pub(super) fn initial_type(&self) -> TopologyType {
        match (self.connect, &self.replica_set) {
            (ConnectMode::Direct, _) => TopologyType::Single,
            (ConnectMode::LoadBalanced, _) => TopologyType::LoadBalanced,
            (ConnectMode::Discover, Some(_)) => TopologyType::ReplicaSetNoPrimary,
            (ConnectMode::Discover, None) => TopologyType::Unknown,
        }
    }

    /// Returns the initial replica set name.
    pub(super) fn initial_set_name(&self) -> Option<String> {
        match self.connect {
            ConnectMode::Discover | ConnectMode::Direct => self.replica_set.clone(),
            ConnectMode::LoadBalanced => None,
        }
    }
}
