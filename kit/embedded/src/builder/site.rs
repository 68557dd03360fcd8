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
    net::Door,
    router::{Cluster, ClusterConfig},
    server::Server,
    set::{ReplicaSet, SetConfig},
};
use blackpipe_base::{address::ReservedAddress, rng::Rng, runtime::TaskRuntime};

/// A deployment while it is started.
pub(super) struct Site<'a> {
    plan: &'a Builder,
    version: String,
    max_wire_version: i32,
    home: &'a TaskRuntime,
    users: Arc<Users>,
    rng: Rng,
    /// Number of addresses that have been reserved.
    seats: u16,
}

impl<'a> Site<'a> {
    pub(super) fn new(
        plan: &'a Builder,
        version: String,
        max_wire_version: i32,
        home: &'a TaskRuntime,
    ) -> Result<Self, StartError> {
        let mut rng = Rng::new(plan.seed);
        let users = Users::new(rng.next_u64(), plan.iterations);
        for (user, password) in &plan.users {
            let added = users.add_root(user, password);
            added.map_err(|fault| StartError::Password(fault.message))?;
        }
        let users = Arc::new(users);
        Ok(Self { plan, version, max_wire_version, home, users, rng, seats: 0 })
    }

    /// Starts a replica set, or a standalone server if `name` is `None`.
    pub(super) fn set(
        &mut self,
        name: Option<&str>,
        count: usize,
        is_shard: bool,
    ) -> Result<(Arc<ReplicaSet>, Vec<Member>), StartError> {
        let seats = self.seats(count)?;
        let set = ReplicaSet::start(self.config(name, &seats, is_shard), Clock::of_day());
        let members = self.members(&set, seats)?;
        Ok((set, members))
    }

    /// Starts the mongos and the shards of a sharded cluster.
    pub(super) fn cluster(
        &mut self,
        names: &[String],
        members: usize,
        routers: usize,
    ) -> Result<(Vec<Member>, Vec<Shard>), StartError> {
        let is_repeated = |name: &String| names.iter().filter(|other| *other == name).count() > 1;
        if names.is_empty() || routers == 0 || names.iter().any(is_repeated) {
            return Err(StartError::NoCluster);
        }
        // Every mongos gets one of the first ports, because applications connect to these.
        let router_seats = self.seats(routers)?;
        let shard_seats =
            names.iter().map(|_| self.seats(members)).collect::<Result<Vec<_>, _>>()?;
        let configs = names.iter().zip(&shard_seats);
        let config = ClusterConfig {
            shards: configs.map(|(name, seats)| self.config(Some(name), seats, true)).collect(),
            version: self.version.clone(),
            max_wire_version: self.max_wire_version,
            seed: self.rng.next_u64(),
            balancing: self.plan.is_balancing,
        };
        let cluster = Cluster::start(config, Clock::of_day());
        let mut shards = Vec::new();
        for (shard, seats) in cluster.shards().iter().zip(shard_seats) {
            let members = self.members(&shard.set, seats)?;
            let faults = Faults::new(&members, vec![shard.set.clone()], &[]);
            shards.push(Shard { name: shard.name.clone(), members, faults });
        }
        let routers = router_seats.into_iter().map(|seat| {
            let router = cluster.router(seat.address.to_string());
            self.open(Host::Router(router), seat)
        });
        Ok((routers.collect::<Result<_, _>>()?, shards))
    }

    fn config(
        &mut self,
        name: Option<&str>,
        seats: &[ReservedAddress],
        is_shard: bool,
    ) -> SetConfig {
        SetConfig {
            name: name.map(ToOwned::to_owned),
            addresses: seats.iter().map(|seat| seat.address.to_string()).collect(),
            priority_zero: self.plan.priority_zero.clone(),
            tags: name.and_then(|name| self.plan.tags.get(name)).cloned().unwrap_or_default(),
            version: self.version.clone(),
            max_wire_version: self.max_wire_version,
            election_timeout: self.plan.election_timeout,
            seed: self.rng.next_u64(),
            is_shard,
        }
    }

    fn members(
        &mut self,
        set: &Arc<ReplicaSet>,
        seats: Vec<ReservedAddress>,
    ) -> Result<Vec<Member>, StartError> {
        set.manual_elections(self.plan.is_manual);
        let hosts = Host::members(set).into_iter().zip(seats);
        hosts.map(|(host, seat)| self.open(host, seat)).collect()
    }

    fn seats(&mut self, count: usize) -> Result<Vec<ReservedAddress>, StartError> {
        match count {
            0 => Err(StartError::NoMembers),
            51.. => Err(StartError::TooManyMembers(count)),
            _ if (0..count).all(|it| self.plan.priority_zero.contains(&it)) => {
                Err(StartError::NobodyElectable)
            }
            _ => (0..count).map(|_| self.seat()).collect(),
        }
    }

    fn seat(&mut self) -> Result<ReservedAddress, StartError> {
        let port = match self.plan.ports {
            Some(first) => first.checked_add(self.seats).ok_or(StartError::NoMorePorts)?,
            None => 0,
        };
        self.seats += 1;
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        ReservedAddress::reserve(address).map_err(|source| StartError::Address { address, source })
    }

    fn open(&mut self, host: Host, seat: ReservedAddress) -> Result<Member, StartError> {
        let is_balanced = self.plan.is_load_balanced && matches!(host, Host::Router(_));
        let needs_user = !self.plan.users.is_empty();
        let mut server = Server::new(host, self.users.clone(), needs_user, self.rng.next_u64());
        if is_balanced {
            server.service_id = Some(ObjectId::from_bytes([0; 12].map(|_: u8| self.rng.byte())));
        }
        if let Some(limit) = self.plan.request_limit {
            server.requests.set(limit);
        }
        let address = seat.address;
        let door = Door::open(Arc::new(server), seat, self.home.handle.clone());
        Ok(Member { door: door.map_err(|source| StartError::Address { address, source })? })
    }
}
