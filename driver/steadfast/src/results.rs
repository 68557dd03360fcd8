//! What actions answer with.

use bson::{Binary, Document};
use serde::{Deserialize, Serialize};

pub use crate::write_results::{
    BulkWriteResult, DeleteResult, InsertManyResult, InsertOneResult, SummaryBulkWriteResult,
    UpdateResult, VerboseBulkWriteResult,
};
use crate::{options::CreateCollectionOptions, serde_helpers::number};

/// What a `create_index` did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreateIndexResult {
    /// The name of the index.
    pub index_name: String,
}

/// What a `create_indexes` did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreateIndexesResult {
    /// The names of the indexes, in the order they were given.
    pub index_names: Vec<String>,
}

/// The kinds of collection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum CollectionType {
    /// A pipeline that looks like a collection and is read as one.
    View,
    /// A collection.
    #[default]
    Collection,
    /// A collection of measurements over time.
    Timeseries,
}

/// What a server says of a collection beside its options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct CollectionSpecificationInfo {
    /// Whether it can only be read.
    pub read_only: bool,
    /// By what the server tells it from another of the same name; views have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Binary>,
}

/// A collection, as [`Database::list_collections`](crate::Database::list_collections) tells of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CollectionSpecification {
    /// Its name.
    pub name: String,
    /// What kind it is.
    #[serde(rename = "type", default)]
    pub collection_type: CollectionType,
    /// The options it was made with.
    #[serde(default)]
    pub options: CreateCollectionOptions,
    /// What else the server says of it.
    #[serde(default)]
    pub info: CollectionSpecificationInfo,
    /// The index on `_id`; views have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_index: Option<Document>,
}

/// A database, as [`Client::list_databases`](crate::Client::list_databases) tells of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DatabaseSpecification {
    /// Its name.
    pub name: String,
    /// How much room it takes, in bytes.
    #[serde(default, deserialize_with = "number::required")]
    pub size_on_disk: u64,
    /// Whether it holds no data.
    #[serde(default)]
    pub empty: bool,
    /// How much room it takes on each shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<Document>,
}
