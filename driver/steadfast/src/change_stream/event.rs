//! Events of change streams.

use bson::{DateTime, Document, Timestamp, Uuid};
use serde::{Deserialize, Serialize};

pub use crate::resume_token::ResumeToken;
use crate::serde_helpers::words;

/// Event of a change stream. See
/// [change events](https://www.mongodb.com/docs/manual/reference/change-events/).
///
/// `T` is the type of the documents of the collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChangeStreamEvent<T> {
    /// Resume token of the event (`_id`).
    #[serde(rename = "_id")]
    pub id: ResumeToken,
    /// Type of the operation (`operationType`).
    pub operation_type: OperationType,
    /// Namespace (`ns`) of the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns: Option<ChangeNamespace>,
    /// Type of the created namespace (`nsType`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns_type: Option<ChangeNamespaceType>,
    /// New namespace of a renamed collection (`to`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<ChangeNamespace>,
    /// Details of the operation (`operationDescription`). With
    /// [`show_expanded_events`](crate::action::Watch::show_expanded_events) only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_description: Option<Document>,
    /// Session of the transaction (`lsid`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lsid: Option<Document>,
    /// Number of the transaction in its session (`txnNumber`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub txn_number: Option<i64>,
    /// `_id` of the document, and its shard key in a sharded collection (`documentKey`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document_key: Option<Document>,
    /// Changes of an update (`updateDescription`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_description: Option<UpdateDescription>,
    /// Cluster time of the oplog entry (`clusterTime`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_time: Option<Timestamp>,
    /// Server date and time of the operation (`wallTime`). Requires MongoDB 6.0 or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_time: Option<DateTime>,
    /// Post-image (`fullDocument`): always set for inserts and replacements, for updates with
    /// [`full_document`](crate::action::Watch::full_document). `None` also if the document is no
    /// longer available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_document: Option<T>,
    /// Pre-image (`fullDocumentBeforeChange`), if
    /// [`full_document_before_change`](crate::action::Watch::full_document_before_change) is set
    /// and the server has stored it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_document_before_change: Option<T>,
    /// UUID of the collection (`collectionUUID`). With
    /// [`show_expanded_events`](crate::action::Watch::show_expanded_events) only.
    #[serde(rename = "collectionUUID", skip_serializing_if = "Option::is_none")]
    pub collection_uuid: Option<Uuid>,
    /// Fragment of a large event (`splitEvent`). For pipelines that end with
    /// `$changeStreamSplitLargeEvent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split_event: Option<SplitEvent>,
}

/// Type of an operation (`operationType`).
/// See [change events](https://www.mongodb.com/docs/manual/reference/change-events/).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationType {
    /// A document was inserted (`insert`).
    Insert,
    /// A document was updated (`update`).
    Update,
    /// A document was replaced (`replace`).
    Replace,
    /// A document was deleted (`delete`).
    Delete,
    /// A collection was dropped (`drop`).
    Drop,
    /// A collection was renamed (`rename`).
    Rename,
    /// A database was dropped (`dropDatabase`).
    DropDatabase,
    /// The watched collection or database was dropped or renamed (`invalidate`). The stream ends.
    Invalidate,
    /// Type without a variant in this driver.
    Other(String),
}

words!(OperationType {
    Insert = "insert", Update = "update", Replace = "replace", Delete = "delete", Drop = "drop", Rename = "rename", DropDatabase = "dropDatabase", Invalidate = "invalidate"
});

/// Namespace of an event: a collection or a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChangeNamespace {
    /// Name of the database (`db`).
    pub db: String,
    /// Name of the collection (`coll`). `None` for events of a database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coll: Option<String>,
}

/// Type of a created namespace (`nsType`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeNamespaceType {
    /// Collection (`collection`).
    Collection,
    /// Time series collection (`timeseries`).
    Timeseries,
    /// View (`view`).
    View,
    /// Type without a variant in this driver.
    Other(String),
}

words!(ChangeNamespaceType {
    Collection = "collection", Timeseries = "timeseries", View = "view"
});

