//! What is known of a deployment: one description per server, and one of the whole.
//!
//! Plain data. [`crate::sdam`] makes these from what servers say of themselves, and
//! [`crate::selection`] chooses by them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::{Duration, Instant},
};

use bson::{DateTime, oid::ObjectId};

use crate::address::ServerAddress;

/// The tags of a replica set member, or the tags a read preference asks for.
pub type TagSet = BTreeMap<String, String>;

/// What kind of server one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ServerType {
    /// A server of no replica set.
    Standalone,
    /// A router of a sharded cluster.
    Mongos,
    /// The primary of a replica set.
    RsPrimary,
    /// A secondary of a replica set.
    RsSecondary,
    /// A member that votes but holds no data.
    RsArbiter,
    /// A member that is starting up, recovering or hidden.
    RsOther,
    /// A member that has not been initiated yet, or was removed.
    RsGhost,
    /// Behind a load balancer, where the true type is not to be seen.
    LoadBalancer,
    /// Not reached yet, or not any more.
    #[default]
    Unknown,
}

impl ServerType {
    /// Whether the server holds data that can be read or written.
    pub fn is_data_bearing(self) -> bool {
        matches!(
            self,
            Self::Standalone
                | Self::Mongos
                | Self::RsPrimary
                | Self::RsSecondary
                | Self::LoadBalancer
        )
    }

    /// Whether writes may be sent to it.
    pub fn is_writable(self) -> bool {
        matches!(self, Self::Standalone | Self::Mongos | Self::RsPrimary | Self::LoadBalancer)
    }

    /// The name that the specifications and the log messages use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standalone => "Standalone",
            Self::Mongos => "Mongos",
            Self::RsPrimary => "RSPrimary",
            Self::RsSecondary => "RSSecondary",
            Self::RsArbiter => "RSArbiter",
            Self::RsOther => "RSOther",
            Self::RsGhost => "RSGhost",
            Self::LoadBalancer => "LoadBalancer",
            Self::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for ServerType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What kind of deployment the servers form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TopologyType {
    /// One server, connected to directly, whatever it is.
    Single,
    /// A replica set whose primary is not known.
    ReplicaSetNoPrimary,
    /// A replica set with a primary.
    ReplicaSetWithPrimary,
    /// A sharded cluster.
    Sharded,
    /// One load balancer in front of a sharded cluster.
    LoadBalanced,
    /// Not known yet.
    #[default]
    Unknown,
}

impl TopologyType {
    /// The name that the specifications and the log messages use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "Single",
            Self::ReplicaSetNoPrimary => "ReplicaSetNoPrimary",
            Self::ReplicaSetWithPrimary => "ReplicaSetWithPrimary",
            Self::Sharded => "Sharded",
            Self::LoadBalanced => "LoadBalanced",
            Self::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for TopologyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A server's own count of how often its state has changed, since its process started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopologyVersion {
    /// The server's process.
    pub process_id: ObjectId,
    /// Grows with every change.
    pub counter: i64,
}

impl TopologyVersion {
    /// Whether this is certainly older than `other`: the same process, and fewer changes.
    ///
    /// Counts of different processes cannot be compared; what arrives later is then taken to be
    /// the newer.
    pub fn is_older_than(self, other: Self) -> bool {
        self.process_id == other.process_id && self.counter < other.counter
    }
}

/// What is known of one server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerDescription {
    /// Where the client connects to.
    pub address: ServerAddress,
    /// What it is.
    pub server_type: ServerType,
    /// Why the server is [`ServerType::Unknown`], if an error was the reason.
    pub error: Option<String>,
    /// The moving average of its round trips.
    pub average_round_trip_time: Option<Duration>,
    /// The shortest of its recent round trips.
    pub min_round_trip_time: Option<Duration>,
    /// When this description was made.
    pub last_update_time: Option<Instant>,
    /// The server's own clock at its latest write.
    pub last_write_date: Option<DateTime>,
    /// The lowest wire version it speaks.
    pub min_wire_version: i32,
    /// The highest wire version it speaks.
    pub max_wire_version: i32,
    /// The address the server calls itself by.
    pub me: Option<ServerAddress>,
    /// Members that can become primary.
    pub hosts: Vec<ServerAddress>,
    /// Members with priority zero.
    pub passives: Vec<ServerAddress>,
    /// Members that hold no data.
    pub arbiters: Vec<ServerAddress>,
    /// Its tags.
    pub tags: TagSet,
    /// The name of its replica set.
    pub set_name: Option<String>,
    /// The version of its replica set's configuration.
    pub set_version: Option<i32>,
    /// The election that made it primary.
    pub election_id: Option<ObjectId>,
    /// Whom it takes for the primary.
    pub primary: Option<ServerAddress>,
    /// For how long the server remembers an unused session.
    pub logical_session_timeout: Option<Duration>,
    /// The server's own count of its changes.
    pub topology_version: Option<TopologyVersion>,
    /// The largest document it takes.
    pub max_bson_object_size: i32,
    /// The largest message it takes.
    pub max_message_size_bytes: i32,
    /// How many writes one command may hold.
    pub max_write_batch_size: i32,
    /// Whether the server said that it is a crypt daemon.
    pub iscryptd: bool,
}

