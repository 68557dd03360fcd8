//! Contradictions between a cluster and a layout.

use std::fmt;

use bson::Document;

use super::{
    cluster::{CollectionIndex, CollectionKind, ZoneRange},
    layout::Layout,
    shell::{ShellDocument, ShellString},
};

/// Contradiction between a cluster and a layout. There is no plan until one of the two is changed; the message
/// has the remedy.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Contradiction {
    /// The layout has a shard that the cluster does not have.
    #[non_exhaustive]
    UnknownShard {
        /// Name of the shard.
        shard: String,
        /// Datacenter of the shard in the layout.
        datacenter: String,
        /// Shards of the cluster.
        known: Vec<String>,
    },
    /// The layout has a shard that is being removed from the cluster.
    #[non_exhaustive]
    DrainingShard {
        /// Name of the shard.
        shard: String,
        /// Datacenter of the shard in the layout.
        datacenter: String,
    },
    /// A shard is in the zone of a datacenter that the layout does not have it in.
    #[non_exhaustive]
    UnlistedShardInZone {
        /// Name of the shard.
        shard: String,
        /// The zone.
        zone: String,
    },
    /// The namespace is a view, or a collection that cannot be sharded.
    #[non_exhaustive]
    NotShardable {
        /// Namespace.
        collection: String,
        /// Kind of collection.
        kind: CollectionKind,
    },
    /// The collection is sharded by another key.
    #[non_exhaustive]
    OtherShardKey {
        /// Namespace of the collection.
        collection: String,
        /// Shard key of the collection.
        key: Document,
        /// Shard key of the layout.
        layout_key: Document,
    },
    /// The collection has a unique index that a collection with the layout's shard key cannot have.
    #[non_exhaustive]
    UniqueIndex {
        /// Name of the index.
        name: String,
        /// Key pattern of the index.
        keys: Document,
        /// The layout's shard key.
        shard_key: Document,
    },
    /// A range with keys of a datacenter is assigned to a zone, and is not the layout's.
    #[non_exhaustive]
    OtherRange {
        /// The range.
        range: ZoneRange,
        /// Name of the datacenter.
        datacenter: String,
    },
    /// A range whose bounds do not have the fields of the layout's shard key is assigned to a zone.
    #[non_exhaustive]
    RangeOfOtherKey {
        /// The range.
        range: ZoneRange,
        /// The layout's shard key.
        layout_key: Document,
    },
}

impl Contradiction {
    pub(super) fn unique_index(index: &CollectionIndex, layout: &Layout) -> Self {
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
                 cluster; remove it from the layout, or cancel its removal"
            ),
            Self::UnlistedShardInZone { shard, zone } => write!(
                f,
                "shard {shard} is in zone {zone}, but not in that datacenter of the layout: documents of \
                 {zone} may be stored on it. Add it to the layout, or remove it from the zone: \
                 sh.removeShardFromZone({}, {})",
                ShellString(shard),
                ShellString(zone)
            ),
            Self::NotShardable { collection, kind } => {
                let what = match kind {
                    CollectionKind::Capped => "a capped collection, which cannot be sharded",
                    CollectionKind::View => "a view, which cannot be sharded",
                    CollectionKind::TimeSeries => {
                        "a time series collection, which requires another kind of shard key"
                    }
                    CollectionKind::Collection => "a collection that cannot be sharded",
                };
                write!(f, "{collection} is {what}. Use another collection")
            }
            Self::OtherShardKey { collection, key, layout_key } => write!(
                f,
                "{collection} is sharded already, by {}, not by {}. Use that key in the layout if it \
                 begins with the datacenter field, or use another collection, or reshard it \
                 (reshardCollection, since MongoDB 5.0)",
                ShellDocument(key),
                ShellDocument(layout_key)
            ),
            Self::UniqueIndex { name, keys, shard_key } => write!(
                f,
                "the index {name} on {} is unique, which a collection sharded by {} does not allow: a \
                 unique index must begin with the shard key. Drop it, or make it not unique",
                ShellDocument(keys),
                ShellDocument(shard_key)
            ),
            Self::OtherRange { range, datacenter } => write!(
                f,
                "keys of {datacenter} are assigned to zone {} already, as a part of {} up to {}. If that \
                 is obsolete: {}",
                range.zone,
                ShellDocument(&range.min),
                ShellDocument(&range.max),
                RemoveRangeCommand(range)
            ),
            Self::RangeOfOtherKey { range, layout_key } => write!(
                f,
                "{} up to {} is assigned to zone {}, but its bounds are not of the shard key {}. If that is \
                 obsolete: {}",
                ShellDocument(&range.min),
                ShellDocument(&range.max),
                range.zone,
                ShellDocument(layout_key),
                RemoveRangeCommand(range)
            ),
        }
    }
}

/// Command that removes a range from its zone.
struct RemoveRangeCommand<'a>(&'a ZoneRange);

impl fmt::Display for RemoveRangeCommand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ZoneRange { collection, min, max, .. } = self.0;
        let (min, max) = (ShellDocument(min), ShellDocument(max));
        write!(f, "sh.removeRangeFromZone({}, {min}, {max})", ShellString(collection))
    }
}

/// All contradictions between a cluster and a layout, at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Contradictions(pub(super) Vec<Contradiction>);

impl Contradictions {
    /// Returns each of them.
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
