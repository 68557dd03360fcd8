//! What was found out about a deployment, before anything is concluded from it.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use steadfast::{
    ServerType,
    bson::DateTime,
    options::{ConnectionString, ServerAddress},
};

/// All that a diagnosis rests on.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// What the connection string says.
    pub(super) uri: ConnectionString,
    /// The hosts that it names, or that DNS names for it.
    pub(super) seeds: Vec<ServerAddress>,
    /// What the servers form.
    pub(super) kind: Kind,
    /// The servers that belong to the deployment, in order of address.
    pub(super) servers: Vec<Server>,
    /// Seeds that answered and are not used: the deployment does not know them by that name.
    pub(super) left_out: Vec<Server>,
    /// Why the deployment cannot be used, if so.
    pub(super) failure: Option<Failure>,
    /// Who the client is to the servers.
    pub(super) login: Login,
    /// The members in the replica set's configuration, if it could be read.
    pub(super) members: Option<Vec<Member>>,
    /// The shards of a cluster, if they could be read.
    pub(super) shards: Option<Vec<Shard>>,
    /// Error of a command that needs the config servers and every shard. `None` if it succeeded or was not allowed.
    pub(super) cluster_error: Option<String>,
    /// What the data is stored with, if it could be read.
    pub(super) storage_engine: Option<String>,
    /// For each `mongod` that was asked, or each shard that could not be: its name and the answer.
    pub(super) record_lifetimes: Vec<(String, RecordLifetime)>,
    /// How long servers were looked for at most.
    pub(super) patience: Duration,
}

/// What servers form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Standalone,
    ReplicaSet,
    Sharded,
    LoadBalanced,
    /// Nobody answered.
    Unknown,
}

impl Kind {
    /// As programs read it.
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

/// One server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Server {
    pub(super) address: ServerAddress,
    pub(super) server_type: ServerType,
    /// Why it is not known what it is.
    pub(super) error: Option<String>,
    pub(super) version: Option<String>,
    pub(super) max_wire_version: Option<i32>,
    pub(super) set_name: Option<String>,
    pub(super) tags: BTreeMap<String, String>,
    /// How long it remembers a session.
    pub(super) session_timeout: Option<Duration>,
    /// When it last wrote, by the primary's clock.
    pub(super) last_write: Option<DateTime>,
    /// The compressors that it and the client have in common.
    pub(super) compressors: Vec<String>,
    /// How long pings took, the shortest first.
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

    /// What it is, in a word.
    pub(super) fn role(&self) -> &'static str {
        match self.server_type {
            ServerType::Standalone => "standalone",
            ServerType::Mongos => "mongos",
            ServerType::RsPrimary => "primary",
            ServerType::RsSecondary => "secondary",
            ServerType::RsArbiter => "arbiter",
            ServerType::RsOther => "not ready",
            ServerType::RsGhost => "no member",
            ServerType::LoadBalancer => "load balancer",
            ServerType::Unknown => "unreachable",
            _ => "unknown",
        }
    }
}

/// How far a server's clock is before this machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    /// In milliseconds; negative if it is behind.
    pub(super) ahead_ms: i64,
    /// How wrong that may be: the time that the question took.
    pub(super) uncertainty: Duration,
}

impl Clock {
    /// From when the question was sent by this machine's clock, how long it took, and the answer.
    pub(super) fn read(asked: SystemTime, took: Duration, answer: DateTime) -> Self {
        let middle = asked + took / 2;
        let ours = middle.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let ours = i64::try_from(ours).unwrap_or(i64::MAX);
        Self { ahead_ms: answer.timestamp_millis().saturating_sub(ours), uncertainty: took / 2 }
    }

    /// By how much it differs for certain.
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
    /// The server could not be asked, or does not have the parameter.
    NotRead(String),
}

/// Why a deployment cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Failure {
    /// The name of a `mongodb+srv` connection string was not resolved.
    Dns(String),
    /// Encryption cannot even be tried.
    Tls(String),
    /// The login was refused.
    Login(String),
    /// Nothing that takes writes was found.
    NoServer(String),
    /// A server and this driver have no protocol in common.
    Incompatible(String),
    Other(String),
}

/// Who the client is to the servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Login {
    /// Those logged in, as `user@database`.
    pub(super) users: Vec<String>,
    /// Their roles, as `role@database`.
    pub(super) roles: Vec<String>,
    /// Whether servers ask for a login, if that could be told.
    pub(super) required: Option<bool>,
}

/// A member in a replica set's configuration.
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
    /// Its members, as they answered without a mongos. Empty if they were not asked.
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
    /// Neither of both: it starts, recovers or votes only.
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
    /// Nothing but what the connection string says.
    pub(super) fn before(uri: ConnectionString, patience: Duration) -> Self {
        Self {
            uri,
            seeds: Vec::new(),
            kind: Kind::Unknown,
            servers: Vec::new(),
            left_out: Vec::new(),
            failure: None,
            login: Login::default(),
            members: None,
            shards: None,
            cluster_error: None,
            storage_engine: None,
            record_lifetimes: Vec::new(),
            patience,
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

    /// The name of the replica set that answered.
    pub(super) fn set_name(&self) -> Option<&str> {
        self.servers.iter().find_map(|server| server.set_name.as_deref())
    }

    /// Whether only the one given server is talked to, though it is a member of a set.
    pub(super) fn is_direct(&self) -> bool {
        self.uri.direct_connection == Some(true)
    }

    /// How far a secondary is behind the primary.
    pub(super) fn lag(&self, server: &Server) -> Option<Duration> {
        if server.server_type != ServerType::RsSecondary {
            return None;
        }
        let newest = self.primary()?.last_write?.timestamp_millis();
        let behind = newest.saturating_sub(server.last_write?.timestamp_millis()).max(0);
        Some(Duration::from_millis(behind.unsigned_abs()))
    }

    /// Whether all servers are on this machine.
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
