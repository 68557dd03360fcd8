//! Sharded clusters: the contents of their `config` database that a layout concerns.

use std::collections::BTreeMap;

use bson::Document;
use serde::Serialize;

use super::{bounds, layout::Layout, members::ShardMembers};

/// Sharded cluster at the time it was [read](Self::read), without the parts that no layout concerns.
///
/// A plain value: [`plan`](super::plan) depends on nothing else.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Cluster {
    /// Shards, sorted by name.
    pub shards: Vec<Shard>,
    /// Ranges that are assigned to zones, of all collections.
    pub ranges: Vec<ZoneRange>,
    /// State of the layout's collection.
    pub collection: CollectionState,
    /// Chunks of the layout's collection, sorted by key. Empty if it is not sharded.
    pub chunks: Vec<Chunk>,
    /// `true` if sharding is enabled for its database. Since MongoDB 6.0, always.
    pub sharding_enabled: bool,
    /// State of the balancer.
    pub balancer: Balancer,
    /// Members of each shard's replica set, by the name of the shard.
    pub members: BTreeMap<String, ShardMembers>,
}

/// Shard of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Shard {
    /// Name.
    pub name: String,
    /// Members, as the cluster lists them (`host`).
    pub host: String,
    /// Zones of the shard.
    pub zones: Vec<String>,
    /// `true` if it is being removed from the cluster (`draining`).
    pub draining: bool,
}

/// Range of keys that is assigned to a zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ZoneRange {
    /// Namespace of the collection, `database.collection`.
    pub collection: String,
    /// Lower bound, included.
    pub min: Document,
    /// Upper bound, excluded.
    pub max: Document,
    /// Name of the zone.
    pub zone: String,
}

/// Chunk: a range of keys on a shard.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Chunk {
    /// Lower bound, included.
    pub min: Document,
    /// Upper bound, excluded.
    pub max: Document,
    /// Name of the shard.
    pub shard: String,
}

/// State of the layout's collection.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CollectionState {
    /// Kind of collection; `None` if it does not exist.
    pub kind: Option<CollectionKind>,
    /// Shard key, if it is sharded.
    pub shard_key: Option<Document>,
    /// `true` if it has a document.
    pub has_documents: bool,
    /// Indexes.
    pub indexes: Vec<CollectionIndex>,
    /// `true` if it has a default collation.
    pub has_collation: bool,
    /// `true` if balancing is disabled for it (`noBalance`).
    pub balancing_disabled: bool,
}

/// Kind of collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollectionKind {
    /// A collection.
    Collection,
    /// A capped collection, which cannot be sharded.
    Capped,
    /// A view.
    View,
    /// A time series collection.
    TimeSeries,
}

/// Index of a collection.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CollectionIndex {
    /// Name.
    pub name: String,
    /// Key pattern.
    pub keys: Document,
    /// `true` if it is unique.
    pub unique: bool,
    /// `true` if it is sparse, partial, or has a collation: it cannot support a shard key.
    pub special: bool,
}

/// State of the balancer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Balancer {
    /// `true` if it is on.
    pub on: bool,
    /// Start and end of its active window, if it has one (`activeWindow`).
    pub window: Option<(String, String)>,
}

impl Cluster {
    /// Returns the shard with this name.
    pub(super) fn shard(&self, name: &str) -> Option<&Shard> {
        self.shards.iter().find(|shard| shard.name == name)
    }

    /// Returns the ranges of the layout's collection.
    pub(super) fn ranges_of(&self, layout: &Layout) -> impl Iterator<Item = &ZoneRange> {
        let collection = layout.collection().to_string();
        self.ranges.iter().filter(move |range| range.collection == collection)
    }

    /// Returns the zone that the range of a datacenter is assigned to, if the cluster has this range.
    pub(super) fn zone_of_range(&self, layout: &Layout, datacenter: &str) -> Option<&str> {
        let own = |it: &&ZoneRange| {
            bounds::has_fields_of_key(layout, &it.min)
                && bounds::is_range_of(layout, &it.min, &it.max, datacenter)
        };
        self.ranges_of(layout).find(own).map(|range| range.zone.as_str())
    }

    /// Returns the chunks with keys of a datacenter on shards of another, or of none, each with the datacenter
    /// of its keys.
    pub(super) fn misplaced<'a>(
        &'a self,
        layout: &'a Layout,
    ) -> impl Iterator<Item = (&'a Chunk, &'a str)> {
        let chunks = self.chunks.iter();
        chunks.filter(|it| bounds::has_fields_of_key(layout, &it.min)).filter_map(|chunk| {
            let misplaced = layout.datacenters().iter().find(|datacenter| {
                !datacenter.shards.contains(&chunk.shard)
                    && bounds::overlaps(layout, &chunk.min, &chunk.max, &datacenter.name)
            });
            Some((chunk, misplaced?.name.as_str()))
        })
    }
}

impl CollectionIndex {
    /// Returns `true` if a collection with documents can be sharded by a key because of this index.
    pub(super) fn supports(&self, key: &Document) -> bool {
        !self.special && starts_with(&self.keys, key)
    }
}

/// Returns `true` if a key pattern begins with all of these fields, ascending.
pub(super) fn starts_with(keys: &Document, beginning: &Document) -> bool {
    let ascending = |kind: &bson::Bson| match kind {
        bson::Bson::Int32(kind) => *kind == 1,
        bson::Bson::Int64(kind) => *kind == 1,
        bson::Bson::Double(kind) => *kind == 1.0,
        _ => false,
    };
    keys.len() >= beginning.len()
        && keys
            .iter()
            .zip(beginning.keys())
            .all(|((field, kind), required)| field == required && ascending(kind))
}
