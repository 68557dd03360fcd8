//! A sharded cluster as its `config` database shows it, as far as a layout concerns it.

use std::collections::BTreeMap;

use bson::Document;
use serde::Serialize;

use super::{bounds, layout::Layout, members::ShardMembers};

/// A sharded cluster as it was when it was [read](Self::read), as far as a layout concerns it.
///
/// It is a plain value: [`plan`](super::plan) decides by it alone.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Cluster {
    /// Its shards, in the order of their names.
    pub shards: Vec<Shard>,
    /// The ranges that are assigned to zones, of all collections.
    pub ranges: Vec<Range>,
    /// The layout's collection.
    pub collection: Found,
    /// The chunks of the layout's collection, in the order of their keys. None if it is not sharded.
    pub chunks: Vec<Chunk>,
    /// Whether collections of its database may be sharded: since MongoDB 6.0, always.
    pub sharding_enabled: bool,
    /// The balancer.
    pub balancer: Balancer,
    /// Members of each shard's replica set, by the shard's name.
    pub members: BTreeMap<String, ShardMembers>,
}

/// A shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Shard {
    /// Its name.
    pub name: String,
    /// Its members, as the cluster knows them.
    pub host: String,
    /// The zones that it is in.
    pub zones: Vec<String>,
    /// Whether it is being removed from the cluster.
    pub draining: bool,
}

/// A range of keys that is assigned to a zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Range {
    /// The collection, `database.collection`.
    pub collection: String,
    /// The least key of it.
    pub min: Document,
    /// The key that it ends before.
    pub max: Document,
    /// The zone.
    pub zone: String,
}

/// A chunk: a range of keys that lives on a shard.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Chunk {
    /// The least key of it.
    pub min: Document,
    /// The key that it ends before.
    pub max: Document,
    /// The shard.
    pub shard: String,
}

/// What was found where the layout's collection is to be.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Found {
    /// What it is; `None` if there is nothing.
    pub kind: Option<Kind>,
    /// Its shard key, if it is sharded.
    pub shard_key: Option<Document>,
    /// Whether it has a document.
    pub has_documents: bool,
    /// Its indexes.
    pub indexes: Vec<Index>,
    /// Whether its texts are compared by a collation of their own.
    pub has_collation: bool,
    /// Whether the balancer has been told to leave it alone.
    pub balancing_disabled: bool,
}

/// What stands under the name of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A collection.
    Collection,
    /// A capped collection, which cannot be sharded.
    Capped,
    /// A view.
    View,
    /// A time series collection.
    TimeSeries,
}

/// An index of the collection.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub keys: Document,
    /// Whether it is unique.
    pub unique: bool,
    /// Whether it is sparse, partial, or ordered by a collation: then no shard key can rest on it.
    pub special: bool,
}

/// What is known of the balancer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Balancer {
    /// Whether it is on.
    pub on: bool,
    /// The hours that it is limited to, if it is: from when to when.
    pub window: Option<(String, String)>,
}

impl Cluster {
    /// The shard of this name.
    pub(super) fn shard(&self, name: &str) -> Option<&Shard> {
        self.shards.iter().find(|shard| shard.name == name)
    }

    /// The ranges of the layout's collection.
    pub(super) fn ranges_of(&self, layout: &Layout) -> impl Iterator<Item = &Range> {
        let collection = layout.collection().to_string();
        self.ranges.iter().filter(move |range| range.collection == collection)
    }

    /// The range that the layout has for a datacenter, if the cluster has it: the zone it is
    /// assigned to.
    pub(super) fn zone_of_range(&self, layout: &Layout, datacenter: &str) -> Option<&str> {
        let own = |it: &&Range| {
            bounds::has_fields_of_key(layout, &it.min)
                && bounds::is_range_of(layout, &it.min, &it.max, datacenter)
        };
        self.ranges_of(layout).find(own).map(|range| range.zone.as_str())
    }

    /// The chunks with keys of a datacenter that live on shards of another, or of none, each with the
    /// datacenter that it should be in.
    pub(super) fn misplaced<'a>(
        &'a self,
        layout: &'a Layout,
    ) -> impl Iterator<Item = (&'a Chunk, &'a str)> {
        let chunks = self.chunks.iter();
        chunks.filter(|it| bounds::has_fields_of_key(layout, &it.min)).filter_map(|chunk| {
            let astray = layout.datacenters().iter().find(|datacenter| {
                !datacenter.shards.contains(&chunk.shard)
                    && bounds::overlaps(layout, &chunk.min, &chunk.max, &datacenter.name)
            });
            Some((chunk, astray?.name.as_str()))
        })
    }
}

impl Index {
    /// Whether a collection with documents can be sharded by a key because of this index.
    pub(super) fn supports(&self, key: &Document) -> bool {
        !self.special && starts_with(&self.keys, key)
    }
}

/// Whether an index, or a shard key, begins with all of these fields, ascending.
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
            .all(|((field, kind), wanted)| field == wanted && ascending(kind))
}
