//! How a deployment is to be.

mod site;

use std::{collections::BTreeMap, io, net::SocketAddr, ops::RangeFrom, time::Duration};

use bson::Document;

use self::site::Site;
use super::{
    clock::at_most_a_century,
    deployment::{Deployment, escaped},
    faults::Faults,
    limiter::Limit,
};
use blackpipe_base::runtime::TaskRuntime;

/// The versions that a deployment can pass for, and what each says of the wire protocol.
const VERSIONS: [(&str, i32); 7] =
    [("4.2", 8), ("4.4", 9), ("5.0", 13), ("6.0", 17), ("7.0", 21), ("8.0", 25), ("8.2", 27)];

/// Why a deployment could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address is not to be had, mostly because another program listens there.
    #[error("{address} cannot be listened on: {source}")]
    Address {
        /// Which one.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// There are not as many ports.
    #[error("there are no ports after 65535")]
    NoMorePorts,
    /// It can pass for no such version.
    #[error("version {0} is not known; {known} are", known = known_versions())]
    Version(String),
    /// A replica set has no members.
    #[error("a replica set of no members cannot be started")]
    NoMembers,
    /// A replica set has more members than MongoDB allows.
    #[error("a replica set of {0} members cannot be started: 50 are the most")]
    TooManyMembers(usize),
    /// All members have priority 0.
    #[error("a replica set in which all members have priority 0 never has a primary")]
    NobodyElectable,
    /// A cluster has no shards, two of one name, or no routers.
    #[error("a sharded cluster needs shards with names of their own, and at least one router")]
    NoCluster,
    /// A password cannot be one.
    #[error("{0}")]
    Password(String),
}

fn known_versions() -> String {
    let known = VERSIONS.map(|(version, wire_version)| format!("{version} (wire {wire_version})"));
    known.join(", ")
}

/// A deployment yet to be started. [`Deployment::replica_set`] and the like make one.
///
/// ```
/// use std::time::Duration;
///
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
    kind: Kind,
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
    request_limit: Option<Limit>,
    is_in_thread: bool,
}

#[derive(Clone, Debug)]
enum Kind {
    Standalone,
    ReplicaSet { name: String, members: usize },
    Sharded { shards: Vec<String>, members: usize, routers: usize },
}

impl Builder {
    fn new(kind: Kind) -> Self {
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
        Self::new(Kind::Standalone)
    }

    pub(super) fn replica_set(members: usize) -> Self {
        Self::new(Kind::ReplicaSet { name: "rs0".to_owned(), members })
    }

    pub(super) fn sharded(shards: &[&str]) -> Self {
        let shards = shards.iter().map(|name| (*name).to_owned()).collect();
        Self::new(Kind::Sharded { shards, members: 3, routers: 1 })
    }

    /// The version of MongoDB that it passes for: `4.2`, `4.4`, `5.0`, `6.0`, `7.0`, `8.0` (unless it is
    /// told otherwise) or `8.2`, with or without a patch number. Drivers decide by it what they make
    /// use of.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// The same by the newest version of the wire protocol that it speaks, such as 17 for `6.0`.
    pub fn wire_version(mut self, max_wire_version: i32) -> Self {
        let known = VERSIONS.iter().find(|(_, wire_version)| *wire_version == max_wire_version);
        self.version = match known {
            Some((version, _)) => (*version).to_owned(),
            // Refused when it is started, with what is known.
            None => format!("of wire version {max_wire_version}"),
        };
        self
    }

    /// The ports of its servers, in order. (Else they have any that are free.)
    pub fn ports(mut self, ports: RangeFrom<u16>) -> Self {
        self.ports = Some(ports.start);
        self
    }

    /// The name of the replica set, `rs0` unless it is told otherwise.
    pub fn set_name(mut self, set_name: impl Into<String>) -> Self {
        if let Kind::ReplicaSet { name, .. } = &mut self.kind {
            *name = set_name.into();
        }
        self
    }

    /// How many routers a sharded cluster has, one unless it is told otherwise.
    pub fn routers(mut self, count: usize) -> Self {
        if let Kind::Sharded { routers, .. } = &mut self.kind {
            *routers = count;
        }
        self
    }

