//! Start of a deployment: reserves addresses, creates the servers and opens their listeners.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use bson::oid::ObjectId;

use super::{Builder, StartError};
use crate::{
    auth::users::Users,
    clock::Clock,
    deployment::{Member, Shard},
    faults::Faults,
    host::Host,
    mongos::{Cluster, ClusterConfig},
    net::Endpoint,
    server::Server,
    set::{ReplicaSet, SetConfig},
};
use blackpipe_base::{address::ReservedAddress, rng::Rng, runtime::TaskRuntime};

/// A deployment while it is started.
pub(super) struct Starter<'a> {
    builder: &'a Builder,
    version: String,
    max_wire_version: i32,
    runtime: &'a TaskRuntime,
    users: Arc<Users>,
    rng: Rng,
    /// Number of addresses that have been reserved.
    reserved_count: u16,
}

impl<'a> Starter<'a> {
    pub(super) fn new(
        builder: &'a Builder,
        version: String,
        max_wire_version: i32,
        runtime: &'a TaskRuntime,
    ) -> Result<Self, StartError> {
        let mut rng = Rng::new(builder.seed);
        let users = Users::new(rng.next_u64(), builder.iterations);
        for (user, password) in &builder.users {
            let added = users.add_root(user, password);
            added.map_err(|fault| StartError::InvalidPassword(fault.message))?;
        }
        let users = Arc::new(users);
        Ok(Self { builder, version, max_wire_version, runtime, users, rng, reserved_count: 0 })
    }

    /// Starts a replica set, or a standalone server if `name` is `None`.
    pub(super) fn set(
        &mut self,
        name: Option<&str>,
        count: usize,
        is_shard: bool,
    ) -> Result<(Arc<ReplicaSet>, Vec<Member>), StartError> {
        let addresses = self.reserve_addresses(count)?;
        let set = ReplicaSet::start(self.config(name, &addresses, is_shard), Clock::system());
        let members = self.members(&set, addresses)?;
        Ok((set, members))
    }

    /// Starts the mongos and the shards of a sharded cluster.
    pub(super) fn cluster(
        &mut self,
        names: &[String],
        members: usize,
        mongos_count: usize,
    ) -> Result<(Vec<Member>, Vec<Shard>), StartError> {
        let is_repeated = |name: &String| names.iter().filter(|other| *other == name).count() > 1;
        if names.is_empty() || mongos_count == 0 || names.iter().any(is_repeated) {
            return Err(StartError::InvalidCluster);
        }
        // Every mongos gets one of the first ports, because applications connect to these.
        let mongos_addresses = self.reserve_addresses(mongos_count)?;
        let shard_addresses =
            names.iter().map(|_| self.reserve_addresses(members)).collect::<Result<Vec<_>, _>>()?;
        let configs = names.iter().zip(&shard_addresses);
        let config = ClusterConfig {
            shards: configs
                .map(|(name, addresses)| self.config(Some(name), addresses, true))
                .collect(),
            version: self.version.clone(),
            max_wire_version: self.max_wire_version,
            seed: self.rng.next_u64(),
            balancing: self.builder.is_balancing,
        };
        let cluster = Cluster::start(config, Clock::system());
        let mut shards = Vec::new();
        for (shard, addresses) in cluster.shards().iter().zip(shard_addresses) {
            let members = self.members(&shard.set, addresses)?;
            let faults = Faults::new(&members, vec![shard.set.clone()], &[]);
            shards.push(Shard { name: shard.name.clone(), members, faults });
        }
        let mongos = mongos_addresses.into_iter().map(|reserved| {
            let host = Host::Mongos(cluster.mongos(reserved.address.to_string()));
            self.open(host, reserved)
        });
        Ok((mongos.collect::<Result<_, _>>()?, shards))
    }

    fn config(
        &mut self,
        name: Option<&str>,
        addresses: &[ReservedAddress],
        is_shard: bool,
    ) -> SetConfig {
        SetConfig {
            name: name.map(ToOwned::to_owned),
            addresses: addresses.iter().map(|reserved| reserved.address.to_string()).collect(),
            priority_zero: self.builder.priority_zero.clone(),
            tags: name.and_then(|name| self.builder.tags.get(name)).cloned().unwrap_or_default(),
            version: self.version.clone(),
            max_wire_version: self.max_wire_version,
            election_timeout: self.builder.election_timeout,
            seed: self.rng.next_u64(),
            is_shard,
        }
    }

    fn members(
        &mut self,
        set: &Arc<ReplicaSet>,
        addresses: Vec<ReservedAddress>,
    ) -> Result<Vec<Member>, StartError> {
        set.manual_elections(self.builder.is_manual);
        let hosts = Host::members(set).into_iter().zip(addresses);
        hosts.map(|(host, reserved)| self.open(host, reserved)).collect()
    }

    fn reserve_addresses(&mut self, count: usize) -> Result<Vec<ReservedAddress>, StartError> {
        match count {
            0 => Err(StartError::NoMembers),
            51.. => Err(StartError::TooManyMembers(count)),
            _ if (0..count).all(|it| self.builder.priority_zero.contains(&it)) => {
                Err(StartError::NoElectableMember)
            }
            _ => (0..count).map(|_| self.reserve_address()).collect(),
        }
    }

    fn reserve_address(&mut self) -> Result<ReservedAddress, StartError> {
        let port = match self.builder.ports {
            Some(first) => {
                first.checked_add(self.reserved_count).ok_or(StartError::PortsExhausted)?
            }
            None => 0,
        };
        self.reserved_count += 1;
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        ReservedAddress::reserve(address)
            .map_err(|source| StartError::AddressUnavailable { address, source })
    }

    fn open(&mut self, host: Host, reserved: ReservedAddress) -> Result<Member, StartError> {
        let is_balanced = self.builder.is_load_balanced && matches!(host, Host::Mongos(_));
        let needs_user = !self.builder.users.is_empty();
        let mut server = Server::new(host, self.users.clone(), needs_user, self.rng.next_u64());
        if is_balanced {
            server.service_id = Some(ObjectId::from_bytes([0; 12].map(|_: u8| self.rng.byte())));
        }
        if let Some(limit) = self.builder.request_limit {
            server.requests.set(limit);
        }
        let address = reserved.address;
        let endpoint = Endpoint::open(Arc::new(server), reserved, self.runtime.handle.clone());
        Ok(Member {
            endpoint: endpoint
                .map_err(|source| StartError::AddressUnavailable { address, source })?,
        })
    }
}
