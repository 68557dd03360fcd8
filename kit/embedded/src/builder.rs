//! Configuration of a deployment before it starts.

mod starter;

use std::{collections::BTreeMap, io, net::SocketAddr, ops::RangeFrom, time::Duration};

use bson::Document;

use self::starter::Starter;
use super::{
    clock::clamp_duration,
    deployment::{Deployment, escaped},
    faults::Faults,
    limiter::RateLimit,
};
use blackpipe_base::runtime::TaskRuntime;

/// Supported server versions and their `maxWireVersion`.
const VERSIONS: [(&str, i32); 7] =
    [("4.2", 8), ("4.4", 9), ("5.0", 13), ("6.0", 17), ("7.0", 21), ("8.0", 25), ("8.2", 27)];

/// Error that prevents a deployment from starting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Cannot listen on an address.
    #[error("cannot listen on {address}: {source}; choose other ports")]
    AddressUnavailable {
        /// The address.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The requested range has fewer free port numbers than the deployment has servers.
    #[error("not enough ports: the range ends at 65535")]
    PortsExhausted,
    /// The server version is not supported.
    #[error("unknown server version {0}; known versions: {known}", known = known_versions())]
    UnknownVersion(String),
    /// A replica set with no members.
    #[error("a replica set needs at least one member")]
    NoMembers,
    /// A replica set with more than 50 members, MongoDB's limit.
    #[error("a replica set has at most 50 members, not {0}")]
    TooManyMembers(usize),
    /// All members have priority 0, so none can become primary.
    #[error("all members have priority 0; at least one must be electable")]
    NoElectableMember,
    /// A sharded cluster without shards or mongos, or with two shards of one name.
    #[error("a sharded cluster needs shards with distinct names and at least one mongos")]
    InvalidCluster,
    /// A password that SCRAM does not allow.
    #[error("{0}")]
    InvalidPassword(String),
}

fn known_versions() -> String {
    let known = VERSIONS.map(|(version, wire_version)| format!("{version} (wire {wire_version})"));
    known.join(", ")
}

/// Builder of a [`Deployment`]. [`Deployment::standalone`], [`Deployment::replica_set`] and
/// [`Deployment::sharded`] create one.
///
/// ```
/// use std::time::Duration;
/// use steadfast_embedded::Deployment;
///
/// let set = Deployment::replica_set(3)
///     .version("7.0")
///     .auth("root", "secret")
///     .election_timeout(Duration::from_millis(200))
///     .start();
/// assert!(set.uri().starts_with("mongodb://root:secret@127.0.0.1:"));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    kind: DeploymentKind,
    version: String,
    ports: Option<u16>,
    users: Vec<(String, String)>,
    iterations: u32,
    seed: u64,
    election_timeout: Duration,
    priority_zero: Vec<usize>,
    tags: BTreeMap<String, Vec<Document>>,
    is_manual: bool,
    is_balancing: bool,
    is_load_balanced: bool,
    request_limit: Option<RateLimit>,
    is_in_thread: bool,
}

#[derive(Clone, Debug)]
enum DeploymentKind {
    Standalone,
    ReplicaSet { name: String, members: usize },
    Sharded { shards: Vec<String>, members: usize, mongos_count: usize },
}

impl Builder {
    fn new(kind: DeploymentKind) -> Self {
        Self {
            kind,
            version: "8.0".to_owned(),
            ports: None,
            users: Vec::new(),
            iterations: 4096,
            seed: 0,
            election_timeout: Duration::from_secs(1),
            priority_zero: Vec::new(),
            tags: BTreeMap::new(),
            is_manual: false,
            is_balancing: true,
            is_load_balanced: false,
            request_limit: None,
            is_in_thread: false,
        }
    }

    pub(super) fn standalone() -> Self {
        Self::new(DeploymentKind::Standalone)
    }

