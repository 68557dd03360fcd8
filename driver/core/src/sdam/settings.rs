//! How a topology begins.

use bson::oid::ObjectId;

use crate::{address::ServerAddress, description::TopologyType};

/// What the application said of its deployment.
///
/// The three constructors are the three ways to connect; what cannot be combined (several seeds
/// with a direct connection, a replica set behind a load balancer) cannot be written.
#[derive(Clone, Debug)]
pub struct TopologySettings {
    pub(super) topology_id: ObjectId,
    pub(super) seeds: Vec<ServerAddress>,
    pub(super) replica_set: Option<String>,
    pub(super) connect: Connect,
    pub(super) srv_max_hosts: Option<usize>,
}

/// The three ways to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connect {
    Discovering,
    Directly,
    ToLoadBalancer,
}

impl TopologySettings {
    /// Finds out from the seeds what kind of deployment they belong to, and its other members.
    ///
    /// Without seeds the topology stays empty for ever.
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
        Self::new(topology_id, distinct, Connect::Discovering)
    }

    /// Talks to this one server, whatever it is (`directConnection=true`).
    pub fn direct(topology_id: ObjectId, server: ServerAddress) -> Self {
        Self::new(topology_id, vec![server], Connect::Directly)
    }

    /// Talks to a load balancer (`loadBalanced=true`). Nothing is monitored.
    pub fn load_balanced(topology_id: ObjectId, balancer: ServerAddress) -> Self {
        Self::new(topology_id, vec![balancer], Connect::ToLoadBalancer)
    }

    fn new(topology_id: ObjectId, seeds: Vec<ServerAddress>, connect: Connect) -> Self {
        Self { topology_id, seeds, replica_set: None, connect, srv_max_hosts: None }
    }

    /// Accepts members of this replica set only. Means nothing behind a load balancer.
    pub fn replica_set(mut self, name: Option<String>) -> Self {
        self.replica_set = name;
        self
    }

    /// Uses no more than this many of the hosts that DNS names; zero is no limit.
    pub fn srv_max_hosts(mut self, most: Option<usize>) -> Self {
        self.srv_max_hosts = most.filter(|&most| most > 0);
        self
    }

    /// The kind of topology to begin with.
    pub(super) fn initial_type(&self) -> TopologyType {
        match (self.connect, &self.replica_set) {
            (Connect::Directly, _) => TopologyType::Single,
            (Connect::ToLoadBalancer, _) => TopologyType::LoadBalanced,
            (Connect::Discovering, Some(_)) => TopologyType::ReplicaSetNoPrimary,
            (Connect::Discovering, None) => TopologyType::Unknown,
        }
    }

    /// The set name to begin with.
    pub(super) fn initial_set_name(&self) -> Option<String> {
        match self.connect {
            Connect::Discovering | Connect::Directly => self.replica_set.clone(),
            Connect::ToLoadBalancer => None,
        }
    }
}
