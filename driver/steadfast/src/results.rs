//! Results of actions.

use bson::{Binary, Document};
use serde::{Deserialize, Serialize};

pub use crate::write_results::{
    BulkWriteResult, DeleteResult, InsertManyResult, InsertOneResult, SummaryBulkWriteResult,
    UpdateResult, VerboseBulkWriteResult,
};
use crate::{options::CreateCollectionOptions, serde_helpers::number};

/// Result of [`create_index`](crate::Collection::create_index).
/// See [`createIndexes`](https://www.mongodb.com/docs/manual/reference/command/createIndexes/).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreateIndexResult {
    /// Name of the index.
    pub index_name: String,
}

/// Result of [`create_indexes`](crate::Collection::create_indexes).
/// See [`createIndexes`](https://www.mongodb.com/docs/manual/reference/command/createIndexes/).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreateIndexesResult {
    /// Names of the indexes, in the order of the models.
    pub index_names: Vec<String>,
}

/// Type of a collection (`type`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum CollectionType {
    /// View (`view`).
    View,
    /// Collection (`collection`).
    #[default]
    Collection,
    /// Time series collection (`timeseries`).
    Timeseries,
}

/// Information on a collection besides its options (`info`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct CollectionSpecificationInfo {
    /// `true` if the collection is read-only (`readOnly`).
    pub read_only: bool,
    /// UUID of the collection (`uuid`). `None` for views.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Binary>,
}

/// Specification of a collection, as returned by
/// [`Database::list_collections`](crate::Database::list_collections).
/// See [`listCollections`](https://www.mongodb.com/docs/manual/reference/command/listCollections/).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CollectionSpecification {
    /// Name of the collection (`name`).
    pub name: String,
    /// Type of the collection (`type`).
    #[serde(rename = "type", default)]
    pub collection_type: CollectionType,
    /// Options that the collection was created with (`options`).
    #[serde(default)]
    pub options: CreateCollectionOptions,
    /// Information on the collection (`info`).
    #[serde(default)]
    pub info: CollectionSpecificationInfo,
    /// Index on `_id` (`idIndex`). `None` for views.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_index: Option<Document>,
}

/// Specification of a database, as returned by
/// [`Client::list_databases`](crate::Client::list_databases).
/// See [`listDatabases`](https://www.mongodb.com/docs/manual/reference/command/listDatabases/).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DatabaseSpecification {
    /// Name of the database (`name`).
    pub name: String,
    /// Size on disk in bytes (`sizeOnDisk`).
    #[serde(default, deserialize_with = "number::required")]
    pub size_on_disk: u64,
    /// `true` if the database has no data (`empty`).
    #[serde(default)]
    pub empty: bool,
    /// Size on each shard in bytes (`shards`). `None` unless the deployment is sharded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<Document>,
}
