//! A sharded cluster: shards, catalog, and the state that all mongos share.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bson::{Binary, Document, Timestamp, doc, spec::BinarySubtype};
use steadfast_query::{Code, Environment, Fault};
use tokio::{
    sync::{Notify, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock},
    time::Instant,
};

use super::{
    Mongos,
    catalog::{Catalog, shard_not_found},
    coordinator::Coordinator,
    shard::ShardClient,
};
use crate::{
    clock::Clock,
    command::dialect,
    namespace::Namespace,
    oplog::{OrderedTimestamp, SessionId, TransactionId},
    set::{ReplicaSet, SetConfig},
};

/// Longest time that a waiting request for an exclusive lock blocks others.
const LOCK_WAIT_SLICE: Duration = Duration::from_millis(250);

/// Maximum age of transactions on shards (`transactionLifetimeLimitSeconds`).
pub(super) const TRANSACTION_LIFETIME: Duration = Duration::from_secs(60);

/// Configuration of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterConfig {
    /// Configuration of the shards, whose replica sets have the names of the shards.
    pub(crate) shards: Vec<SetConfig>,
    /// `8.0.4`.
    pub(crate) version: String,
    pub(crate) max_wire_version: i32,
    /// Seed of the random number generator.
    pub(crate) seed: u64,
    /// `true` starts the balancer, as in a real cluster.
    pub(crate) balancing: bool,
}

/// Transactions and the time at which each accessed the collection.
type TransactionAccesses = BTreeMap<(SessionId, i64), Instant>;

/// A sharded cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    shards: Vec<ShardClient>,
    catalog: Mutex<Arc<Catalog>>,
    /// Commands hold the lock of their collection in shared mode. Chunk migrations hold it in
    /// exclusive mode, so that no write is lost and no read sees a document twice.
    collection_locks: Mutex<BTreeMap<Namespace, Arc<RwLock<()>>>>,
    /// Open transactions that have accessed a collection.
    accesses: Mutex<BTreeMap<Namespace, TransactionAccesses>>,
    /// Two-phase commits in progress.
    pub(super) coordinators: Mutex<BTreeMap<TransactionId, Coordinator>>,
    /// Retryable writes that were converted to a transaction because they moved a document to
    /// another shard. They cannot be retried.
    pub(super) converted: Mutex<BTreeSet<TransactionId>>,
    newest: Mutex<OrderedTimestamp>,
    balancing: Mutex<bool>,
    changed: Arc<Notify>,
    pub(super) clock: Clock,
    pub(super) config: ClusterConfig,
    rng: Mutex<Environment>,
}

impl Cluster {
    /// Starts a cluster. Each shard has a primary when this returns. Requires a tokio runtime.
    pub(crate) fn start(config: ClusterConfig, clock: Clock) -> Arc<Self> {
        let shards: Vec<ShardClient> = config
            .shards
            .iter()
            .map(|set| ShardClient {
                name: set.name.clone().unwrap_or_default(),
                set: ReplicaSet::start(set.clone(), clock.clone()),
            })
            .collect();
        let catalog = Catalog::new(shards.iter().map(|shard| shard.name.clone()));
        let now = clock.wall_time(Duration::ZERO);
        let rng = Environment::new(now, Timestamp { time: 0, increment: 0 }, config.seed);
        let cluster = Arc::new(Self {
            shards,
            catalog: Mutex::new(Arc::new(catalog)),
            collection_locks: Mutex::default(),
            accesses: Mutex::default(),
            coordinators: Mutex::default(),
            converted: Mutex::default(),
            newest: Mutex::default(),
            balancing: Mutex::new(config.balancing),
            changed: Arc::default(),
            clock,
            config,
            rng: Mutex::new(rng),
        });
        for shard in &cluster.shards {
            let state = shard.set.shared().lock();
            if let Some(primary) = state.primary() {
                cluster.advance_cluster_time(state.member(primary).last().timestamp.into());
            }
        }
        super::migration::run_balancer(&cluster);
        cluster
    }

    /// Adds a `mongos` with this address.
    pub(crate) fn mongos(self: &Arc<Self>, address: impl Into<String>) -> Arc<Mongos> {
        Mongos::new(self.clone(), address.into())
    }

    /// The shards.
    pub(crate) fn shards(&self) -> &[ShardClient] {
        &self.shards
    }

    /// A shard by its name.
    pub(crate) fn shard(&self, name: &str) -> Result<&ShardClient, Fault> {
        self.shards.iter().find(|shard| shard.name == name).ok_or_else(|| shard_not_found(name))
    }

    /// Chunks of a sharded collection: minimum, maximum, shard.
    pub(crate) fn chunks(&self, namespace: &Namespace) -> Vec<(Document, Document, String)> {
        let catalog = self.catalog();
        let sharded = catalog.collections.get(namespace);
        sharded
            .into_iter()
            .flat_map(|sharded| {
                sharded.chunks.iter().map(|chunk| {
                    let bound = |key: &[bson::Bson]| sharded.key.document(key);
                    (bound(&chunk.range.min), bound(&chunk.range.max), chunk.shard.clone())
                })
            })
            .collect()
    }

