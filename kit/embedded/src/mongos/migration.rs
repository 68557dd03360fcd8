//! Chunk migrations: the documents of a range move from one shard to another. No command sees them
//! on both shards or on none.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use bson::Bson;
use steadfast_query::{Code, Fault};
use tokio::{sync::OwnedRwLockWriteGuard, time::Instant};

use super::{balancer::Migration, cluster::Cluster, multi_shard};
use crate::namespace::Namespace;

/// Longest time that a migration waits for transactions and members.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Wait between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Wait of the balancer after a failed migration.
const BALANCER_BACKOFF: Duration = Duration::from_secs(1);

impl Cluster {
    /// Moves the next chunk. Returns `false` if the cluster is balanced.
    pub(crate) async fn balancer_step(self: &Arc<Self>) -> Result<bool, Fault> {
        self.delete_orphans();
        if self.catalog().clone().as_ref().clone().split_at_zones() {
            self.change(|catalog| Ok(catalog.split_at_zones()))?;
        }
        let Some(migration) = self.catalog().next_migration() else { return Ok(false) };
        self.migrate(migration).await?;
        Ok(true)
    }

    /// Moves chunks until the cluster is balanced. Returns the number of migrations.
    pub(crate) async fn balance(self: &Arc<Self>) -> Result<usize, Fault> {
        let mut moved = 0;
        while self.balancer_step().await? {
            moved += 1;
        }
        Ok(moved)
    }

    /// Moves a range. The migration continues if the caller stops waiting.
    pub(crate) async fn migrate(self: &Arc<Self>, migration: Migration) -> Result<(), Fault> {
        let cluster = self.clone();
        let task = tokio::spawn(async move { cluster.run_migration(&migration).await });
        task.await.map_err(|error| Fault::new(Code::INTERNAL_ERROR, error.to_string()))?
    }

    /// Copies the documents, changes the owner, deletes the originals. The exclusive lock prevents
    /// writes meanwhile.
    async fn run_migration(self: &Arc<Self>, migration: &Migration) -> Result<(), Fault> {
        let Migration { namespace, range, from, to, .. } = migration;
        let _alone = self.lock_without_transactions(namespace).await?;
        self.wait_for_orphan_deletion(namespace, to, Instant::now() + MIGRATION_TIMEOUT).await?;
        let catalog = self.catalog();
        let sharded = catalog.sharded(namespace)?;
        let lives_there =
            sharded.chunks.iter().filter(|it| it.range.overlaps(range)).all(|it| it.shard == *from);
        if !lives_there {
            return Err(Fault::new(
                Code::named(117, "ConflictingOperationInProgress"),
                format!("the range of {namespace} does not live on {from} any more"),
            ));
        }
        let (donor, recipient) = (self.shard(from)?, self.shard(to)?);
        let key = sharded.key.clone();
        let is_included =
            |document: &bson::Document| key.of(document).is_ok_and(|key| range.contains(&key));
        let copied = multi_shard::copy(namespace, donor, recipient, is_included)?;
        if let Err(fault) =
            multi_shard::wait_until_durable(recipient, copied.at, MIGRATION_TIMEOUT).await
        {
            self.add_orphans(namespace, to, copied.ids);
            self.delete_orphans();
            return Err(fault);
        }
        self.change(|catalog| catalog.moved(migration))?;
        self.add_orphans(namespace, from, copied.ids);
        self.delete_orphans();
        Ok(())
    }

    /// Locks a collection in exclusive mode while no open transaction has accessed it.
    async fn lock_without_transactions(
        &self,
        namespace: &Namespace,
    ) -> Result<OwnedRwLockWriteGuard<()>, Fault> {
        let deadline = Instant::now() + MIGRATION_TIMEOUT;
        loop {
            let alone = self.lock_exclusive(namespace, deadline).await?;
            if !self.has_open_transaction(namespace) {
                return Ok(alone);
            }
            drop(alone);
            if Instant::now() >= deadline {
                return Err(Fault::new(
                    Code::named(117, "ConflictingOperationInProgress"),
                    format!("a transaction holds chunks of {namespace} where they are"),
                ));
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Waits until a shard has no orphaned documents of a collection. Arriving documents could have
    /// the same `_id`.
    pub(super) async fn wait_for_orphan_deletion(
        &self,
        namespace: &Namespace,
        shard: &str,
        deadline: Instant,
    ) -> Result<(), Fault> {
        let place = (namespace.clone(), shard.to_owned());
        while self.catalog().orphans.contains_key(&place) {
            self.delete_orphans();
            if !self.catalog().orphans.contains_key(&place) {
                break;
            }
            if Instant::now() >= deadline {
                return Err(Fault::new(
                    Code::named(117, "ConflictingOperationInProgress"),
                    format!("documents of {namespace} that left {shard} are not deleted there yet"),
                ));
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        Ok(())
    }

    /// Records orphaned documents of a shard. Commands ignore them until they are deleted.
    pub(super) fn add_orphans(&self, namespace: &Namespace, shard: &str, ids: Vec<Bson>) {
        if ids.is_empty() {
            return;
        }
        let _ = self.change(|catalog| {
            catalog.orphans.entry((namespace.clone(), shard.to_owned())).or_default().extend(ids);
            Ok(())
        });
    }

    /// Deletes orphaned documents on reachable shards. Removes the records once the deletion is
    /// majority-committed.
    pub(super) fn delete_orphans(&self) {
        let catalog = self.catalog();
        for ((namespace, name), ids) in &catalog.orphans {
            let Ok(shard) = self.shard(name) else { continue };
            if multi_shard::delete(namespace, shard, ids).is_err()
                || !multi_shard::is_durably_empty(namespace, shard, ids)
            {
                continue;
            }
            let _ = self.change(|catalog| {
                let place = (namespace.clone(), name.clone());
                if let Some(left) = catalog.orphans.get_mut(&place) {
                    left.retain(|id| !ids.contains(id));
                    if left.is_empty() {
                        catalog.orphans.remove(&place);
                    }
                }
                Ok(())
            });
        }
    }
}

/// Balances the cluster whenever the catalog changes, while the balancer is enabled.
pub(super) fn run_balancer(cluster: &Arc<Cluster>) {
    let cluster = Arc::downgrade(cluster);
    tokio::spawn(async move {
        while let Some(wait) = balancer_round(&cluster).await {
            let Some(cluster) = cluster.upgrade() else { return };
            let changed = cluster.catalog_changes();
            drop(cluster);
            match wait {
                BalancerWait::CatalogChange => changed.notified().await,
                BalancerWait::Delay => tokio::time::sleep(BALANCER_BACKOFF).await,
            }
        }
    });
}

enum BalancerWait {
    CatalogChange,
    Delay,
}

async fn balancer_round(cluster: &Weak<Cluster>) -> Option<BalancerWait> {
    let cluster = cluster.upgrade()?;
    if !cluster.is_balancing() {
        return Some(BalancerWait::CatalogChange);
    }
    let done = cluster.balance().await;
    let clean = cluster.catalog().orphans.is_empty();
    Some(if done.is_ok() && clean { BalancerWait::CatalogChange } else { BalancerWait::Delay })
}
