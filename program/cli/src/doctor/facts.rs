//! Facts of a deployment: the input of the diagnosis.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use steadfast::{
    ServerType,
    bson::DateTime,
    options::{ConnectionString, ServerAddress},
};
use steadfast_report::quantiles::quantile;

/// Facts of a deployment.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Connection string.
    pub(super) uri: ConnectionString,
    /// Hosts of the connection string, or of its DNS records.
    pub(super) seeds: Vec<ServerAddress>,
    /// Kind of the deployment.
    pub(super) kind: DeploymentKind,
    /// Servers of the deployment, in order of address.
    pub(super) servers: Vec<Server>,
    /// Seeds that replied but are not in use: the deployment has no member of that name.
    pub(super) left_out: Vec<Server>,
    /// Reason why the deployment cannot be used.
    pub(super) failure: Option<DeploymentFailure>,
    /// Authentication of the client.
    pub(super) login: AuthInfo,
    /// Members in the configuration of the replica set. `None` if it could not be read.
    pub(super) members: Option<Vec<Member>>,
    /// Shards of a cluster. `None` if they could not be read.
    pub(super) shards: Option<Vec<Shard>>,
    /// Error of a command that needs the config servers and every shard. `None` if it succeeded or was not allowed.
    pub(super) cluster_error: Option<String>,
    /// Storage engine. `None` if it could not be read.
    pub(super) storage_engine: Option<String>,
    /// Record lifetime by name of the `mongod`, or of a shard that could not be reached.
    pub(super) record_lifetimes: Vec<(String, RecordLifetime)>,
    /// Timeout of server selection.
    pub(super) selection_timeout: Duration,
}

/// Kind of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeploymentKind {
    Standalone,
    ReplicaSet,
    Sharded,
    LoadBalanced,
    /// No server replied.
    Unknown,
}

impl DeploymentKind {
    /// Returns the name in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::ReplicaSet => "replica set",
            Self::Sharded => "sharded cluster",
            Self::LoadBalanced => "load balanced",
            Self::Unknown => "unknown",
        }
    }
}

/// A server of the deployment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Server {
    pub(super) address: ServerAddress,
    pub(super) server_type: ServerType,
    /// Error of the last heartbeat.
    pub(super) error: Option<String>,
    pub(super) version: Option<String>,
    pub(super) max_wire_version: Option<i32>,
    pub(super) set_name: Option<String>,
    pub(super) tags: BTreeMap<String, String>,
    /// Session timeout (`logicalSessionTimeoutMinutes`).
    pub(super) session_timeout: Option<Duration>,
    /// Time of the last write, by the clock of the primary.
    pub(super) last_write: Option<DateTime>,
    /// Compressors that both the server and the client support.
    pub(super) compressors: Vec<String>,
    /// Durations of pings in ascending order.
    pub(super) round_trips: Vec<Duration>,
    pub(super) clock: Option<Clock>,
}

impl Server {
    pub(super) fn unknown(address: ServerAddress) -> Self {
        Self {
            address,
            server_type: ServerType::Unknown,
            error: None,
            version: None,
            max_wire_version: None,
            set_name: None,
            tags: BTreeMap::new(),
            session_timeout: None,
            last_write: None,
            compressors: Vec::new(),
            round_trips: Vec::new(),
            clock: None,
        }
    }

    pub(super) fn is_reached(&self) -> bool {
        self.server_type != ServerType::Unknown
    }

    /// Returns the median of the round trips.
    pub(super) fn median(&self) -> Option<Duration> {
        quantile(&self.round_trips, 500)
    }

    pub(super) fn worst(&self) -> Option<Duration> {
        self.round_trips.last().copied()
    }

    /// Returns the role for the table.
    pub(super) fn role(&self) -> &'static str {
        match self.server_type {
            ServerType::Standalone => "standalone",
            ServerType::Mongos => "mongos",
            ServerType::RsPrimary => "primary",
            ServerType::RsSecondary => "secondary",
            ServerType::RsArbiter => "arbiter",
            ServerType::RsOther => "not ready",
            ServerType::RsGhost => "uninitiated",
            ServerType::LoadBalancer => "load balancer",
            ServerType::Unknown => "unreachable",
            _ => "unknown",
        }
    }
}

/// Difference between the clocks of a server and of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    /// Milliseconds by which the server is ahead; negative if it is behind.
    pub(super) ahead_ms: i64,
    /// Maximum error of the difference: half of the round trip.
    pub(super) uncertainty: Duration,
}

impl Clock {
    /// Calculates the difference from the time of a request, its round trip, and the reply.
    pub(super) fn read(sent: SystemTime, took: Duration, reply: DateTime) -> Self {
        let middle = sent + took / 2;
        let ours = middle.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let ours = i64::try_from(ours).unwrap_or(i64::MAX);
        Self { ahead_ms: reply.timestamp_millis().saturating_sub(ours), uncertainty: took / 2 }
    }

