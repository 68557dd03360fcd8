//! Two datacenters of one sharded cluster of real servers, as the tutorial on distributed local writes draws them:
//! each shard has two members in its own datacenter and one of priority 0 in the other, and each datacenter has a
//! mongos.
//!
//! ```text
//!            alfa                       bravo
//! shard0     0, 1                       2 (priority 0)
//! shard1     2 (priority 0)             0, 1
//! mongos     0                          1
//! ```
//!
//! The config server is in neither of them.

use std::thread;

use steadfast::bson::doc;
use testbed::{ClusterOptions, MemberConfig, Mongod, ReplicaSet, Result, ShardedCluster};

/// Names of the datacenters. Their positions are the numbers of their shards and of their mongos.
pub(crate) const NAMES: [&str; 2] = ["alfa", "bravo"];

/// The layout for `steadfast zones`.
pub(crate) const LAYOUT: &str = r#"
collection = "app.messages"
shard_key = ["datacenter", "userid"]

[datacenters]
alfa = ["shard0"]
bravo = ["shard1"]
"#;

const MEMBERS: usize = 3;
/// Members of a shard in its own datacenter.
const AT_HOME: [usize; 2] = [0, 1];
/// Member of a shard in the other datacenter.
const AWAY: usize = 2;

pub(crate) struct Datacenters {
    pub(crate) cluster: ShardedCluster,
}

impl Datacenters {
    pub(crate) fn start() -> Result<Self> {
        let mut options = ClusterOptions::new().members_per_shard(MEMBERS);
        for (shard, name) in NAMES.into_iter().enumerate() {
            let at = |name| MemberConfig::new().tag("datacenter", name);
            for member in AT_HOME {
                options = options.member(shard, member, at(name));
            }
            options = options.member(shard, AWAY, at(other(name)).priority(0.0));
        }
        Ok(Self { cluster: ShardedCluster::start(options)? })
    }

    /// Kills all servers of a datacenter with SIGKILL: those of its shard, that of the other shard, its mongos.
    pub(crate) fn kill(&self, datacenter: &str) -> Result<()> {
        self.each_server(datacenter, Mongod::kill)?;
        self.cluster.mongos()[number(datacenter)].kill()
    }

    /// Starts all servers of a datacenter again; returns when all listen.
    pub(crate) fn restart(&self, datacenter: &str) -> Result<()> {
        self.each_server(datacenter, Mongod::restart)?;
        self.cluster.mongos()[number(datacenter)].restart()
    }

    /// Stops all servers of a datacenter with SIGSTOP: connections stay open without replies, as during a network
    /// partition.
    pub(crate) fn freeze(&self, datacenter: &str) -> Result<()> {
        self.each_server(datacenter, Mongod::freeze)?;
        self.cluster.mongos()[number(datacenter)].freeze()
    }

    /// Continues the servers of a frozen datacenter.
    pub(crate) fn thaw(&self, datacenter: &str) -> Result<()> {
        self.each_server(datacenter, Mongod::thaw)?;
        self.cluster.mongos()[number(datacenter)].thaw()
    }

    /// Waits until the shard of a datacenter has a primary.
    pub(crate) fn wait_for_primary(&self, datacenter: &str) -> Result<()> {
        self.shard(datacenter).wait_for_primary().map(drop)
    }

    /// Waits until all members of both shards are up and have what their primaries had.
    pub(crate) fn wait_until_complete(&self) -> Result<()> {
        self.cluster.shards().iter().try_for_each(ReplicaSet::wait_until_complete)
    }

    /// Makes the secondaries of a datacenter's shard apply nothing: writes are executed there, and no majority
    /// acknowledges them.
    pub(crate) fn hold_acknowledgements(&self, datacenter: &str) -> Result<()> {
        self.set_apply_stop(datacenter, "alwaysOn")
    }

    pub(crate) fn release_acknowledgements(&self, datacenter: &str) -> Result<()> {
        self.set_apply_stop(datacenter, "off")
    }

    fn set_apply_stop(&self, datacenter: &str, mode: &str) -> Result<()> {
        let set = |member: &Mongod| {
            let point = doc! { "configureFailPoint": "rsSyncApplyStop", "mode": mode };
            member.run_command("admin", point).map(drop)
        };
        self.shard(datacenter).members().iter().try_for_each(set)
    }

    pub(crate) fn shard(&self, datacenter: &str) -> &ReplicaSet {
        &self.cluster.shards()[number(datacenter)]
    }

    /// Calls something for every mongod of a datacenter, for all of them at once.
    fn each_server(&self, datacenter: &str, call: fn(&Mongod) -> Result<()>) -> Result<()> {
        let at_home = AT_HOME.map(|member| &self.shard(datacenter).members()[member]);
        let away = &self.shard(other(datacenter)).members()[AWAY];
        thread::scope(|scope| {
            let calls: Vec<_> =
                at_home.into_iter().chain([away]).map(|it| scope.spawn(move || call(it))).collect();
            calls.into_iter().try_for_each(|call| call.join().expect("it does not panic"))
        })
    }
}

pub(crate) fn number(datacenter: &str) -> usize {
    NAMES.iter().position(|name| *name == datacenter).expect("a datacenter")
}

pub(crate) fn other(datacenter: &str) -> &'static str {
    NAMES[1 - number(datacenter)]
}
