//! A sharded cluster of real servers on loopback.

use std::{
    thread,
    time::{Duration, Instant},
};

use bson::{Document, doc};

use crate::{
    ClusterOptions, LoadBalancer, Mongos, Options, ReplicaSet, Result, TestbedError, binaries,
    parallel, replica_set::ClusterRole, wire,
};

const CONFIG_SET: &str = "config";
/// Bound on the set-up of a new config server on a busy machine.
const SETUP_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A running sharded cluster: shards, a config server of one member, and `mongos`.
///
/// Its servers are killed when this value is dropped or the process ends. Shards, their members and `mongos` are numbered
/// from 0.
///
/// ```no_run
/// use bson::doc;
/// use testbed::{ClusterOptions, ShardedCluster};
///
/// let cluster = ShardedCluster::start(ClusterOptions::new())?;
/// cluster.run_command("admin", doc! { "shardCollection": "shop.orders", "key": { "_id": "hashed" } })?;
/// cluster.mongos()[0].kill()?;
/// cluster.shards()[1].kill(0)?;
/// # Ok::<(), testbed::TestbedError>(())
/// ```
#[derive(Debug)]
pub struct ShardedCluster {
    load_balancer: Option<LoadBalancer>,
    mongos: Vec<Mongos>,
    shards: Vec<ReplicaSet>,
    config_server: ReplicaSet,
}

impl ShardedCluster {
    /// Starts a cluster; returns when all shards are added and every `mongos` routes to them.
    ///
    /// # Errors
    ///
    /// Fails if the server programs are not available, or if a server does not start.
    pub fn start(options: ClusterOptions) -> Result<Self> {
        if options.shards == 0 || options.mongos == 0 {
            return Err(TestbedError::new(
                "a sharded cluster has at least one shard and one mongos",
            ));
        }
        let common = options.common();
        // Fails before servers are started: not every version has a mongos.
        binaries::mongos(common.chosen_version())?;
        let start_shard = |shard: usize| {
            let role = ClusterRole::Shard;
            let members = options.members_per_shard;
            ReplicaSet::start_as(&shard_name(shard), role, members, &options.of_shard(shard))
        };
        let start_shards =
            || parallel::try_collect((0..options.shards).map(|shard| move || start_shard(shard)));
        let start_routing = || start_routing(&options, &common);
        let (shards, (config_server, mongos)) = parallel::both(start_shards, start_routing)?;
        let load_balancer = match options.load_balanced {
            true => {
                let targets = mongos.iter().filter_map(Mongos::load_balancer_address).collect();
                Some(LoadBalancer::start(targets)?)
            }
            false => None,
        };
        let cluster = Self { load_balancer, mongos, shards, config_server };
        cluster.add_shards()?;
        cluster.create_users(&common)?;
        Ok(cluster)
    }

    /// Returns a connection string that names every `mongos`.
    pub fn uri(&self) -> String {
        let hosts: Vec<_> = self.mongos.iter().map(|mongos| mongos.address().to_string()).collect();
        format!("mongodb://{}/", hosts.join(","))
    }

    /// Returns every `mongos`.
    pub fn mongos(&self) -> &[Mongos] {
        &self.mongos
    }

    /// Returns the load balancer in front of every `mongos`, if the cluster is started with
    /// [`load_balanced`](ClusterOptions::load_balanced).
    pub fn load_balancer(&self) -> Option<&LoadBalancer> {
        self.load_balancer.as_ref()
    }

    /// Returns the shards' replica sets.
    pub fn shards(&self) -> &[ReplicaSet] {
        &self.shards
    }

    /// Returns the name of a shard, `shard0` for the first. It is also the name of its replica set.
    pub fn shard_name(&self, shard: usize) -> String {
        shard_name(shard)
    }

    /// Returns the config server's replica set.
    pub fn config_server(&self) -> &ReplicaSet {
        &self.config_server
    }

    /// Runs a command on the first `mongos` that replies to `hello`; a reply with `ok: 0` is an error.
    ///
    /// # Errors
    ///
    /// Fails if no `mongos` replies, or if the reply has `ok: 0`.
    pub fn run_command(&self, db: &str, command: Document) -> Result<Document> {
        let answers = |mongos: &&Mongos| wire::hello(mongos.address()).is_some();
        match self.mongos.iter().find(answers) {
            Some(mongos) => mongos.run_command(db, command),
            None => Err(TestbedError::new("no mongos answers")),
        }
    }

    fn add_shards(&self) -> Result<()> {
        for (number, shard) in self.shards.iter().enumerate() {
            let seeds = format!("{}/{}", shard.name(), shard.hosts());
            let command = doc! { "addShard": seeds, "name": self.shard_name(number) };
            self.run_command("admin", command)?;
        }
        Ok(())
    }

    /// Creates the users in the cluster.
    fn create_users(&self, options: &Options) -> Result<()> {
        for user in &options.users {
            let (db, command) = user.creation();
            self.run_command(db, command)?;
        }
        Ok(())
    }
}

/// Starts the config server, then every `mongos`.
fn start_routing(options: &ClusterOptions, common: &Options) -> Result<(ReplicaSet, Vec<Mongos>)> {
    let config_server = ReplicaSet::start_as(CONFIG_SET, ClusterRole::ConfigServer, 1, common)?;
    wait_for_cluster_id(&config_server)?;
    let seeds = format!("{CONFIG_SET}/{}", config_server.hosts());
    let start = || Mongos::start(common, &options.mongos_arguments, &seeds, options.load_balanced);
    let mongos = parallel::try_collect((0..options.mongos).map(|_| start))?;
    Ok((config_server, mongos))
}

/// Waits for the document in `config.version` that a `mongos` needs to start; without it, `mongos` sleeps for two seconds.
fn wait_for_cluster_id(config_server: &ReplicaSet) -> Result<()> {
    let started = Instant::now();
    loop {
        let find = doc! { "find": "version", "readConcern": { "level": "majority" } };
        let reply = config_server.run_command(0, "config", find)?;
        let batch = reply
            .get_document("cursor")
            .ok()
            .and_then(|cursor| cursor.get_array("firstBatch").ok());
        if batch.is_some_and(|batch| !batch.is_empty()) {
            return Ok(());
        }
        if started.elapsed() > SETUP_TIMEOUT {
            let secs = SETUP_TIMEOUT.as_secs();
            return Err(TestbedError::new(format!("{secs} seconds passed without a cluster id")));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn shard_name(shard: usize) -> String {
    format!("shard{shard}")
}