impl ServerDescription {
    /// A server of which nothing is known.
    pub fn unknown(address: ServerAddress) -> Self {
        Self {
            address,
            server_type: ServerType::Unknown,
            error: None,
            average_round_trip_time: None,
            min_round_trip_time: None,
            last_update_time: None,
            last_write_date: None,
            min_wire_version: 0,
            max_wire_version: 0,
            me: None,
            hosts: Vec::new(),
            passives: Vec::new(),
            arbiters: Vec::new(),
            tags: TagSet::new(),
            set_name: None,
            set_version: None,
            election_id: None,
            primary: None,
            logical_session_timeout: None,
            topology_version: None,
            max_bson_object_size: 16 * 1024 * 1024,
            max_message_size_bytes: 48_000_000,
            max_write_batch_size: 100_000,
            iscryptd: false,
        }
    }

    /// A server that is not to be used, and why.
    pub fn unknown_because(address: ServerAddress, error: impl Into<String>, now: Instant) -> Self {
        Self { error: Some(error.into()), last_update_time: Some(now), ..Self::unknown(address) }
    }

    /// Whether anything is known of it.
    pub fn is_available(&self) -> bool {
        self.server_type != ServerType::Unknown
    }

    /// Every member of the replica set that this server knows of, arbiters included.
    pub fn members(&self) -> impl Iterator<Item = &ServerAddress> {
        self.hosts.iter().chain(&self.passives).chain(&self.arbiters)
    }

    /// Whether an application would see no difference to `other`.
    ///
    /// This is the specification's equality, which decides whether an event is published: round
    /// trips, the time of the check and the latest write do not count.
    pub fn is_equivalent_to(&self, other: &Self) -> bool {
        self.address == other.address
            && self.server_type == other.server_type
            && self.error == other.error
            && self.min_wire_version == other.min_wire_version
            && self.max_wire_version == other.max_wire_version
            && self.me == other.me
            && same_set(&self.hosts, &other.hosts)
            && same_set(&self.passives, &other.passives)
            && same_set(&self.arbiters, &other.arbiters)
            && self.tags == other.tags
            && self.set_name == other.set_name
            && self.set_version == other.set_version
            && self.election_id == other.election_id
            && self.primary == other.primary
            && self.logical_session_timeout == other.logical_session_timeout
            && self.topology_version == other.topology_version
            && self.iscryptd == other.iscryptd
    }
}

/// The order in which a server lists its fellow members says nothing.
fn same_set(left: &[ServerAddress], right: &[ServerAddress]) -> bool {
    left.iter().collect::<BTreeSet<_>>() == right.iter().collect::<BTreeSet<_>>()
}

/// What is known of a whole deployment.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TopologyDescription {
    /// What the servers form.
    pub topology_type: TopologyType,
    /// The replica set's name.
    pub set_name: Option<String>,
    /// The newest configuration that a primary has shown.
    pub max_set_version: Option<i32>,
    /// The newest election that a primary has shown.
    pub max_election_id: Option<ObjectId>,
    /// Why the client and the servers cannot work together.
    pub compatibility_error: Option<String>,
    /// The shortest session lifetime of the data-bearing servers; none if one has no sessions.
    pub logical_session_timeout: Option<Duration>,
    /// Every server, in order of address.
    pub servers: BTreeMap<ServerAddress, ServerDescription>,
}

impl TopologyDescription {
    /// The primary, if there is one.
    pub fn primary(&self) -> Option<&ServerDescription> {
        self.servers.values().find(|server| server.server_type == ServerType::RsPrimary)
    }

    /// Whether writes can be sent to a server of this deployment right now.
    pub fn has_writable_server(&self) -> bool {
        self.servers.values().any(|server| server.server_type.is_writable())
    }

    /// Whether an application would see no difference to `other`; see
    /// [`ServerDescription::is_equivalent_to`].
    pub fn is_equivalent_to(&self, other: &Self) -> bool {
        self.topology_type == other.topology_type
            && self.set_name == other.set_name
            && self.max_set_version == other.max_set_version
            && self.max_election_id == other.max_election_id
            && self.compatibility_error == other.compatibility_error
            && self.logical_session_timeout == other.logical_session_timeout
            && self.servers.len() == other.servers.len()
            && self.servers.iter().all(|(address, server)| {
                other.servers.get(address).is_some_and(|o| server.is_equivalent_to(o))
            })
    }
}
