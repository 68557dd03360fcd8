//! Metadata of a cluster: shards and their zones, databases with their primary shards, sharded
//! collections with shard keys and chunks.
//!
//! A plain value. Commands work on a snapshot of it.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document, Uuid, oid::ObjectId};
use steadfast_query::{Code, Fault};

use super::{
    chunks::{ChunkRange, Chunks, OwnedChunk},
    key::{ShardKey, ShardKeyValue, compare_keys},
};
use crate::{
    namespace::Namespace,
    oplog::{OrderedTimestamp, ShardLocator},
};

/// A zone range of a collection.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CatalogZoneRange {
    /// Bounds as given. A collection can be sharded after its zones are defined.
    pub(crate) min: Document,
    pub(crate) max: Document,
    pub(crate) zone: String,
}

impl CatalogZoneRange {
    /// The range under a shard key.
    pub(crate) fn range(&self, key: &ShardKey) -> Result<ChunkRange, Fault> {
        Ok(ChunkRange { min: key.bound(&self.min)?, max: key.bound(&self.max)? })
    }
}

/// A sharded collection.
#[derive(Clone, Debug)]
pub(crate) struct ShardedCollection {
    pub(crate) key: ShardKey,
    pub(crate) unique: bool,
    pub(crate) uuid: Uuid,
    /// Changes whenever the collection is sharded anew.
    pub(crate) epoch: ObjectId,
    pub(crate) chunks: Chunks,
    /// Counts changes of the owners of chunks.
    pub(crate) version: u32,
    /// Default collation.
    pub(crate) collation: Option<Document>,
    /// Excludes the collection from balancing (`noBalance`).
    pub(crate) no_balance: bool,
}

impl ShardedCollection {
    /// The shard that owns a document.
    pub(crate) fn owner(&self, document: &Document) -> Result<&str, Fault> {
        Ok(&self.chunks.of(&self.key.of(document)?).shard)
    }

    /// Shards that own chunks of the collection.
    pub(crate) fn shards(&self) -> BTreeSet<String> {
        self.chunks.iter().map(|chunk| chunk.shard.clone()).collect()
    }

    /// Finds the chunk with exactly these bounds.
    pub(crate) fn chunk(&self, min: &[Bson], max: &[Bson]) -> Option<&OwnedChunk> {
        let chunk = self.chunks.of(min);
        let same = compare_keys(&chunk.range.min, min).is_eq()
            && compare_keys(&chunk.range.max, max).is_eq();
        same.then_some(chunk)
    }
}

/// Definition of a view.
#[derive(Clone, Debug)]
pub(crate) struct ViewDefinition {
    pub(crate) on: Namespace,
    pub(crate) pipeline: Vec<Document>,
    pub(crate) collation: Option<Document>,
}

/// Metadata of a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    /// Shards in the order in which they were added.
    shards: Vec<String>,
    /// Zones of each shard.
    shard_zones: BTreeMap<String, BTreeSet<String>>,
    /// Primary shard of each database.
    databases: BTreeMap<String, String>,
    /// Databases for which `enableSharding` was run.
    enabled: BTreeSet<String>,
    pub(crate) collections: BTreeMap<Namespace, ShardedCollection>,
    /// Shard keys of current and former collections by UUID, with their start. They outlive the
    /// collection, because change streams show past events.
    pub(crate) shard_keys: BTreeMap<[u8; 16], (ShardKey, OrderedTimestamp)>,
    /// Sorted by their lower bounds.
    pub(crate) zones: BTreeMap<Namespace, Vec<CatalogZoneRange>>,
    pub(crate) views: BTreeMap<Namespace, ViewDefinition>,
    /// Orphaned documents of a shard by `_id`, which a migration could not delete yet.
    pub(crate) orphans: BTreeMap<(Namespace, String), Vec<Bson>>,
}

impl ShardLocator for Catalog {
    fn shard_key(&self, collection: Uuid, at: OrderedTimestamp) -> Option<Vec<String>> {
        let (key, since) = self.shard_keys.get(&collection.bytes())?;
        (*since <= at).then(|| key.fields().iter().map(|field| field.path.clone()).collect())
    }

