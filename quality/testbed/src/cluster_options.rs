//! Options of a sharded cluster.

use std::collections::BTreeMap;

use crate::{MemberConfig, Options, Version};

/// Options of a sharded cluster: by default, version 8.2 with two shards of one member and two `mongos`.
///
/// ```no_run
/// use testbed::{ClusterOptions, MemberConfig, ShardedCluster};
///
/// let options = ClusterOptions::new()
///     .members_per_shard(3)
///     .member(0, 2, MemberConfig::new().priority(0.5).tag("dc", "paris"));
/// let cluster = ShardedCluster::start(options)?;
/// # Ok::<(), testbed::TestbedError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ClusterOptions {
    pub(crate) shards: usize,
    pub(crate) members_per_shard: usize,
    pub(crate) mongos: usize,
    pub(crate) load_balanced: bool,
    pub(crate) mongos_arguments: Vec<String>,
    options: Options,
    members: BTreeMap<(usize, usize), MemberConfig>,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            shards: 2,
            members_per_shard: 1,
            mongos: 2,
            load_balanced: false,
            mongos_arguments: Vec::new(),
            options: Options::new(),
            members: BTreeMap::new(),
        }
    }
}

impl ClusterOptions {
    /// Creates default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of shards. Defaults to 2.
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = shards;
        self
    }

    /// Number of members of each shard's replica set, 1 or 3 (up to 7). Defaults to 1.
    pub fn members_per_shard(mut self, members: usize) -> Self {
        self.members_per_shard = members;
        self
    }

    /// Number of `mongos`. Defaults to 2.
    pub fn mongos(mut self, mongos: usize) -> Self {
        self.mongos = mongos;
        self
    }

    /// Options of all servers: version, users, TLS, election time-out; arguments and parameters of `mongod`.
    /// The version defaults to [`Version::V8_2`].
    ///
    /// Users are created in the cluster, and also on each shard for direct connections to its members.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Gives each `mongos` a port for load balancers (`loadBalancerPort`), and the cluster a
    /// [`LoadBalancer`](crate::LoadBalancer). Defaults to false.
    pub fn load_balanced(mut self, load_balanced: bool) -> Self {
        self.load_balanced = load_balanced;
        self
    }

    /// Priority and tags of a member of a shard. Shards and members are numbered from 0.
    pub fn member(mut self, shard: usize, member: usize, config: MemberConfig) -> Self {
        self.members.insert((shard, member), config);
        self
    }

    /// Adds an argument of `mongos`.
    pub fn mongos_argument(mut self, argument: impl Into<String>) -> Self {
        self.mongos_arguments.push(argument.into());
        self
    }

    /// Adds a server parameter of `mongos`, `name=value`.
    pub fn mongos_parameter(self, parameter: impl Into<String>) -> Self {
        self.mongos_argument("--setParameter").mongos_argument(parameter)
    }

    /// Options of the config server and of `mongos`.
    pub(crate) fn common(&self) -> Options {
        let mut options = self.options.clone().or_version(Version::V8_2);
        options.members.clear();
        options
    }

    /// Options of one shard.
    pub(crate) fn of_shard(&self, shard: usize) -> Options {
        let configs = self.members.iter().filter(|((of, _), _)| *of == shard);
        configs.fold(
            self.options.clone().or_version(Version::V8_2),
            |options, ((_, member), config)| options.member(*member, config.clone()),
        )
    }
}