    pub(super) fn replica_set(members: usize) -> Self {
        Self::new(DeploymentKind::ReplicaSet { name: "rs0".to_owned(), members })
    }

    pub(super) fn sharded(shards: &[&str]) -> Self {
        let shards = shards.iter().map(|name| (*name).to_owned()).collect();
        Self::new(DeploymentKind::Sharded { shards, members: 3, mongos_count: 1 })
    }

    /// Sets the server version that the deployment emulates: `4.2`, `4.4`, `5.0`, `6.0`, `7.0`,
    /// `8.0` or `8.2`, with or without a patch number. Defaults to `8.0`.
    ///
    /// The version decides `maxWireVersion`, available commands and fields, error codes and labels.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Sets the server version by its `maxWireVersion`, such as 17 for `6.0`.
    pub fn wire_version(mut self, max_wire_version: i32) -> Self {
        let known = VERSIONS.iter().find(|(_, wire_version)| *wire_version == max_wire_version);
        self.version = match known {
            Some((version, _)) => (*version).to_owned(),
            // `start` reports the unknown version with the list of known ones.
            None => format!("with wire version {max_wire_version}"),
        };
        self
    }

    /// Sets the ports of the servers, in order. Defaults to ports that the operating system
    /// chooses.
    pub fn ports(mut self, ports: RangeFrom<u16>) -> Self {
        self.ports = Some(ports.start);
        self
    }

    /// Sets the name of the replica set (`setName`). Defaults to `rs0`.
    pub fn replica_set_name(mut self, replica_set_name: impl Into<String>) -> Self {
        if let DeploymentKind::ReplicaSet { name, .. } = &mut self.kind {
            *name = replica_set_name.into();
        }
        self
    }

    /// Sets the number of mongos of a sharded cluster. Defaults to 1.
    pub fn mongos_count(mut self, count: usize) -> Self {
        if let DeploymentKind::Sharded { mongos_count, .. } = &mut self.kind {
            *mongos_count = count;
        }
        self
    }

    /// Sets the number of members of each shard. Defaults to 3.
    pub fn members_per_shard(mut self, count: usize) -> Self {
        if let DeploymentKind::Sharded { members, .. } = &mut self.kind {
            *members = count;
        }
        self
    }

    /// Stops the balancer, as `balancerStop` does. Chunks move by `moveChunk` and
    /// [`Deployment::balance`](super::Deployment::balance) only.
    pub fn without_balancer(mut self) -> Self {
        self.is_balancing = false;
        self
    }

    /// Emulates a load balancer in front of a sharded cluster. `hello` has a `serviceId`, and the
    /// connection string names the first mongos with `loadBalanced=true`.
    pub fn load_balanced(mut self) -> Self {
        self.is_load_balanced = true;
        self
    }

    /// Requires authentication and adds a user with the role `root`. Can be called several times.
    pub fn auth(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.users.push((user.into(), password.into()));
        self
    }

    /// Sets the SCRAM iterations of passwords. Defaults to 4096, the minimum that drivers accept. A
    /// real server uses 15000 (`scramSHA256IterationCount`).
    pub fn scram_iterations(mut self, iterations: u32) -> Self {
        self.iterations = iterations;
        self
    }

    /// Sets the seed of the random number generator. The same seed yields the same random
    /// decisions. Defaults to 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the time without a primary after which members elect another one
    /// (`electionTimeoutMillis`). Defaults to one second.
    pub fn election_timeout(mut self, timeout: Duration) -> Self {
        self.election_timeout = clamp_duration(timeout);
        self
    }

    /// Gives members of a replica set, or of each shard, priority 0. They vote and hold data and
    /// never become primary, like the members of a secondary datacenter.
    pub fn priority_zero(mut self, members: impl IntoIterator<Item = usize>) -> Self {
        self.priority_zero = members.into_iter().collect();
        self
    }