    fn owner(&self, namespace: &Namespace, document: &Document) -> Option<usize> {
        let owner = self.collections.get(namespace)?.owner(document).ok()?;
        self.shards.iter().position(|shard| shard == owner)
    }
}

impl Catalog {
    /// A cluster of empty shards.
    pub(crate) fn new(shards: impl IntoIterator<Item = String>) -> Self {
        Self { shards: shards.into_iter().collect(), ..Self::default() }
    }

    pub(crate) fn shards(&self) -> &[String] {
        &self.shards
    }

    /// Checks that a shard exists.
    pub(crate) fn known(&self, shard: &str) -> Result<(), Fault> {
        if self.shards.iter().any(|it| it == shard) {
            return Ok(());
        }
        Err(shard_not_found(shard))
    }

    /// Primary shard of a database, if the database exists.
    pub(crate) fn primary(&self, database: &str) -> Option<&str> {
        // `admin` and `config` are on the first shard, which acts as config shard.
        if matches!(database, "admin" | "config") {
            return self.shards.first().map(String::as_str);
        }
        self.databases.get(database).map(String::as_str)
    }

    pub(crate) fn databases(&self) -> impl Iterator<Item = (&String, &String)> {
        self.databases.iter()
    }

    /// Creates a missing database: on `shard`, or on the shard with the fewest databases.
    pub(crate) fn create_database(
        &mut self,
        database: &str,
        shard: Option<&str>,
    ) -> Result<String, Fault> {
        if let Some(shard) = shard {
            self.known(shard)?;
        }
        if let Some(primary) = self.primary(database) {
            if shard.is_some_and(|shard| shard != primary) {
                return Err(Fault::new(
                    Code::NAMESPACE_EXISTS,
                    format!(
                        "Database {database} already exists on another primary shard {primary}"
                    ),
                ));
            }
            return Ok(primary.to_owned());
        }
        let count = |shard: &String| self.databases.values().filter(|it| *it == shard).count();
        let primary = match shard {
            Some(shard) => shard.to_owned(),
            None => self.shards.iter().min_by_key(|it| count(it)).cloned().unwrap_or_default(),
        };
        self.databases.insert(database.to_owned(), primary.clone());
        Ok(primary)
    }

    /// Runs `enableSharding`.
    pub(crate) fn enable_sharding(&mut self, database: &str) {
        self.enabled.insert(database.to_owned());
    }

    /// Returns `true` if `enableSharding` was run for the database.
    pub(crate) fn is_sharding_enabled(&self, database: &str) -> bool {
        self.enabled.contains(database)
    }

    /// Removes a database and its collections.
    pub(crate) fn drop_database(&mut self, database: &str) {
        self.databases.remove(database);
        self.enabled.remove(database);
        self.collections.retain(|namespace, _| namespace.database != database);
        self.zones.retain(|namespace, _| namespace.database != database);
        self.views.retain(|namespace, _| namespace.database != database);
        self.orphans.retain(|(namespace, _), _| namespace.database != database);
    }

    /// Removes a collection and its zone ranges.
    pub(crate) fn drop_collection(&mut self, namespace: &Namespace) {
        self.collections.remove(namespace);
        self.zones.remove(namespace);
        self.views.remove(namespace);
        self.orphans.retain(|(other, _), _| other != namespace);
    }

    /// Renames a sharded collection and its zone ranges.
    pub(crate) fn rename_collection(&mut self, from: &Namespace, to: &Namespace) {
        if let Some(sharded) = self.collections.remove(from) {
            self.collections.insert(to.clone(), sharded);
        }
        if let Some(zones) = self.zones.remove(from) {
            self.zones.insert(to.clone(), zones);
        }
        let orphans = std::mem::take(&mut self.orphans);
        let renamed = |((namespace, shard), ids): ((Namespace, String), Vec<Bson>)| {
            let namespace = if namespace == *from { to.clone() } else { namespace };
            ((namespace, shard), ids)
        };
        self.orphans = orphans.into_iter().map(renamed).collect();
    }

    /// A sharded collection, or the error `NamespaceNotSharded`.
    pub(crate) fn sharded(&self, namespace: &Namespace) -> Result<&ShardedCollection, Fault> {
        self.collections.get(namespace).ok_or_else(|| not_sharded(namespace))
    }

