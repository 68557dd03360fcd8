//! The events of change streams.

use bson::{DateTime, Document, Timestamp, Uuid};
use serde::{Deserialize, Serialize};

pub use crate::resume_token::ResumeToken;
use crate::serde_helpers::words;

/// A change, as a server tells it.
///
/// `T` is what the documents of the collection are read as.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChangeStreamEvent<T> {
    /// Its place in the stream.
    #[serde(rename = "_id")]
    pub id: ResumeToken,
    /// What was done.
    pub operation_type: OperationType,
    /// What it was done to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns: Option<ChangeNamespace>,
    /// What kind of thing was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns_type: Option<ChangeNamespaceType>,
    /// The new name of a collection that was renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<ChangeNamespace>,
    /// What was done, in more detail. With
    /// [`show_expanded_events`](crate::action::Watch::show_expanded_events) only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_description: Option<Document>,
    /// The session of the transaction that the change was part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lsid: Option<Document>,
    /// The number of the transaction that the change was part of, in its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub txn_number: Option<i64>,
    /// The `_id` of the document that changed; in a sharded collection, its shard key, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document_key: Option<Document>,
    /// What an update changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_description: Option<UpdateDescription>,
    /// When it happened, in the time of the deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_time: Option<Timestamp>,
    /// When it happened, by the clock of the server. From server 6.0 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_time: Option<DateTime>,
    /// The document after the change: always of inserts and replacements, of updates if
    /// [`full_document`](crate::action::Watch::full_document) asks for it. None, too, if it was
    /// asked for and is not to be had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_document: Option<T>,
    /// The document before the change, if
    /// [`full_document_before_change`](crate::action::Watch::full_document_before_change) asks for
    /// it and the server has kept it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_document_before_change: Option<T>,
    /// The collection's own id, which it keeps when it is renamed. With
    /// [`show_expanded_events`](crate::action::Watch::show_expanded_events) only.
    #[serde(rename = "collectionUUID", skip_serializing_if = "Option::is_none")]
    pub collection_uuid: Option<Uuid>,
    /// Which part of an event it is that was too large to be sent in one. For pipelines that end
    /// with `$changeStreamSplitLargeEvent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split_event: Option<SplitEvent>,
}

/// What was done. Shown, sent and read as the server's word for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationType {
    /// A document was inserted.
    Insert,
    /// A document was updated.
    Update,
    /// A document was replaced.
    Replace,
    /// A document was deleted.
    Delete,
    /// A collection was dropped.
    Drop,
    /// A collection was renamed.
    Rename,
    /// A database was dropped.
    DropDatabase,
    /// What is watched is no longer there: the stream ends.
    Invalidate,
    /// Anything else, by the server's word.
    Other(String),
}

words!(OperationType {
    Insert = "insert", Update = "update", Replace = "replace", Delete = "delete", Drop = "drop", Rename = "rename", DropDatabase = "dropDatabase", Invalidate = "invalidate"
});

/// The name of what changed: of a collection, or of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChangeNamespace {
    /// The database.
    pub db: String,
    /// The collection, unless it is the database that changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coll: Option<String>,
}

/// What kind of thing was created. Sent and read as the server's word for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeNamespaceType {
    /// A collection.
    Collection,
    /// A collection of measurements over time.
    Timeseries,
    /// A view.
    View,
    /// Anything else, by the server's word.
    Other(String),
}

words!(ChangeNamespaceType {
    Collection = "collection", Timeseries = "timeseries", View = "view"
});

/// What an update changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpdateDescription {
    /// The fields that have a new value, by their paths, and the value.
    pub updated_fields: Document,
    /// The paths of the fields that are gone.
    pub removed_fields: Vec<String>,
    /// The arrays that became shorter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated_arrays: Option<Vec<TruncatedArray>>,
    /// The paths whose words alone leave open what they mean, and their parts. With
    /// [`show_expanded_events`](crate::action::Watch::show_expanded_events) only; from server 6.1
    /// on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disambiguated_paths: Option<Document>,
}

/// An array that became shorter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TruncatedArray {
    /// Its path.
    pub field: String,
    /// How many values are left in it.
    pub new_size: i32,
}

/// Which part of a large event an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SplitEvent {
    /// The how manieth, counted from 1.
    pub fragment: i32,
    /// How many there are.
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
    fn an_event_with_everything_in_it_is_read_and_written() {
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
    fn an_event_with_nothing_but_the_least_is_read_and_written() {
        let least = doc! { "_id": { "_data": "82" }, "operationType": "invalidate" };
        let event = read(&least);
        assert_eq!(event.operation_type, OperationType::Invalidate);
        assert_eq!(bson::serialize_to_document(&event).unwrap(), least);
    }

    #[test]
    fn what_a_newer_server_may_say_is_no_error() {
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
    fn every_word_is_what_it_is_read_as() {
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
