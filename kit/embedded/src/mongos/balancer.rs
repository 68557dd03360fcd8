//! Balancer policy: moves chunks out of shards that their zone does not allow, and from shards with
//! many chunks to shards with few.

use bson::Bson;
use steadfast_query::Fault;

use super::{catalog::Catalog, chunks::ChunkRange};
use crate::namespace::Namespace;

/// Difference in the number of chunks of a zone above which a chunk moves.
const IMBALANCE: usize = 2;

/// Reason of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MigrationReason {
    /// The chunk is on a shard outside of its zone.
    Zone,
    /// Its shard has more chunks than another one.
    Imbalance,
    /// A command requested it.
    Asked,
}

/// Migration of a range from one shard to another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Migration {
    pub(crate) namespace: Namespace,
    pub(crate) range: ChunkRange,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) reason: MigrationReason,
}

impl Catalog {
    /// Splits chunks at the bounds of zones. Returns `true` if it split any.
    pub(crate) fn split_at_zones(&mut self) -> bool {
        let mut any = false;
        for (namespace, zones) in &self.zones {
            let Some(sharded) = self.collections.get_mut(namespace) else { continue };
            let before = sharded.chunks.len();
            for range in zones.iter().filter_map(|it| it.range(&sharded.key).ok()) {
                sharded.chunks.split_at(&range.min);
                sharded.chunks.split_at(&range.max);
            }
            any |= sharded.chunks.len() != before;
        }
        any
    }

    /// Returns the next migration: a zone violation, otherwise a chunk of the shard with the most
    /// chunks. `None` if the collection is balanced. Chunks must have been split at the zones.
    pub(crate) fn next_migration(&self) -> Option<Migration> {
        let balanced = || {
            self.collections.iter().filter(|(_, it)| !it.no_balance).map(|(namespace, _)| namespace)
        };
        balanced()
            .find_map(|namespace| self.zone_violation(namespace).ok().flatten())
            .or_else(|| balanced().find_map(|it| self.imbalance(it).ok().flatten()))
    }

    /// First chunk of a collection outside of its zone, if another shard may own it.
    pub(crate) fn zone_violation(&self, namespace: &Namespace) -> Result<Option<Migration>, Fault> {
        let sharded = self.sharded(namespace)?;
        let zones = self.zone_ranges(namespace, &sharded.key)?;
        for chunk in sharded.chunks.iter() {
            let Some(zone) = zone_of(&zones, &chunk.range) else { continue };
            let allowed = self.shards_in(zone);
            if allowed.contains(&chunk.shard.as_str()) {
                continue;
            }
            let fewest = allowed
                .iter()
                .min_by_key(|shard| self.count_in_zone(namespace, &zones, shard, Some(zone)));
            if let Some(to) = fewest {
                return Ok(Some(Migration {
                    namespace: namespace.clone(),
                    range: chunk.range.clone(),
                    from: chunk.shard.clone(),
                    to: (*to).to_owned(),
                    reason: MigrationReason::Zone,
                }));
            }
        }
        Ok(None)
    }

    /// A chunk of a shard that has more chunks of the zone than another shard.
    pub(crate) fn imbalance(&self, namespace: &Namespace) -> Result<Option<Migration>, Fault> {
        let sharded = self.sharded(namespace)?;
        let zones = self.zone_ranges(namespace, &sharded.key)?;
        let mut kinds: Vec<Option<&str>> =
            zones.iter().map(|(_, zone)| Some(zone.as_str())).collect();
        kinds.dedup();
        kinds.push(None);
        for zone in kinds {
            let allowed: Vec<&str> = match zone {
                Some(zone) => self.shards_in(zone),
                None => self.shards().iter().map(String::as_str).collect(),
            };
            let count = |shard: &str| self.count_in_zone(namespace, &zones, shard, zone);
            let most = allowed.iter().rev().max_by_key(|shard| count(shard));
            let fewest = allowed.iter().min_by_key(|shard| count(shard));
            let (Some(from), Some(to)) = (most, fewest) else { continue };
            if count(from) < count(to) + IMBALANCE {
                continue;
            }
            let chunk = sharded
                .chunks
                .iter()
                .find(|it| it.shard == *from && zone_of(&zones, &it.range) == zone);
            if let Some(chunk) = chunk {
                return Ok(Some(Migration {
                    namespace: namespace.clone(),
                    range: chunk.range.clone(),
                    from: (*from).to_owned(),
                    to: (*to).to_owned(),
                    reason: MigrationReason::Imbalance,
                }));
            }
        }
        Ok(None)
    }

    fn count_in_zone(
        &self,
        namespace: &Namespace,
        zones: &[(ChunkRange, String)],
        shard: &str,
        zone: Option<&str>,
    ) -> usize {
        let Some(sharded) = self.collections.get(namespace) else { return 0 };
        sharded
            .chunks
            .iter()
            .filter(|chunk| chunk.shard == shard && zone_of(zones, &chunk.range) == zone)
            .count()
    }

    /// Records the migration in the catalog.
    pub(crate) fn moved(&mut self, migration: &Migration) -> Result<(), Fault> {
        let sharded = self.sharded_mut(&migration.namespace)?;
        sharded.chunks.assign(&migration.range, &migration.to);
        sharded.version += 1;
        Ok(())
    }

    /// Splits the chunk that contains a key.
    pub(crate) fn split(&mut self, namespace: &Namespace, key: &[Bson]) -> Result<(), Fault> {
        let sharded = self.sharded_mut(namespace)?;
        let before = sharded.chunks.len();
        sharded.chunks.split_at(key);
        if sharded.chunks.len() == before {
            return Err(Fault::bad_value(format!(
                "new split key {} is a boundary key of existing chunk",
                Bson::from(sharded.key.document(key))
            )));
        }
        Ok(())
    }
}

/// Zone of a chunk.
fn zone_of<'a>(zones: &'a [(ChunkRange, String)], chunk: &ChunkRange) -> Option<&'a str> {
    zones.iter().find(|(range, _)| range.covers(chunk)).map(|(_, zone)| zone.as_str())
}