    /// How many members each shard of a sharded cluster has, three unless it is told otherwise.
    pub fn shard_members(mut self, count: usize) -> Self {
        if let Kind::Sharded { members, .. } = &mut self.kind {
            *members = count;
        }
        self
    }

    /// Chunks of a sharded cluster move only when they are told to.
    pub fn without_balancer(mut self) -> Self {
        self.is_balancing = false;
        self
    }

    /// Clients of a sharded cluster reach it as one does behind a load balancer: each router says so,
    /// and the connection string names the first alone, with `loadBalanced=true`.
    pub fn load_balanced(mut self) -> Self {
        self.is_load_balanced = true;
        self
    }

    /// Clients must log in, and this is a user who may do everything. Several may be told.
    pub fn auth(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.users.push((user.into(), password.into()));
        self
    }

    /// How many rounds of hashing passwords get, by default 4096, which are the fewest that drivers
    /// accept. Real servers have 15000.
    pub fn scram_iterations(mut self, iterations: u32) -> Self {
        self.iterations = iterations;
        self
    }

    /// What all chances come from: the same seed, the same chances.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How long members do without a primary before they elect another, by default one second.
    pub fn election_timeout(mut self, timeout: Duration) -> Self {
        self.election_timeout = at_most_a_century(timeout);
        self
    }

    /// These members of a replica set, or of each shard, have priority 0: they vote and hold data, and
    /// never are primary. Such is a member that stands in another datacenter than the most of its set.
    pub fn priority_zero(mut self, members: impl IntoIterator<Item = usize>) -> Self {
        self.priority_zero = members.into_iter().collect();
        self
    }

    /// Sets the tags of the members of a replica set or shard, in their order. Members after the last have
    /// none.
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

    /// No member is elected by itself, only [by the test](super::Faults::elect).
    pub fn manual_elections(mut self) -> Self {
        self.is_manual = true;
        self
    }

    /// Each server takes so many requests a second, and so many at once if it had few before, and
    /// sheds the rest, as [`Faults::request_rate`](super::Faults::request_rate) has it.
    pub fn request_rate(mut self, per_second: f64, burst: f64) -> Self {
        self.request_limit = Some(Limit::new(per_second, burst));
        self
    }

    /// Runs in a thread of its own, also if the test has a runtime: for tests that block that.
    pub fn in_thread(mut self) -> Self {
        self.is_in_thread = true;
        self
    }

    /// Starts it. Nothing is waited for: it has its primary and takes connections when this returns.
    ///
    /// # Panics
    ///
    /// If it cannot be started; [`try_start`](Self::try_start) says why.
    #[track_caller]
    pub fn start(self) -> Deployment {
        self.try_start().unwrap_or_else(|error| panic!("no deployment: {error}"))
    }

    /// Starts it, or says why it cannot.
    pub fn try_start(self) -> Result<Deployment, StartError> {
        let (version, max_wire_version) = self.known_version()?;
        let home = TaskRuntime::find(self.is_in_thread);
        let _context = home.handle.enter();
        let mut site = Site::new(&self, version.clone(), max_wire_version, &home)?;
        let (members, sets, shards, options) = match &self.kind {
            Kind::Standalone => {
                let (set, members) = site.set(None, 1, false)?;
                (members, vec![set], Vec::new(), String::new())
            }
            Kind::ReplicaSet { name, members } => {
                let (set, members) = site.set(Some(name), *members, false)?;
                (members, vec![set], Vec::new(), format!("replicaSet={}", escaped(name)))
            }
            Kind::Sharded { shards, members, routers } => {
                let (routers, shards) = site.cluster(shards, *members, *routers)?;
                let options = if self.is_load_balanced { "loadBalanced=true" } else { "" };
                (routers, Vec::new(), shards, options.to_owned())
            }
        };
        let login = self.users.into_iter().next();
        let faults = Faults::new(&members, sets, &shards);
        Ok(Deployment { version, members, shards, faults, login, options, _home: home.clone() })
    }

    fn known_version(&self) -> Result<(String, i32), StartError> {
        let unknown = || StartError::Version(self.version.clone());
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
