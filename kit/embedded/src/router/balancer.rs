//! Where chunks should move: out of shards that their zone does not allow, and from shards that have
//! many to shards that have few.

use bson::Bson;
use steadfast_query::Fault;

use super::{catalog::Catalog, chunks::Range};
use crate::namespace::Namespace;

/// A shard with this many chunks of a zone more than another one gives one away.
const IMBALANCE: usize = 2;

/// Why a chunk should move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It lives on a shard that is not in its zone.
    Zone,
    /// Its shard has many more than another.
    Imbalance,
    /// Somebody asked for it.
    Asked,
}

/// A range of a collection that goes from one shard to another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Migration {
    pub(crate) namespace: Namespace,
    pub(crate) range: Range,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) reason: Reason,
}

impl Catalog {
    /// Splits chunks where a zone begins or ends inside of them. Says whether any was.
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

    /// The next chunk that should move: the first that violates its zone, else one of the shard that
    /// has the most. `None` when all is in its place. Chunks have been split at the zones.
    pub(crate) fn next_migration(&self) -> Option<Migration> {
        let balanced = || {
            self.collections.iter().filter(|(_, it)| !it.no_balance).map(|(namespace, _)| namespace)
        };
        balanced()
            .find_map(|namespace| self.zone_violation(namespace).ok().flatten())
            .or_else(|| balanced().find_map(|it| self.imbalance(it).ok().flatten()))
    }

    /// The first chunk of a collection that lives outside of its zone, if another shard may have it.
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
                    reason: Reason::Zone,
                }));
            }
        }
        Ok(None)
    }

    /// A chunk of a collection whose shard has many more of its zone than another that may have it.
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
                    reason: Reason::Imbalance,
                }));
            }
        }
        Ok(None)
    }

    fn count_in_zone(
        &self,
        namespace: &Namespace,
        zones: &[(Range, String)],
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

    /// Makes the move in the catalog.
    pub(crate) fn moved(&mut self, migration: &Migration) -> Result<(), Fault> {
        let sharded = self.sharded_mut(&migration.namespace)?;
        sharded.chunks.assign(&migration.range, &migration.to);
        sharded.version += 1;
        Ok(())
    }

    /// Splits the chunk that this key is in.
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

/// The zone that a chunk is to live in.
fn zone_of<'a>(zones: &'a [(Range, String)], chunk: &Range) -> Option<&'a str> {
    zones.iter().find(|(range, _)| range.covers(chunk)).map(|(_, zone)| zone.as_str())
}
