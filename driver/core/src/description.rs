//! Server descriptions and topology descriptions.
//!
//! Plain data: [`crate::sdam`] creates them from `hello` replies, and [`crate::selection`] reads
//! them.

mod accessors;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::{Duration, Instant},
};

use bson::{DateTime, oid::ObjectId};
use serde::{Deserialize, Serialize};

use crate::address::ServerAddress;

/// Tags of a replica set member, or tags that a read preference requires.
pub type TagSet = BTreeMap<String, String>;

/// Type of a server, as defined by server discovery and monitoring.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[non_exhaustive]
pub enum ServerType {
    /// A server without a replica set.
    Standalone,
    /// A mongos of a sharded cluster.
    Mongos,
    /// The primary of a replica set.
    #[serde(rename = "RSPrimary")]
    RsPrimary,
    /// A secondary of a replica set.
    #[serde(rename = "RSSecondary")]
    RsSecondary,
    /// An arbiter: a member that votes, but holds no data.
    #[serde(rename = "RSArbiter")]
    RsArbiter,
    /// A member in another state: starting up, recovering or hidden.
    #[serde(rename = "RSOther")]
    RsOther,
    /// A member that is not initiated, or was removed from its replica set.
    #[serde(rename = "RSGhost")]
    RsGhost,
    /// A server behind a load balancer. Its actual type is hidden.
    LoadBalancer,
    /// A server without a successful check.
    #[default]
    #[serde(alias = "PossiblePrimary")]
    Unknown,
}

impl ServerType {
    /// Returns `true` if the server holds data or routes to servers that do.
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

    /// Returns `true` if the server accepts writes.
    pub fn is_writable(self) -> bool {
        matches!(self, Self::Standalone | Self::Mongos | Self::RsPrimary | Self::LoadBalancer)
    }

    /// Returns the name used by the specifications and in log messages.
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

/// Type of a topology, as defined by server discovery and monitoring.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[non_exhaustive]
pub enum TopologyType {
    /// A single server with a direct connection, whatever its type.
    Single,
    /// A replica set without a known primary.
    ReplicaSetNoPrimary,
    /// A replica set with a primary.
    ReplicaSetWithPrimary,
    /// A sharded cluster.
    Sharded,
    /// One load balancer in front of a sharded cluster.
    LoadBalanced,
    /// Not determined yet.
    #[default]
    Unknown,
}

impl TopologyType {
    /// Returns the name used by the specifications and in log messages.
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

/// Version of a server's state (`topologyVersion`): a counter that the server process increments
/// with every state change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyVersion {
    /// Id of the server process (`processId`).
    pub process_id: ObjectId,
    /// Number of state changes (`counter`).
    pub counter: i64,
}

impl TopologyVersion {
    /// Returns `true` if both versions are of one process and this one has the lower counter.
    ///
    /// Versions of different processes are not comparable. The one received later is assumed to be
    /// newer.
    pub fn is_older_than(self, other: Self) -> bool {
        self.process_id == other.process_id && self.counter < other.counter
    }
}

/// State of one server, from its latest `hello` reply or error.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerDescription {
    /// Address that the client connects to.
    pub address: ServerAddress,
    /// Type of the server.
    pub server_type: ServerType,
    /// Error of the check, if the server is [`ServerType::Unknown`] because of one.
    pub error: Option<String>,
    /// Moving average of the round trip times.
    pub average_round_trip_time: Option<Duration>,
    /// Minimum of the recent round trip times.
    pub min_round_trip_time: Option<Duration>,
    /// Time of this description. Not serialized, because it has no meaning in another process.
    #[serde(skip)]
    pub last_update_time: Option<Instant>,
    /// Wall clock time of the server's latest write (`lastWrite.lastWriteDate`).
    pub last_write_date: Option<DateTime>,
    /// Minimum wire version (`minWireVersion`).
    pub min_wire_version: i32,
    /// Maximum wire version (`maxWireVersion`).
    pub max_wire_version: i32,
    /// Address of the server in its replica set configuration (`me`).
    pub me: Option<ServerAddress>,
    /// Members that can become primary (`hosts`).
    pub hosts: Vec<ServerAddress>,
    /// Members with priority 0 (`passives`).
    pub passives: Vec<ServerAddress>,
    /// Arbiters (`arbiters`).
    pub arbiters: Vec<ServerAddress>,
    /// Tags of the member (`tags`).
    pub tags: TagSet,
    /// Name of the replica set (`setName`).
    pub set_name: Option<String>,
    /// Version of the replica set configuration (`setVersion`).
    pub set_version: Option<i32>,
    /// Id of the election that made the server primary (`electionId`).
    pub election_id: Option<ObjectId>,
    /// Address of the primary, as reported by this member (`primary`).
    pub primary: Option<ServerAddress>,
    /// Lifetime of an unused session (`logicalSessionTimeoutMinutes`).
    pub logical_session_timeout: Option<Duration>,
    /// Version of the server's state (`topologyVersion`).
    pub topology_version: Option<TopologyVersion>,
    /// Maximum size of a document in bytes (`maxBsonObjectSize`).
    pub max_bson_object_size: i32,
    /// Maximum size of a message in bytes (`maxMessageSizeBytes`).
    pub max_message_size_bytes: i32,
    /// Maximum number of writes in one command (`maxWriteBatchSize`).
    pub max_write_batch_size: i32,
    /// `true` for a mongocryptd process (`iscryptd`).
    pub iscryptd: bool,
}