    /// Sets the tags of the members of a replica set or shard, in their order. Members after the
    /// last tag document have none.
    ///
    /// ```
    /// use steadfast_embedded::Deployment;
    /// use bson::doc;
    ///
    /// let tags = ["alfa", "alfa", "bravo"].map(|name| doc! { "datacenter": name });
    /// let set = Deployment::replica_set(3).tags("rs0", tags).start();
    /// # drop(set);
    /// ```
    pub fn tags(mut self, set: &str, tags: impl IntoIterator<Item = Document>) -> Self {
        self.tags.insert(set.to_owned(), tags.into_iter().collect());
        self
    }

    /// Disables automatic elections. [`Faults::elect`](super::Faults::elect) still elects a member.
    pub fn manual_elections(mut self) -> Self {
        self.is_manual = true;
        self
    }

    /// Limits the requests per second of each server, as
    /// [`Faults::request_rate`](super::Faults::request_rate) does.
    pub fn request_rate(mut self, per_second: f64, burst: f64) -> Self {
        self.request_limit = Some(RateLimit::new(per_second, burst));
        self
    }

    /// Runs the servers in a thread of their own, even if the caller has a runtime. For tests that
    /// block their runtime.
    pub fn in_thread(mut self) -> Self {
        self.is_in_thread = true;
        self
    }

    /// Starts the deployment. It has a primary and accepts connections when this returns.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be started. [`try_start`](Self::try_start) returns the error instead.
    #[track_caller]
    pub fn start(self) -> Deployment {
        self.try_start()
            .unwrap_or_else(|error| panic!("cannot start the embedded deployment: {error}"))
    }

    /// Starts the deployment.
    ///
    /// ```
    /// use steadfast_embedded::{Deployment, StartError};
    ///
    /// let error = Deployment::standalone().version("3.6").try_start().unwrap_err();
    /// assert!(matches!(error, StartError::UnknownVersion(_)));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns a [`StartError`] if the configuration is invalid or a server cannot listen on its
    /// address.
    pub fn try_start(self) -> Result<Deployment, StartError> {
        let (version, max_wire_version) = self.known_version()?;
        let runtime = TaskRuntime::find(self.is_in_thread);
        let _context = runtime.handle.enter();
        let mut starter = Starter::new(&self, version.clone(), max_wire_version, &runtime)?;
        let (members, sets, shards, options) = match &self.kind {
            DeploymentKind::Standalone => {
                let (set, members) = starter.set(None, 1, false)?;
                (members, vec![set], Vec::new(), String::new())
            }
            DeploymentKind::ReplicaSet { name, members } => {
                let (set, members) = starter.set(Some(name), *members, false)?;
                (members, vec![set], Vec::new(), format!("replicaSet={}", escaped(name)))
            }
            DeploymentKind::Sharded { shards, members, mongos_count } => {
                let (mongos, shards) = starter.cluster(shards, *members, *mongos_count)?;
                let options = if self.is_load_balanced { "loadBalanced=true" } else { "" };
                (mongos, Vec::new(), shards, options.to_owned())
            }
        };
        let login = self.users.into_iter().next();
        let faults = Faults::new(&members, sets, &shards);
        Ok(Deployment {
            version,
            members,
            shards,
            faults,
            login,
            options,
            _runtime: runtime.clone(),
        })
    }

    fn known_version(&self) -> Result<(String, i32), StartError> {
        let unknown = || StartError::UnknownVersion(self.version.clone());
        let parts: Vec<&str> = self.version.split('.').collect();
        let (short, patch) = match parts[..] {
            [major, minor] => (format!("{major}.{minor}"), "0"),
            [major, minor, patch] if patch.parse::<u16>().is_ok() => {
                (format!("{major}.{minor}"), patch)
            }
            _ => return Err(unknown()),
        };
        let (_, wire) =
            VERSIONS.into_iter().find(|(known, _)| *known == short).ok_or_else(unknown)?;
        Ok((format!("{short}.{patch}"), wire))
    }
}
