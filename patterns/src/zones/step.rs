//! Steps of plans.

use std::fmt;

use bson::{Bson, Document, doc};
use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::{layout::Layout, shell::ShellDocument};

/// Step of a [`Plan`](super::Plan): a command and its reason.
///
/// A step is idempotent.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    kind: StepKind,
    database: String,
    command: Document,
    reason: String,
}

/// Effect of a step.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StepKind {
    /// Enables sharding for a database. Not needed since MongoDB 6.0.
    #[non_exhaustive]
    EnableSharding {
        /// Name of the database.
        database: String,
    },
    /// Adds a shard to a zone.
    #[non_exhaustive]
    AddShardToZone {
        /// Name of the shard.
        shard: String,
        /// Name of the zone.
        zone: String,
    },
    /// Assigns a range of keys to a zone.
    #[non_exhaustive]
    AddRange {
        /// Name of the zone.
        zone: String,
        /// Lower bound, included.
        min: Document,
        /// Upper bound, excluded.
        max: Document,
    },
    /// Creates the index that the shard key needs.
    #[non_exhaustive]
    CreateIndex {
        /// Key pattern.
        keys: Document,
    },
    /// Shards the collection.
    #[non_exhaustive]
    ShardCollection {
        /// Shard key.
        key: Document,
    },
    /// Removes a range of keys from its zone.
    #[non_exhaustive]
    RemoveRange {
        /// Name of the zone.
        zone: String,
        /// Lower bound, included.
        min: Document,
        /// Upper bound, excluded.
        max: Document,
    },
    /// Removes a shard from a zone.
    #[non_exhaustive]
    RemoveShardFromZone {
        /// Name of the shard.
        shard: String,
        /// Name of the zone.
        zone: String,
    },
}

impl Step {
    fn admin(kind: StepKind, command: Document, reason: String) -> Self {
        Self { kind, database: "admin".to_owned(), command, reason }
    }

    pub(super) fn enable_sharding(layout: &Layout) -> Self {
        let database = layout.collection().db.clone();
        let command = doc! { "enableSharding": &database };
        let reason =
            "MongoDB before 6.0 requires this before a collection can be sharded".to_owned();
        Self::admin(StepKind::EnableSharding { database }, command, reason)
    }

    pub(super) fn add_shard_to_zone(shard: &str, zone: &str, reason: String) -> Self {
        let kind = StepKind::AddShardToZone { shard: shard.to_owned(), zone: zone.to_owned() };
        let command = doc! { "addShardToZone": shard, "zone": zone };
        Self::admin(kind, command, reason)
    }

    pub(super) fn add_range(layout: &Layout, zone: &str) -> Self {
        let (min, max) = (layout.min(zone), layout.max(zone));
        let command = range_command(layout, &min, &max, zone.into());
        let kind = StepKind::AddRange { zone: zone.to_owned(), min, max };
        let field = layout.datacenter_field();
        Self::admin(kind, command, format!("documents whose {field} is {zone} are stored there"))
    }

    pub(super) fn create_index(layout: &Layout, collated: bool) -> Self {
        let keys = layout.key_pattern();
        let name: Vec<String> =
            layout.shard_key().iter().map(|field| format!("{field}_1")).collect();
        let mut index = doc! { "key": &keys, "name": name.join("_") };
        if collated {
            index.insert("collation", doc! { "locale": "simple" });
        }
        let command = doc! {
            "createIndexes": &layout.collection().coll,
            "indexes": [index],
            "writeConcern": { "w": "majority" },
        };
        let reason = "a collection with documents can be sharded only with this index".to_owned();
        let database = layout.collection().db.clone();
        Self { kind: StepKind::CreateIndex { keys }, database, command, reason }
    }