    /// Mutable variant of [`sharded`](Self::sharded).
    pub(crate) fn sharded_mut(
        &mut self,
        namespace: &Namespace,
    ) -> Result<&mut ShardedCollection, Fault> {
        self.collections.get_mut(namespace).ok_or_else(|| not_sharded(namespace))
    }

    /// Zones of a shard.
    pub(crate) fn zones_of(&self, shard: &str) -> impl Iterator<Item = &String> {
        self.shard_zones.get(shard).into_iter().flatten()
    }

    /// Shards of a zone, in the order of the cluster.
    pub(crate) fn shards_in(&self, zone: &str) -> Vec<&str> {
        self.shards
            .iter()
            .filter(|shard| self.zones_of(shard).any(|it| it == zone))
            .map(String::as_str)
            .collect()
    }

    /// Adds a shard to a zone.
    pub(crate) fn add_to_zone(&mut self, shard: &str, zone: &str) -> Result<(), Fault> {
        self.known(shard)?;
        self.shard_zones.entry(shard.to_owned()).or_default().insert(zone.to_owned());
        Ok(())
    }

    /// Removes a shard from a zone. Fails if zone ranges would be left without a shard.
    pub(crate) fn remove_from_zone(&mut self, shard: &str, zone: &str) -> Result<(), Fault> {
        self.known(shard)?;
        let last = self.shards_in(zone) == [shard];
        if last && self.zones.values().flatten().any(|range| range.zone == zone) {
            return Err(Fault::new(
                Code::named(154, "ZoneStillInUse"),
                "No other shards are assigned to the zone and there are still chunk ranges \
                 associated with it. Remove all zone ranges associated with this zone first",
            ));
        }
        if let Some(zones) = self.shard_zones.get_mut(shard) {
            zones.remove(zone);
        }
        Ok(())
    }

    /// Assigns a range to a zone, or with `None` removes it from its zone.
    pub(crate) fn set_zone_range(
        &mut self,
        namespace: &Namespace,
        min: Document,
        max: Document,
        zone: Option<&str>,
    ) -> Result<(), Fault> {
        // Before a collection is sharded, the bounds determine its shard key.
        let key = match self.collections.get(namespace) {
            Some(sharded) => sharded.key.clone(),
            None => {
                ShardKey::parse(&min.keys().map(|name| (name.clone(), Bson::Int32(1))).collect())?
            }
        };
        let range = ChunkRange { min: key.bound(&min)?, max: key.bound(&max)? };
        if compare_keys(&range.min, &range.max).is_ge() {
            return Err(Fault::failed_to_parse(format!(
                "min: {} should be less than max: {}",
                Bson::from(min),
                Bson::from(max)
            )));
        }
        let ranges = self.zones.entry(namespace.clone()).or_default();
        let same = ranges.iter().position(|it| it.range(&key).is_ok_and(|it| it == range));
        let Some(zone) = zone else {
            if let Some(place) = same {
                ranges.remove(place);
            }
            return Ok(());
        };
        if same.is_some_and(|place| ranges[place].zone == zone) {
            return Ok(());
        }
        for other in ranges.iter() {
            if other.range(&key)?.overlaps(&range) {
                return Err(Fault::new(
                    Code::named(178, "RangeOverlapConflict"),
                    format!(
                        "Zone range: {} -->> {} on {zone} is overlapping with existing: {} -->> {} \
                         on {}",
                        Bson::from(min),
                        Bson::from(max),
                        Bson::from(&other.min),
                        Bson::from(&other.max),
                        other.zone
                    ),
                ));
            }
        }
        if self.shards_in(zone).is_empty() {
            return Err(Fault::new(
                Code::named(177, "ZoneNotFound"),
                format!("Zone {zone} does not exist"),
            ));
        }
        let ranges = self.zones.entry(namespace.clone()).or_default();
        ranges.push(CatalogZoneRange { min, max, zone: zone.to_owned() });
        ranges.sort_by(|left, right| match (left.range(&key), right.range(&key)) {
            (Ok(left), Ok(right)) => compare_keys(&left.min, &right.min),
            _ => std::cmp::Ordering::Equal,
        });
        Ok(())
    }