impl ServerDescription {
    /// Creates the description of a server that has not been checked.
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

    /// Creates the description of an unknown server with its error.
    pub fn unknown_because(address: ServerAddress, error: impl Into<String>, now: Instant) -> Self {
        Self { error: Some(error.into()), last_update_time: Some(now), ..Self::unknown(address) }
    }

    /// Returns `true` unless the server is of type Unknown.
    pub fn is_available(&self) -> bool {
        self.server_type != ServerType::Unknown
    }

    /// Iterates over all members that this server reports, arbiters included.
    pub fn members(&self) -> impl Iterator<Item = &ServerAddress> {
        self.hosts.iter().chain(&self.passives).chain(&self.arbiters)
    }

    /// Returns `true` if the descriptions are equal by the rules of the specification.
    ///
    /// A change of an equal description publishes no event. Round trip times, `lastUpdateTime` and
    /// `lastWriteDate` are not compared.
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

/// Compares two lists of addresses without regard to their order.
fn same_set(left: &[ServerAddress], right: &[ServerAddress]) -> bool {
    left.iter().collect::<BTreeSet<_>>() == right.iter().collect::<BTreeSet<_>>()
}

/// State of the whole deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TopologyDescription {
    /// Type of the topology.
    pub topology_type: TopologyType,
    /// Name of the replica set.
    pub set_name: Option<String>,
    /// Highest `setVersion` of a primary.
    pub max_set_version: Option<i32>,
    /// Highest `electionId` of a primary.
    pub max_election_id: Option<ObjectId>,
    /// Error if the wire versions of a server are not supported by this driver.
    pub compatibility_error: Option<String>,
    /// Shortest session lifetime of the data-bearing servers. `None` if one of them does not
    /// support sessions.
    pub logical_session_timeout: Option<Duration>,
    /// All servers, ordered by address.
    pub servers: BTreeMap<ServerAddress, ServerDescription>,
}

impl TopologyDescription {
    /// Returns the primary.
    pub fn primary(&self) -> Option<&ServerDescription> {
        self.servers.values().find(|server| server.server_type == ServerType::RsPrimary)
    }

    /// Returns `true` if a server of the deployment accepts writes.
    pub fn has_writable_server(&self) -> bool {
        self.servers.values().any(|server| server.server_type.is_writable())
    }

    /// Returns `true` if the descriptions are equal by the rules of the specification; see
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
