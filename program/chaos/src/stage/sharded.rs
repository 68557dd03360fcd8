//! Sharded cluster of real servers. The blocking calls of `testbed` run in `spawn_blocking`.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use steadfast::bson::{Bson, Document, doc};
use testbed::{ClusterOptions, Mongos, Options, ReplicaSet, ShardedCluster, Version};
use tokio::task::spawn_blocking;

use super::{
    Result,
    set::{MEMBERS, Member, Migration, Role, meant},
};
use crate::{observer::Observer, schedule::FaultTarget};

const SHARDS: usize = 2;
const MONGOS: usize = 2;
/// Time-out for a mongos to reach all shards again, and for replies of the config server.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(200);
/// Attempts to migrate a chunk. Other faults can make an attempt fail.
const MIGRATION_ATTEMPTS: usize = 3;

/// A cluster that is stopped when this value is dropped. Faults of members hit its shards in turn.
pub(super) struct Cluster {
    cluster: Arc<ShardedCluster>,
    /// Servers that are killed or frozen.
    down: Arc<Mutex<BTreeSet<usize>>>,
    turns: AtomicUsize,
    database: String,
}

/// A server. Servers are numbered: first the mongos, then the members of each shard.
#[derive(Clone, Copy)]
enum ClusterServer {
    Mongos(usize),
    Member { shard: usize, member: usize },
}

impl ClusterServer {
    fn of(number: usize) -> Self {
        match number.checked_sub(MONGOS) {
            None => Self::Mongos(number),
            Some(rest) => Self::Member { shard: rest / MEMBERS, member: rest % MEMBERS },
        }
    }

    fn number(self) -> usize {
        match self {
            Self::Mongos(number) => number,
            Self::Member { shard, member } => MONGOS + shard * MEMBERS + member,
        }
    }
}

impl Cluster {
    pub(super) async fn start(database: &str, observer: &dyn Observer) -> Result<Self> {
        let version = Version::V8_2;
        if !testbed::is_available(version) {
            observer.step("downloading mongod and mongos once (about 200 MB) …");
            spawn_blocking(move || testbed::mongos_path(version)).await??;
        }
        observer.step("starting a sharded cluster of two mongos and six mongod …");
        // A chunk can migrate back only after its orphaned documents are deleted, which takes 15 minutes by default.
        let options = Options::new().version(version).parameter("orphanCleanupDelaySecs=0");
        let options = ClusterOptions::new()
            .shards(SHARDS)
            .members_per_shard(MEMBERS)
            .mongos(MONGOS)
            .options(options);
        let start = move || {
            let cluster = ShardedCluster::start(options)?;
            // Chunks migrate by the schedule only.
            cluster.run_command("admin", doc! { "balancerStop": 1 })?;
            Ok::<_, testbed::TestbedError>(cluster)
        };
        Ok(Self {
            cluster: Arc::new(spawn_blocking(start).await??),
            down: Arc::default(),
            turns: AtomicUsize::new(0),
            database: database.to_owned(),
        })
    }

    pub(super) async fn server(&self) -> Result<String> {
        let info = self.on(|it| it.run_command("admin", doc! { "buildInfo": 1 })).await?;
        let version = info.get_str("version")?.to_owned();
        Ok(format!("{MONGOS} mongos and {SHARDS} shards of {MEMBERS} mongod, {version}"))
    }

    pub(super) fn uri(&self) -> String {
        self.cluster.uri()
    }

    pub(super) async fn find(&self, who: FaultTarget) -> Result<Member> {
        if let FaultTarget::Mongos(_) = who {
            let number = meant(who, 0, MONGOS);
            let address = self.cluster.mongos()[number].address().to_string();
            return Ok(Member { number, address, role: Role::Mongos, shard: None });
        }
        let shard = self.next_shard();
        let primary = self.on(move |it| it.shards()[shard].wait_for_primary()).await?;
        Ok(self.member(shard, meant(who, primary, MEMBERS), primary))
    }

    pub(super) async fn step_down(&self) -> Result<Member> {
        let shard = self.next_shard();
        let primary = self.on(move |it| it.shards()[shard].step_down()).await?;
        Ok(self.member(shard, primary, primary))
    }

    pub(super) async fn kill(&self, number: usize) -> Result<()> {
        self.goes_down(number);
        self.at(number, Mongos::kill, ReplicaSet::kill).await
    }

    pub(super) async fn restart(&self, number: usize) -> Result<()> {
        self.at(number, Mongos::restart, ReplicaSet::restart).await?;
        self.comes_back(number);
        Ok(())
    }

    pub(super) async fn freeze(&self, number: usize) -> Result<()> {
        self.goes_down(number);
        self.at(number, Mongos::freeze, ReplicaSet::freeze).await
    }

    pub(super) async fn thaw(&self, number: usize) -> Result<()> {
        self.at(number, Mongos::thaw, ReplicaSet::thaw).await?;
        self.comes_back(number);
        Ok(())
    }

    /// Waits until all members run and have replicated all writes, and every mongos reaches all shards.
    pub(super) async fn recover(&self) -> Result<()> {
        self.on(|it| {
            it.shards().iter().try_for_each(ReplicaSet::wait_until_complete)?;
            it.mongos().iter().try_for_each(|mongos| {
                let every_shard =
                    || doc! { "listDatabases": 1, "nameOnly": true, "maxTimeMS": 5000 };
                retry_until_timeout(|| mongos.run_command("admin", every_shard())).map(drop)
            })
        })
        .await
    }