    pub(super) fn shard_collection(layout: &Layout, collated: bool, has_documents: bool) -> Self {
        let key = layout.key_pattern();
        let mut command = doc! { "shardCollection": layout.collection().to_string(), "key": &key };
        if collated {
            command.insert("collation", doc! { "locale": "simple" });
        }
        let reason = if has_documents {
            "from now on, the balancer moves its documents to their zones"
        } else {
            "the collection is empty and its zones exist: its chunks are created on the right shards"
        };
        Self::admin(StepKind::ShardCollection { key }, command, reason.to_owned())
    }

    pub(super) fn remove_range(layout: &Layout, zone: &str) -> Self {
        let (min, max) = (layout.min(zone), layout.max(zone));
        let command = range_command(layout, &min, &max, Bson::Null);
        let kind = StepKind::RemoveRange { zone: zone.to_owned(), min, max };
        Self::admin(kind, command, format!("documents of {zone} may then be on any shard"))
    }

    pub(super) fn remove_shard_from_zone(shard: &str, zone: &str) -> Self {
        let kind = StepKind::RemoveShardFromZone { shard: shard.to_owned(), zone: zone.to_owned() };
        let command = doc! { "removeShardFromZone": shard, "zone": zone };
        Self::admin(kind, command, format!("nothing else is assigned to zone {zone}"))
    }

    /// Returns the effect.
    pub fn kind(&self) -> &StepKind {
        &self.kind
    }

    /// Returns the reason.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns the command.
    pub fn command(&self) -> &Document {
        &self.command
    }

    /// Returns the database that the command runs on.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Returns the command in the syntax of `mongosh`.
    ///
    /// ```
    /// # use steadfast_patterns::zones::{self, Cluster, Layout};
    /// # let layout = Layout::new("app.m", ["dc", "id"], [("alfa", ["s0"])]).unwrap();
    /// # let mut cluster = Cluster::default();
    /// # cluster.shards.push(Default::default());
    /// # cluster.shards[0].name = "s0".to_owned();
    /// # let plan = zones::plan(&layout, &cluster).unwrap();
    /// assert_eq!(
    ///     plan.steps()[1].in_shell(),
    ///     r#"db.adminCommand({ addShardToZone: "s0", zone: "alfa" })"#
    /// );
    /// ```
    pub fn in_shell(&self) -> String {
        let command = ShellDocument(&self.command);
        if self.database == "admin" {
            return format!("db.adminCommand({command})");
        }
        format!(
            "db.getSiblingDB({}).runCommand({command})",
            super::shell::ShellString(&self.database)
        )
    }
}

fn range_command(layout: &Layout, min: &Document, max: &Document, zone: Bson) -> Document {
    doc! {
        "updateZoneKeyRange": layout.collection().to_string(), "min": min, "max": max, "zone": zone,
    }
}

/// Writes the effect as a phrase.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            StepKind::EnableSharding { database } => write!(f, "enable sharding for {database}"),
            StepKind::AddShardToZone { shard, zone } => write!(f, "add {shard} to zone {zone}"),
            StepKind::AddRange { zone, min, max } => {
                write!(
                    f,
                    "assign {} up to {} to zone {zone}",
                    ShellDocument(min),
                    ShellDocument(max)
                )
            }
            StepKind::CreateIndex { keys } => write!(f, "create the index {}", ShellDocument(keys)),
            StepKind::ShardCollection { key } => {
                write!(f, "shard the collection by {}", ShellDocument(key))
            }
            StepKind::RemoveRange { zone, min, max } => {
                write!(
                    f,
                    "remove {} up to {} from zone {zone}",
                    ShellDocument(min),
                    ShellDocument(max)
                )
            }
            StepKind::RemoveShardFromZone { shard, zone } => {
                write!(f, "remove {shard} from zone {zone}")
            }
        }
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut step = serializer.serialize_struct("Step", 5)?;
        step.serialize_field("description", &self.to_string())?;
        step.serialize_field("reason", &self.reason)?;
        step.serialize_field("database", &self.database)?;
        step.serialize_field("command", &self.command)?;
        step.serialize_field("shell", &self.in_shell())?;
        step.end()
    }
}