    /// Zone ranges of a collection: minimum, maximum, zone.
    pub(crate) fn zones(&self, namespace: &Namespace) -> Vec<(Document, Document, String)> {
        let catalog = self.catalog();
        let ranges = catalog.zones.get(namespace).into_iter().flatten();
        ranges.map(|it| (it.min.clone(), it.max.clone(), it.zone.clone())).collect()
    }

    /// Current snapshot of the catalog.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        locked(&self.catalog).clone()
    }

    /// Changes the catalog. An error leaves it unchanged.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut Catalog) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut catalog = locked(&self.catalog);
        let mut changed = (**catalog).clone();
        let result = change(&mut changed)?;
        *catalog = Arc::new(changed);
        drop(catalog);
        self.changed.notify_one();
        Ok(result)
    }

    /// Primary shard of a database. Creates a missing database.
    pub(crate) fn database(&self, database: &str) -> Result<String, Fault> {
        if let Some(primary) = self.catalog().primary(database) {
            return Ok(primary.to_owned());
        }
        self.change(|catalog| catalog.create_database(database, None))
    }

    fn collection_lock(&self, namespace: &Namespace) -> Arc<RwLock<()>> {
        locked(&self.collection_locks).entry(namespace.clone()).or_default().clone()
    }

    /// Locks a collection in shared mode.
    pub(crate) async fn lock_shared(&self, namespace: &Namespace) -> OwnedRwLockReadGuard<()> {
        self.collection_lock(namespace).read_owned().await
    }

    /// Locks a collection in exclusive mode. A waiting request blocks others only for a limited
    /// time, then it yields and queues again.
    pub(crate) async fn lock_exclusive(
        &self,
        namespace: &Namespace,
        deadline: Instant,
    ) -> Result<OwnedRwLockWriteGuard<()>, Fault> {
        loop {
            let turn = tokio::time::timeout(
                LOCK_WAIT_SLICE,
                self.collection_lock(namespace).write_owned(),
            );
            if let Ok(guard) = turn.await {
                return Ok(guard);
            }
            if Instant::now() >= deadline {
                return Err(Fault::new(
                    Code::named(24, "LockTimeout"),
                    format!("Failed to acquire the lock of {namespace} in time"),
                ));
            }
            tokio::time::sleep(LOCK_WAIT_SLICE * 2).await;
        }
    }

    /// Records that a transaction accesses a collection.
    pub(super) fn record_access(&self, namespace: &Namespace, session: &SessionId, number: i64) {
        let mut accesses = locked(&self.accesses);
        let visitors = accesses.entry(namespace.clone()).or_default();
        visitors.insert((session.clone(), number), Instant::now());
    }

    /// Removes the record when the transaction ends.
    pub(super) fn remove_access(&self, namespace: &Namespace, session: &SessionId, number: i64) {
        if let Some(visitors) = locked(&self.accesses).get_mut(namespace) {
            visitors.remove(&(session.clone(), number));
        }
    }

    /// Returns `true` if an open transaction may have accessed the collection.
    pub(super) fn has_open_transaction(&self, namespace: &Namespace) -> bool {
        if locked(&self.coordinators).values().any(|it| it.concerns(namespace)) {
            return true;
        }
        let mut accesses = locked(&self.accesses);
        let Some(visitors) = accesses.get_mut(namespace) else { return false };
        visitors.retain(|_, since| since.elapsed() <= TRANSACTION_LIFETIME);
        !visitors.is_empty()
    }

    /// Advances the cluster time.
    pub(super) fn advance_cluster_time(&self, time: Timestamp) {
        let mut newest = locked(&self.newest);
        *newest = (*newest).max(time.into());
    }

    /// Newest cluster time of all mongos.
    pub(super) fn time(&self) -> Timestamp {
        (*locked(&self.newest)).into()
    }

    /// `$clusterTime` of commands and replies.
    pub(super) fn cluster_time(&self) -> Document {
        let hash = Binary { subtype: BinarySubtype::Generic, bytes: vec![0; 20] };
        doc! { "clusterTime": self.time(), "signature": { "hash": hash, "keyId": 0_i64 } }
    }

    /// Returns `true` if the balancer is enabled.
    pub(crate) fn is_balancing(&self) -> bool {
        *locked(&self.balancing)
    }

    /// Enables or disables the balancer.
    pub(crate) fn set_balancing(&self, on: bool) {
        *locked(&self.balancing) = on;
        self.changed.notify_one();
    }

    /// Notifies about changes of the catalog or the balancer.
    pub(super) fn catalog_changes(&self) -> Arc<Notify> {
        self.changed.clone()
    }

    /// Environment of a query at the current time.
    pub(super) fn environment(&self) -> Environment {
        let seed = locked(&self.rng).next_random();
        let now = self.clock.wall_time(Duration::ZERO);
        let mut env = Environment::new(now, self.time(), seed);
        env.dialect = dialect(self.config.max_wire_version);
        env
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Wakes the balancer, which ends without a cluster.
        self.changed.notify_one();
    }
}

/// Locks a mutex whose holders never panic halfway.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
