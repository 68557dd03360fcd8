//! A sharded cluster: its shards, its catalog, and what all of its routers share.

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
    Router,
    catalog::{Catalog, shard_not_found},
    coordinator::Coordinator,
    shard::Shard,
};
use crate::{
    clock::Clock,
    command::dialect,
    log::{SessionId, TimestampOrder, TransactionId},
    namespace::Namespace,
    set::{ReplicaSet, SetConfig},
};

/// How long a command that needs a collection for itself stands in the way of others at a time.
const TURN: Duration = Duration::from_millis(250);

/// Shards end transactions that are older.
pub(super) const LIFETIME: Duration = Duration::from_secs(60);

/// How a cluster is made.
#[derive(Clone, Debug)]
pub(crate) struct ClusterConfig {
    /// The shards: each a replica set of the same name.
    pub(crate) shards: Vec<SetConfig>,
    /// `8.0.4`.
    pub(crate) version: String,
    pub(crate) max_wire_version: i32,
    /// What chance comes from.
    pub(crate) seed: u64,
    /// Whether chunks move on their own from the start, as in a real cluster.
    pub(crate) balancing: bool,
}

/// Transactions, and since when each is there.
type Visitors = BTreeMap<(SessionId, i64), Instant>;

/// A sharded cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    shards: Vec<Shard>,
    catalog: Mutex<Arc<Catalog>>,
    /// Commands on a collection pass its gate side by side. What moves documents between shards goes
    /// through alone, so that no write falls between, and no read sees a document twice.
    gates: Mutex<BTreeMap<Namespace, Arc<RwLock<()>>>>,
    /// Which open transactions have been at a collection, and since when.
    visits: Mutex<BTreeMap<Namespace, Visitors>>,
    /// The transactions over several shards that are being committed.
    pub(super) coordinators: Mutex<BTreeMap<TransactionId, Coordinator>>,
    /// The retryable writes that moved a document to another shard in a transaction. They cannot be retried.
    pub(super) converted: Mutex<BTreeSet<TransactionId>>,
    newest: Mutex<TimestampOrder>,
    balancing: Mutex<bool>,
    changed: Arc<Notify>,
    pub(super) clock: Clock,
    pub(super) config: ClusterConfig,
    dice: Mutex<Environment>,
}

impl Cluster {
    /// Starts one: each shard has a primary when this returns. Needs a tokio runtime.
    pub(crate) fn start(config: ClusterConfig, clock: Clock) -> Arc<Self> {
        let shards: Vec<Shard> = config
            .shards
            .iter()
            .map(|set| Shard {
                name: set.name.clone().unwrap_or_default(),
                set: ReplicaSet::start(set.clone(), clock.clone()),
            })
            .collect();
        let catalog = Catalog::new(shards.iter().map(|shard| shard.name.clone()));
        let now = clock.time_of_day(Duration::ZERO);
        let dice = Environment::new(now, Timestamp { time: 0, increment: 0 }, config.seed);
        let cluster = Arc::new(Self {
            shards,
            catalog: Mutex::new(Arc::new(catalog)),
            gates: Mutex::default(),
            visits: Mutex::default(),
            coordinators: Mutex::default(),
            converted: Mutex::default(),
            newest: Mutex::default(),
            balancing: Mutex::new(config.balancing),
            changed: Arc::default(),
            clock,
            config,
            dice: Mutex::new(dice),
        });
        for shard in &cluster.shards {
            let state = shard.set.shared().look();
            if let Some(primary) = state.primary() {
                cluster.hear(state.member(primary).last().timestamp.into());
            }
        }
        super::migration::balance_in_background(&cluster);
        cluster
    }

    /// A router of it, at this address. All routers of a cluster share what they know.
    pub(crate) fn router(self: &Arc<Self>, address: impl Into<String>) -> Arc<Router> {
        Router::new(self.clone(), address.into())
    }

    /// Its shards.
    pub(crate) fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The shard of this name.
    pub(crate) fn shard(&self, name: &str) -> Result<&Shard, Fault> {
        self.shards.iter().find(|shard| shard.name == name).ok_or_else(|| shard_not_found(name))
    }

    /// The chunks of a sharded collection: from where up to where, and on which shard.
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

    /// The zone ranges of a collection: from where up to where, and which zone.
    pub(crate) fn zones(&self, namespace: &Namespace) -> Vec<(Document, Document, String)> {
        let catalog = self.catalog();
        let ranges = catalog.zones.get(namespace).into_iter().flatten();
        ranges.map(|it| (it.min.clone(), it.max.clone(), it.zone.clone())).collect()
    }

