//! What a cluster has that a layout contradicts, and what to do about it.

use std::fmt;

use bson::Document;

use super::{
    cluster::{Index, Kind, Range},
    layout::Layout,
    shell::{InShell, Text},
};

/// What a cluster has that contradicts a layout. Nothing is done until it is resolved, by changing one
/// or the other; its text says how.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Contradiction {
    /// The layout has a shard that the cluster does not have.
    #[non_exhaustive]
    UnknownShard {
        /// The shard.
        shard: String,
        /// The datacenter that it is to be in.
        datacenter: String,
        /// The shards that there are.
        known: Vec<String>,
    },
    /// The layout has a shard that is being removed from the cluster.
    #[non_exhaustive]
    DrainingShard {
        /// The shard.
        shard: String,
        /// The datacenter that it is to be in.
        datacenter: String,
    },
    /// A shard is in the zone of a datacenter that it is not in, by the layout.
    #[non_exhaustive]
    ShardOfNoDatacenter {
        /// The shard.
        shard: String,
        /// The zone.
        zone: String,
    },
    /// Something else than a plain collection has the collection's name.
    #[non_exhaustive]
    NotShardable {
        /// The name.
        collection: String,
        /// What it is.
        kind: Kind,
    },
    /// The collection is sharded by another key.
    #[non_exhaustive]
    OtherShardKey {
        /// The collection.
        collection: String,
        /// Its shard key.
        key: Document,
        /// The layout's.
        wanted: Document,
    },
    /// The collection has a unique index that could not be unique any more.
    #[non_exhaustive]
    UniqueIndex {
        /// The index.
        name: String,
        /// Its fields.
        keys: Document,
        /// The layout's shard key.
        shard_key: Document,
    },
    /// A range is assigned to a zone that has keys of a datacenter in it, and is not the layout's.
    #[non_exhaustive]
    OtherRange {
        /// The range.
        range: Range,
        /// The datacenter.
        datacenter: String,
    },
    /// A range is assigned to a zone whose bounds are not those of the layout's shard key.
    #[non_exhaustive]
    RangeOfOtherKey {
        /// The range.
        range: Range,
        /// The layout's shard key.
        wanted: Document,
    },
}

impl Contradiction {
    pub(super) fn unique_index(index: &Index, layout: &Layout) -> Self {
        Self::UniqueIndex {
            name: index.name.clone(),
            keys: index.keys.clone(),
            shard_key: layout.key_pattern(),
        }
    }
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownShard { shard, datacenter, known } => write!(
                f,
                "there is no shard {shard}, which the layout has in {datacenter}; the cluster has {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ),
            Self::DrainingShard { shard, datacenter } => write!(
                f,
                "shard {shard}, which the layout has in {datacenter}, is being removed from the \
                 cluster; take it out of the layout, or call that off"
            ),
            Self::ShardOfNoDatacenter { shard, zone } => write!(
                f,
                "shard {shard} is in zone {zone}, but not in that datacenter of the layout: documents of \
                 {zone} would live on it, too. Add it to the layout, or take it out of the zone: \
                 sh.removeShardFromZone({}, {})",
                Text(shard),
                Text(zone)
            ),
            Self::NotShardable { collection, kind } => {
                let what = match kind {
                    Kind::Capped => "a capped collection, which cannot be sharded",
                    Kind::View => "a view; the collection behind it can be sharded",
                    Kind::TimeSeries => {
                        "a time series collection, which has a shard key of its own kind"
                    }
                    Kind::Collection => "a collection that cannot be sharded",
                };
                write!(f, "{collection} is {what}. Use another collection")
            }
            Self::OtherShardKey { collection, key, wanted } => write!(
                f,
                "{collection} is sharded already, by {}, not by {}. Use that key in the layout if it \
                 begins with the field that names the datacenter, or another collection, or reshard it \
                 (reshardCollection, since MongoDB 5.0)",
                InShell(key),
                InShell(wanted)
            ),
            Self::UniqueIndex { name, keys, shard_key } => write!(
                f,
                "the index {name} on {} is unique, which a collection sharded by {} cannot keep: a \
                 unique index has to begin with the shard key. Drop it, or make it not unique",
                InShell(keys),
                InShell(shard_key)
            ),
            Self::OtherRange { range, datacenter } => write!(
                f,
                "keys of {datacenter} are assigned to zone {} already, as a part of {} up to {}. If that \
                 is not wanted any more: {}",
                range.zone,
                InShell(&range.min),
                InShell(&range.max),
                Removing(range)
            ),
            Self::RangeOfOtherKey { range, wanted } => write!(
                f,
                "{} up to {} is assigned to zone {}, which are no bounds of the shard key {}. If that is \
                 not wanted any more: {}",
                InShell(&range.min),
                InShell(&range.max),
                range.zone,
                InShell(wanted),
                Removing(range)
            ),
        }
    }
}

/// How a range is taken out of its zone.
struct Removing<'a>(&'a Range);

impl fmt::Display for Removing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { collection, min, max, .. } = self.0;
        let (min, max) = (InShell(min), InShell(max));
        write!(f, "sh.removeRangeFromZone({}, {min}, {max})", Text(collection))
    }
}

/// All that contradicts a layout in a cluster; there is at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Contradictions(pub(super) Vec<Contradiction>);

impl Contradictions {
    /// Each of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Contradiction> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Contradictions {
    type Item = &'a Contradiction;
    type IntoIter = std::slice::Iter<'a, Contradiction>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Contradictions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "the layout contradicts the cluster: {only}");
        }
        f.write_str("the layout contradicts the cluster:")?;
        self.0.iter().try_for_each(|each| write!(f, "\n- {each}"))
    }
}

impl std::error::Error for Contradictions {}
