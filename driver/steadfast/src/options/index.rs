//! Options of indexes and search indexes: how they are created, listed and dropped.

use std::time::Duration;

use bson::{Bson, Document};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use steadfast_core::concern::WriteConcern;

use super::{Collation, TimeoutMode};

options! {
    /// What kind of index an [`IndexModel`](crate::IndexModel) is.
    pub struct IndexOptions, IndexOptionsBuilder {
        /// Whether older servers build it beside other work.
        background: bool,
        /// How old documents grow; the key must be a date.
        #[serde(rename = "expireAfterSeconds", with = "crate::serde_helpers::seconds")]
        expire_after: Duration,
        /// Its name; by default one made of its keys.
        name: String,
        /// Whether documents without the field are left out.
        sparse: bool,
        /// Settings for the storage engine.
        storage_engine: Document,
        /// Whether no two documents may have the same key.
        unique: bool,
        /// The version of its format.
        #[serde(rename = "v")]
        version: IndexVersion,
        /// For text: the language of the documents.
        #[serde(rename = "default_language")]
        default_language: String,
        /// For text: the field in which a document names its own language.
        #[serde(rename = "language_override")]
        language_override: String,
        /// For text: the version of its format.
        text_index_version: TextIndexVersion,
        /// For text: how much each field counts.
        weights: Document,
        /// For places on a sphere: the version of its format.
        #[serde(rename = "2dsphereIndexVersion")]
        sphere_2d_index_version: Sphere2DIndexVersion,
        /// For places on a plane: how precise they are kept.
        #[serde(serialize_with = "small_count")]
        bits: u32,
        /// For places on a plane: the upper bound of both coordinates.
        max: f64,
        /// For places on a plane: the lower bound of both coordinates.
        min: f64,
        /// For haystacks, which no current server has: within how many units places are kept
        /// together.
        #[serde(serialize_with = "small_count")]
        bucket_size: u32,
        /// Which documents it holds.
        partial_filter_expression: Document,
        /// How strings are compared.
        collation: Collation,
        /// For wildcards: which fields it holds.
        wildcard_projection: Document,
        /// Whether queries pass it over.
        hidden: bool,
        /// Whether a server said that its collection is kept in its order; never sent.
        #[serde(skip_serializing)]
        clustered: bool,
    }
}

impl IndexOptions {
    /// Whether the collection is kept in the order of this index.
    pub fn clustered(&self) -> Option<bool> {
        self.clustered
    }
}

/// Servers want these as 32-bit integers.
#[allow(clippy::ref_option)]
fn small_count<S: Serializer>(value: &Option<u32>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => version_number(*value, serializer),
        None => serializer.serialize_none(),
    }
}

fn version_number<S: Serializer>(number: u32, serializer: S) -> Result<S::Ok, S::Error> {
    match i32::try_from(number) {
        Ok(number) => serializer.serialize_i32(number),
        Err(_) => serializer.serialize_u32(number),
    }
}

/// Declares the versions of a format, which servers know by number.
macro_rules! versions {
    ($(#[$doc:meta])+ $kind:ident { $($(#[$variant_doc:meta])+ $variant:ident = $number:literal),+ $(,)? }) => {
        $(#[$doc])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $kind {
            $($(#[$variant_doc])+ $variant,)+
            /// One that this driver has no name for; sent as it is.
            Custom(u32),
        }

        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                version_number(
                    match self {
                        $(Self::$variant => $number,)+
                        Self::Custom(number) => *number,
                    },
                    serializer,
                )
            }
        }

        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(match u32::deserialize(deserializer)? {
                    $($number => Self::$variant,)+
                    number => Self::Custom(number),
                })
            }
        }
    };
}

versions! {
    /// The version of an index's format.
    IndexVersion {
        /// Of servers before 2.0, and long gone.
        V0 = 0,
        /// Of servers before 3.4.
        V1 = 1,
        /// The current one.
        V2 = 2,
    }
}

versions! {
    /// The version of a text index's format.
    TextIndexVersion {
        /// Of servers before 2.6.
        V1 = 1,
        /// Of servers before 3.2.
        V2 = 2,
        /// The current one.
        V3 = 3,
    }
}

versions! {
    /// The version of the format of an index of places on a sphere.
    Sphere2DIndexVersion {
        /// Of servers before 3.2.
        V2 = 2,
        /// The current one.
        V3 = 3,
    }
}

options! {
    /// How [`create_index`](crate::Collection::create_index) and
    /// [`create_indexes`](crate::Collection::create_indexes) make indexes.
    pub struct CreateIndexOptions, CreateIndexOptionsBuilder, with timeout {
        /// Which members must be ready before the index counts as made.
        commit_quorum: CommitQuorum,
        /// How long the server may work on it.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// How durable it must be; by default what the collection says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
    }
}

options! {
    /// How [`drop_index`](crate::Collection::drop_index) and
    /// [`drop_indexes`](crate::Collection::drop_indexes) drop indexes.
    pub struct DropIndexOptions, DropIndexOptionsBuilder, with timeout {
        /// How long the server may work on it.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// How durable it must be; by default what the collection says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
    }
}

options! {
    /// How [`list_indexes`](crate::Collection::list_indexes) lists.
    pub struct ListIndexesOptions, ListIndexesOptionsBuilder, with timeout {
        /// How long the server may work on it.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// What the time limit is for: the cursor's whole life, or each step of it. Needs a
        /// `timeout`, be it this call's or inherited.
        #[serde(skip)]
        timeout_mode: TimeoutMode,
        /// How many come at a time.
        #[serde(skip_serializing)]
        batch_size: u32,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
    }
}

/// Which members of a replica set must be ready before an index counts as made.
///
/// Servers know it from version 4.4 on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitQuorum {
    /// That many voting members; with none, nobody waits.
    Nodes(u32),
    /// All voting members that bear data.
    VotingMembers,
    /// A majority of them.
    Majority,
    /// A mode that the replica set's configuration defines.
    Custom(String),
}

impl Serialize for CommitQuorum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nodes(count) => match i32::try_from(*count) {
                Ok(count) => serializer.serialize_i32(count),
                Err(_) => serializer.serialize_u32(*count),
            },
            Self::VotingMembers => serializer.serialize_str("votingMembers"),
            Self::Majority => serializer.serialize_str("majority"),
            Self::Custom(mode) => serializer.serialize_str(mode),
        }
    }
}

impl<'de> Deserialize<'de> for CommitQuorum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum CountOrMode {
            Count(u32),
            Mode(String),
        }
        Ok(match CountOrMode::deserialize(deserializer)? {
            CountOrMode::Count(count) => Self::Nodes(count),
            CountOrMode::Mode(mode) => match mode.as_str() {
                "votingMembers" => Self::VotingMembers,
                "majority" => Self::Majority,
                _ => Self::Custom(mode),
            },
        })
    }
}

options! {
    /// How [`create_search_index`](crate::Collection::create_search_index) works.
    pub struct CreateSearchIndexOptions, CreateSearchIndexOptionsBuilder, with timeout {}
}

options! {
    /// How [`update_search_index`](crate::Collection::update_search_index) works.
    pub struct UpdateSearchIndexOptions, UpdateSearchIndexOptionsBuilder, with timeout {}
}

options! {
    /// How [`list_search_indexes`](crate::Collection::list_search_indexes) works.
    pub struct ListSearchIndexOptions, ListSearchIndexOptionsBuilder, with timeout {}
}

options! {
    /// How [`drop_search_index`](crate::Collection::drop_search_index) works.
    pub struct DropSearchIndexOptions, DropSearchIndexOptionsBuilder, with timeout {}
}