    /// Restarts all servers that are killed or frozen.
    pub(super) async fn heal(&self) -> Result<()> {
        let down = self.down.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for number in down {
            self.restart(number).await?;
        }
        Ok(())
    }

    pub(super) async fn close(self) -> Result<()> {
        spawn_blocking(move || drop(self.cluster)).await?;
        Ok(())
    }

    /// Returns the migration of the chunk that a number selects from all chunks of the database.
    pub(super) async fn choose_chunk(&self, choice: usize) -> Result<Migration> {
        let database = self.database.clone();
        let chunks = self.on(move |it| retry_until_timeout(|| chunks(it, &database))).await?;
        let chosen = chunks.len().checked_sub(1).map(|_| choice % chunks.len());
        chosen.and_then(|chosen| chunks.into_iter().nth(chosen)).ok_or_else(|| {
            format!("the database {} has no sharded collection", self.database).into()
        })
    }

    /// Migrates a chunk. Returns `false` if all attempts failed.
    pub(super) async fn migrate(&self, migration: Migration) -> bool {
        let Migration { namespace, min, max, to, .. } = migration;
        let command = doc! { "moveChunk": namespace, "bounds": [min, max], "to": to };
        let moved = self.on(move |it| {
            let mut moved = Ok(());
            for attempt in 0..MIGRATION_ATTEMPTS {
                if attempt > 0 {
                    thread::sleep(PAUSE);
                }
                moved = it.run_command("admin", command.clone()).map(drop);
                if moved.is_ok() {
                    break;
                }
            }
            moved
        });
        moved.await.is_ok()
    }

    async fn on<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ShardedCluster) -> testbed::Result<T> + Send + 'static,
    ) -> Result<T> {
        let cluster = Arc::clone(&self.cluster);
        Ok(spawn_blocking(move || work(&cluster)).await??)
    }

    /// Calls the function for the kind of server.
    async fn at(
        &self,
        number: usize,
        to_mongos: fn(&Mongos) -> testbed::Result<()>,
        to_member: fn(&ReplicaSet, usize) -> testbed::Result<()>,
    ) -> Result<()> {
        self.on(move |it| match ClusterServer::of(number) {
            ClusterServer::Mongos(number) => to_mongos(&it.mongos()[number]),
            ClusterServer::Member { shard, member } => to_member(&it.shards()[shard], member),
        })
        .await
    }

    fn member(&self, shard: usize, member: usize, primary: usize) -> Member {
        Member {
            number: ClusterServer::Member { shard, member }.number(),
            address: self.cluster.shards()[shard].addresses()[member].to_string(),
            role: Role::of(member == primary),
            shard: Some(self.cluster.shard_name(shard)),
        }
    }

    fn next_shard(&self) -> usize {
        self.turns.fetch_add(1, Relaxed) % SHARDS
    }

    fn goes_down(&self, number: usize) {
        self.down.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
    }

    fn comes_back(&self, number: usize) {
        self.down.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }
}

/// Runs a command until it succeeds: its server may be down or have no primary.
fn retry_until_timeout<T>(command: impl Fn() -> testbed::Result<T>) -> testbed::Result<T> {
    let began = Instant::now();
    loop {
        match command() {
            Err(_) if began.elapsed() < RECOVERY_TIMEOUT => thread::sleep(PAUSE),
            result => return result,
        }
    }
}

/// Returns the chunks of a database in a fixed order, each with the other shard as its target.
fn chunks(cluster: &ShardedCluster, database: &str) -> testbed::Result<Vec<Migration>> {
    let mut all = Vec::new();
    for collection in config(cluster, "collections", doc! { "_id": 1 })? {
        let namespace = collection.get_str("_id").unwrap_or_default();
        let is_ours = namespace.strip_prefix(database).is_some_and(|rest| rest.starts_with('.'));
        if !is_ours || collection.get_bool("unsplittable").unwrap_or(false) {
            continue;
        }
        let of_collection = |chunk: &Document| chunk.get("uuid") == collection.get("uuid");
        let chunks = config(cluster, "chunks", doc! { "min": 1 })?.into_iter();
        all.extend(chunks.filter(of_collection).filter_map(|chunk| {
            let from = chunk.get_str("shard").ok()?.to_owned();
            let mut shards = (0..SHARDS).map(|shard| cluster.shard_name(shard));
            Some(Migration {
                namespace: namespace.to_owned(),
                min: chunk.get_document("min").ok()?.clone(),
                max: chunk.get_document("max").ok()?.clone(),
                to: shards.find(|shard| *shard != from)?,
                from,
            })
        }));
    }
    Ok(all)
}

fn config(
    cluster: &ShardedCluster,
    collection: &str,
    sort: Document,
) -> testbed::Result<Vec<Document>> {
    let find = doc! { "find": collection, "sort": sort, "batchSize": 10_000, "maxTimeMS": 5000 };
    let reply = cluster.run_command("config", find)?;
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let documents = batch.map(Vec::as_slice).unwrap_or_default().iter();
    Ok(documents.filter_map(Bson::as_document).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_a_number() {
        for number in 0..MONGOS + SHARDS * MEMBERS {
            assert_eq!(ClusterServer::of(number).number(), number);
        }
        assert!(matches!(
            ClusterServer::of(MONGOS + MEMBERS),
            ClusterServer::Member { shard: 1, member: 0 }
        ));
    }
}
