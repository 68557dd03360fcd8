//! How indexes are made, listed and dropped.

use std::time::Duration;

use bson::Bson;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use steadfast_core::concern::WriteConcern;

use super::{TimeoutMode, options};
use crate::action::{CreateIndex, DropIndex, ListIndexes};

options! {
    /// How [`create_index`](crate::Collection::create_index) and
    /// [`create_indexes`](crate::Collection::create_indexes) make indexes.
    pub struct CreateIndexOptions, CreateIndexOptionsBuilder, for ['a, M] CreateIndex<'a, M> {
        /// Which members must be ready before the index counts as made.
        commit_quorum: CommitQuorum,
        /// How long the server may work on it.
        #[serde(rename = "maxTimeMS", with = "crate::options::millis")]
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
    pub struct DropIndexOptions, DropIndexOptionsBuilder, for ['a] DropIndex<'a> {
        /// How long the server may work on it.
        #[serde(rename = "maxTimeMS", with = "crate::options::millis")]
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
    pub struct ListIndexesOptions, ListIndexesOptionsBuilder, for ['a, M, S] ListIndexes<'a, M, S> {
        /// How long the server may work on it.
        #[serde(rename = "maxTimeMS", with = "crate::options::millis")]
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