    /// Returns the difference that is certain.
    pub(super) fn off_by(self) -> Duration {
        Duration::from_millis(self.ahead_ms.unsigned_abs()).saturating_sub(self.uncertainty)
    }
}

/// Minimum lifetime of the record of a retryable write (`TransactionRecordMinimumLifetimeMinutes`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecordLifetime {
    Known(Duration),
    /// The user may not run `getParameter`.
    Denied,
    /// The server was not reached, or does not have the parameter.
    NotRead(String),
}

/// Reason why a deployment cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DeploymentFailure {
    /// The name of a `mongodb+srv` connection string was not resolved.
    Dns(String),
    /// TLS could not be configured.
    Tls(String),
    /// Authentication failed.
    Authentication(String),
    /// No server that accepts writes was selected.
    NoServer(String),
    /// The wire versions of a server and the driver do not overlap.
    Incompatible(String),
    Other(String),
}

/// Authentication of the client.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AuthInfo {
    /// Authenticated users, as `user@database`.
    pub(super) users: Vec<String>,
    /// Roles of the users, as `role@database`.
    pub(super) roles: Vec<String>,
    /// True if servers require authentication. `None` if that is unknown.
    pub(super) required: Option<bool>,
}

/// A member in the configuration of a replica set.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) host: String,
    pub(super) votes: bool,
    pub(super) arbiter: bool,
    pub(super) hidden: bool,
}

/// A shard of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shard {
    pub(super) name: String,
    pub(super) host: String,
    pub(super) draining: bool,
    /// Members with their replies to a direct connection. Empty if there were none.
    pub(super) members: Vec<ShardMember>,
}

impl Shard {
    pub(super) fn reached(&self) -> impl Iterator<Item = &ShardMember> {
        self.members.iter().filter(|member| member.state.is_reached())
    }

    /// Returns true if a member is primary, or names one.
    pub(super) fn has_primary(&self) -> bool {
        self.members.iter().any(|member| match member.state {
            MemberState::Primary => true,
            MemberState::Secondary { knows_primary } => knows_primary,
            MemberState::Other | MemberState::Unreached(_) => false,
        })
    }
}

/// Member of a shard.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ShardMember {
    pub(super) host: String,
    pub(super) state: MemberState,
}

/// State of a shard's member.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MemberState {
    Primary,
    Secondary {
        /// Its reply to `hello` names a primary.
        knows_primary: bool,
    },
    /// A member that starts, recovers or is an arbiter.
    Other,
    Unreached(String),
}

impl MemberState {
    pub(super) fn is_reached(&self) -> bool {
        !matches!(self, Self::Unreached(_))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary { .. } => "secondary",
            Self::Other => "neither primary nor secondary",
            Self::Unreached(_) => "unreachable",
        }
    }
}

impl Facts {
    /// Returns facts without servers.
    pub(super) fn before(uri: ConnectionString, selection_timeout: Duration) -> Self {
        Self {
            uri,
            seeds: Vec::new(),
            kind: DeploymentKind::Unknown,
            servers: Vec::new(),
            left_out: Vec::new(),
            failure: None,
            login: AuthInfo::default(),
            members: None,
            shards: None,
            cluster_error: None,
            storage_engine: None,
            record_lifetimes: Vec::new(),
            selection_timeout,
        }
    }

    pub(super) fn reached(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(|server| server.is_reached())
    }

    pub(super) fn of_type(&self, wanted: ServerType) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(move |server| server.server_type == wanted)
    }

    pub(super) fn primary(&self) -> Option<&Server> {
        self.of_type(ServerType::RsPrimary).next()
    }

    /// Returns the name of the replica set.
    pub(super) fn set_name(&self) -> Option<&str> {
        self.servers.iter().find_map(|server| server.set_name.as_deref())
    }

    /// Returns true for a direct connection (`directConnection`).
    pub(super) fn is_direct(&self) -> bool {
        self.uri.direct_connection == Some(true)
    }

    /// Returns the replication lag of a secondary.
    pub(super) fn lag(&self, server: &Server) -> Option<Duration> {
        if server.server_type != ServerType::RsSecondary {
            return None;
        }
        let newest = self.primary()?.last_write?.timestamp_millis();
        let behind = newest.saturating_sub(server.last_write?.timestamp_millis()).max(0);
        Some(Duration::from_millis(behind.unsigned_abs()))
    }

    /// Returns true if all servers are on this machine.
    pub(super) fn is_local(&self) -> bool {
        let mut addresses = self.seeds.iter().chain(self.servers.iter().map(|it| &it.address));
        addresses.all(is_loopback)
    }
}

fn is_loopback(address: &ServerAddress) -> bool {
    match address {
        ServerAddress::Unix { .. } => true,
        _ => {
            let host = address.host();
            host == "localhost"
                || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}