    /// Rejects a shard key that differs from the fields of existing zone ranges.
    pub(crate) fn check_zones(&self, namespace: &Namespace, key: &ShardKey) -> Result<(), Fault> {
        let fields = || key.fields().iter().map(|field| &field.path);
        let of_key = |bound: &Document| bound.keys().eq(fields());
        let ranges = self.zones.get(namespace).map(Vec::as_slice).unwrap_or_default();
        match ranges.iter().find(|it| !of_key(&it.min) || !of_key(&it.max)) {
            None => Ok(()),
            Some(range) => Err(Fault::new(
                Code::INVALID_OPTIONS,
                format!(
                    "the proposed shard key {} does not match with the shard key of the existing zone \
                     {} -->> {}",
                    Bson::from(key.pattern()),
                    Bson::from(&range.min),
                    Bson::from(&range.max)
                ),
            )),
        }
    }

    /// Zone ranges of a collection under its shard key.
    pub(crate) fn zone_ranges(
        &self,
        namespace: &Namespace,
        key: &ShardKey,
    ) -> Result<Vec<(ChunkRange, String)>, Fault> {
        let ranges = self.zones.get(namespace).map(Vec::as_slice).unwrap_or_default();
        ranges.iter().map(|it| Ok((it.range(key)?, it.zone.clone()))).collect()
    }

    /// Initial chunks of a collection. Existing zones place the chunks of an empty collection at
    /// once. Without zones, hashed keys are spread over all shards. Otherwise the collection starts
    /// with one chunk on the primary shard.
    pub(crate) fn first_chunks(
        &self,
        namespace: &Namespace,
        key: &ShardKey,
        primary: &str,
        empty: bool,
    ) -> Result<Chunks, Fault> {
        let mut chunks = Chunks::whole(key.min_key(), key.max_key(), primary);
        let zones = self.zone_ranges(namespace, key)?;
        if !empty {
            return Ok(chunks);
        }
        if zones.is_empty() {
            if key.starts_with_hashed() {
                spread_hashes(&mut chunks, key, &self.shards);
            }
            return Ok(chunks);
        }
        for (range, _) in &zones {
            chunks.split_at(&range.min);
            chunks.split_at(&range.max);
        }
        let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
        for range in chunks.iter().map(|it| it.range.clone()).collect::<Vec<_>>() {
            let zone = zones.iter().find(|(zoned, _)| zoned.covers(&range));
            let zone = zone.map_or("", |(_, zone)| zone.as_str());
            let shards = match zone {
                "" => self.shards.iter().map(String::as_str).collect(),
                zone => self.shards_in(zone),
            };
            if shards.is_empty() {
                continue;
            }
            let turn = turns.entry(zone).or_default();
            chunks.assign(&range, shards[*turn % shards.len()]);
            *turn += 1;
        }
        Ok(chunks)
    }
}

/// Splits the hash space into two equal chunks per shard.
fn spread_hashes(chunks: &mut Chunks, key: &ShardKey, shards: &[String]) {
    let count = shards.len() * 2;
    let width = u64::MAX / count as u64;
    for place in 1..count {
        let distance = width.saturating_mul(place as u64);
        let mut point: ShardKeyValue = key.min_key();
        point[0] = Bson::Int64(i64::MIN.wrapping_add_unsigned(distance));
        chunks.split_at(&point);
    }
    let ranges: Vec<ChunkRange> = chunks.iter().map(|it| it.range.clone()).collect();
    for (place, range) in ranges.iter().enumerate() {
        chunks.assign(range, &shards[place / 2]);
    }
}

/// Error of a collection that is not sharded.
pub(crate) fn not_sharded(namespace: &Namespace) -> Fault {
    Fault::new(
        Code::named(118, "NamespaceNotSharded"),
        format!("Collection {namespace} is not sharded."),
    )
}

/// Error of a shard that does not exist.
pub(crate) fn shard_not_found(shard: &str) -> Fault {
    Fault::new(Code::named(70, "ShardNotFound"), format!("Shard {shard} not found"))
}