    /// The catalog as it is now.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        locked(&self.catalog).clone()
    }

    /// Changes the catalog, or if it is refused, nothing.
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

    /// The primary shard of a database, which comes into being by being asked for.
    pub(crate) fn database(&self, database: &str) -> Result<String, Fault> {
        if let Some(primary) = self.catalog().primary(database) {
            return Ok(primary.to_owned());
        }
        self.change(|catalog| catalog.create_database(database, None))
    }

    fn gate(&self, namespace: &Namespace) -> Arc<RwLock<()>> {
        locked(&self.gates).entry(namespace.clone()).or_default().clone()
    }

    /// Passes a collection's gate, with others.
    pub(crate) async fn pass(&self, namespace: &Namespace) -> OwnedRwLockReadGuard<()> {
        self.gate(namespace).read_owned().await
    }

    /// Passes a collection's gate alone. A command that waits for a shard may hold others up for a
    /// turn, not for as long as it waits.
    pub(crate) async fn pass_alone(
        &self,
        namespace: &Namespace,
        deadline: Instant,
    ) -> Result<OwnedRwLockWriteGuard<()>, Fault> {
        loop {
            let turn = tokio::time::timeout(TURN, self.gate(namespace).write_owned());
            if let Ok(guard) = turn.await {
                return Ok(guard);
            }
            if Instant::now() >= deadline {
                return Err(Fault::new(
                    Code::named(24, "LockTimeout"),
                    format!("Failed to acquire the lock of {namespace} in time"),
                ));
            }
            tokio::time::sleep(TURN * 2).await;
        }
    }

    /// A transaction comes to a collection.
    pub(super) fn enter(&self, namespace: &Namespace, session: &SessionId, number: i64) {
        let mut visits = locked(&self.visits);
        let visitors = visits.entry(namespace.clone()).or_default();
        visitors.insert((session.clone(), number), Instant::now());
    }

    /// A transaction that has been at a collection ends.
    pub(super) fn leave(&self, namespace: &Namespace, session: &SessionId, number: i64) {
        if let Some(visitors) = locked(&self.visits).get_mut(namespace) {
            visitors.remove(&(session.clone(), number));
        }
    }

    /// Whether a transaction that has been at a collection is open, or may be.
    pub(super) fn is_visited(&self, namespace: &Namespace) -> bool {
        if locked(&self.coordinators).values().any(|it| it.concerns(namespace)) {
            return true;
        }
        let mut visits = locked(&self.visits);
        let Some(visitors) = visits.get_mut(namespace) else { return false };
        visitors.retain(|_, since| since.elapsed() <= LIFETIME);
        !visitors.is_empty()
    }

    /// Hears of a cluster time.
    pub(super) fn hear(&self, time: Timestamp) {
        let mut newest = locked(&self.newest);
        *newest = (*newest).max(time.into());
    }

    /// The newest cluster time that any router has heard of.
    pub(super) fn time(&self) -> Timestamp {
        (*locked(&self.newest)).into()
    }

    /// The same as commands and replies carry it.
    pub(super) fn cluster_time(&self) -> Document {
        let hash = Binary { subtype: BinarySubtype::Generic, bytes: vec![0; 20] };
        doc! { "clusterTime": self.time(), "signature": { "hash": hash, "keyId": 0_i64 } }
    }

    /// Whether chunks move on their own.
    pub(crate) fn is_balancing(&self) -> bool {
        *locked(&self.balancing)
    }

    /// Starts the balancer, or stops it.
    pub(crate) fn set_balancing(&self, on: bool) {
        *locked(&self.balancing) = on;
        self.changed.notify_one();
    }

    /// Tells of the next change of the catalog, or of the balancer.
    pub(super) fn change_of_catalog(&self) -> Arc<Notify> {
        self.changed.clone()
    }

    /// What a query can see, now.
    pub(super) fn environment(&self) -> Environment {
        let seed = locked(&self.dice).next_random();
        let now = self.clock.time_of_day(Duration::ZERO);
        let mut env = Environment::new(now, self.time(), seed);
        env.dialect = dialect(self.config.max_wire_version);
        env
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The balancer finds that there is nothing left to balance.
        self.changed.notify_one();
    }
}

/// A lock whose holder never panics halfway.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