/// Changes of an update (`updateDescription`).
/// See [update events](https://www.mongodb.com/docs/manual/reference/change-events/update/).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpdateDescription {
    /// Paths and new values of changed fields (`updatedFields`).
    pub updated_fields: Document,
    /// Paths of removed fields (`removedFields`).
    pub removed_fields: Vec<String>,
    /// Truncated arrays (`truncatedArrays`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated_arrays: Option<Vec<TruncatedArray>>,
    /// Components of ambiguous paths (`disambiguatedPaths`). With
    /// [`show_expanded_events`](crate::action::Watch::show_expanded_events) only. Requires MongoDB
    /// 6.1 or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disambiguated_paths: Option<Document>,
}

/// Truncated array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TruncatedArray {
    /// Path of the array (`field`).
    pub field: String,
    /// Number of remaining elements (`newSize`).
    pub new_size: i32,
}

/// Position of a fragment of a large event (`splitEvent`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SplitEvent {
    /// Number of the fragment, from 1 (`fragment`).
    pub fragment: i32,
    /// Number of fragments (`of`).
    pub of: i32,
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};

    use super::*;

    fn read(document: &Document) -> ChangeStreamEvent<Document> {
        bson::deserialize_from_slice(&bson::serialize_to_vec(document).unwrap()).unwrap()
    }

    #[test]
    fn full_event_round_trips() {
        let uuid = Uuid::from_bytes([7; 16]);
        let whole = doc! {
            "_id": { "_data": "82" },
            "operationType": "update",
            "ns": { "db": "library", "coll": "books" },
            "nsType": "timeseries",
            "to": { "db": "library", "coll": "papers" },
            "operationDescription": { "to": "papers" },
            "lsid": { "id": 1 },
            "txnNumber": 3_i64,
            "documentKey": { "_id": 1 },
            "updateDescription": {
                "updatedFields": { "a.0": 1 },
                "removedFields": ["b"],
                "truncatedArrays": [{ "field": "a", "newSize": 2 }],
                "disambiguatedPaths": { "a.0": ["a", 0] },
            },
            "clusterTime": Timestamp { time: 5, increment: 1 },
            "wallTime": DateTime::from_millis(1),
            "fullDocument": { "_id": 1 },
            "fullDocumentBeforeChange": { "_id": 1, "b": 1 },
            "collectionUUID": uuid,
            "splitEvent": { "fragment": 1, "of": 2 },
        };
        let event = read(&whole);
        assert_eq!(event.operation_type, OperationType::Update);
        let described = event.update_description.as_ref().unwrap();
        let array = TruncatedArray { field: "a".to_owned(), new_size: 2 };
        assert_eq!(described.truncated_arrays, Some(vec![array]));
        assert_eq!(event.ns_type, Some(ChangeNamespaceType::Timeseries));
        assert_eq!(event.collection_uuid, Some(uuid));
        assert_eq!(event.split_event, Some(SplitEvent { fragment: 1, of: 2 }));
        assert_eq!(bson::serialize_to_document(&event).unwrap(), whole);
    }

    #[test]
    fn minimal_event_round_trips() {
        let least = doc! { "_id": { "_data": "82" }, "operationType": "invalidate" };
        let event = read(&least);
        assert_eq!(event.operation_type, OperationType::Invalidate);
        assert_eq!(bson::serialize_to_document(&event).unwrap(), least);
    }

    #[test]
    fn unknown_event_values_are_not_an_error() {
        let event = read(&doc! {
            "_id": { "_data": "82" }, "operationType": "reshardCollection", "nsType": "dream",
            "ns": { "db": "library", "viewOn": "books" }, "fullDocument": Bson::Null, "new": 1,
        });
        assert_eq!(event.operation_type, OperationType::Other("reshardCollection".to_owned()));
        assert_eq!(event.ns_type, Some(ChangeNamespaceType::Other("dream".to_owned())));
        assert_eq!(event.ns, Some(ChangeNamespace { db: "library".to_owned(), coll: None }));
        assert_eq!(event.full_document, None);
    }

    #[test]
    fn operation_types_round_trip() {
        for word in [
            "insert",
            "update",
            "replace",
            "delete",
            "drop",
            "rename",
            "dropDatabase",
            "invalidate",
            "create",
        ] {
            let read = OperationType::from(word.to_owned());
            assert_eq!(read.as_str(), word);
            assert_eq!(matches!(read, OperationType::Other(_)), word == "create");
        }
    }
}
