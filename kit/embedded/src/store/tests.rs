//! Stores: changes and rejected changes.

mod model;

use bson::{DateTime, Timestamp, doc};
use steadfast_query::{Environment, Filter};

use super::*;
use crate::{
    change::Statement,
    oplog::{OpTime, SessionUpdateKind},
};

fn namespace() -> Namespace {
    Namespace::new("shop", "orders")
}

fn create(options: bson::Document) -> Change {
    Change::CreateCollection {
        namespace: namespace(),
        uuid: bson::Uuid::from_bytes([7; 16]),
        options,
    }
}

fn insert(document: bson::Document) -> Change {
    Change::Insert { namespace: namespace(), document: Arc::new(document) }
}

fn index(specification: bson::Document) -> Change {
    Change::CreateIndex { namespace: namespace(), specification }
}

fn store_with(changes: impl IntoIterator<Item = Change>) -> Store {
    let mut store = Store::default();
    for change in [create(doc! {})].into_iter().chain(changes) {
        store.check_and_apply(&change).expect("a valid change");
    }
    store
}

fn documents(store: &Store) -> Vec<bson::Document> {
    let collection = store.collection(&namespace()).expect("the collection exists");
    collection.documents().map(|document| (**document).clone()).collect()
}

fn entry(changes: Vec<Change>, record: Option<SessionUpdate>) -> OplogEntry {
    OplogEntry {
        at: OpTime::default(),
        wall: DateTime::from_millis(1),
        changes,
        record,
        step: None,
        before: Vec::new(),
    }
}

#[test]
fn insert_requires_collection() {
    let mut store = Store::default();
    let fault = store.check_and_apply(&insert(doc! { "_id": 1 })).expect_err("an error");
    assert_eq!(fault.code, Code::NAMESPACE_NOT_FOUND);
}

#[test]
fn id_conditions_examine_only_those_documents() {
    let store = store_with([3, 2, 1].map(|id| insert(doc! { "_id": id })));
    let collection = store.collection(&namespace()).expect("the collection exists");
    let env = Environment::new(DateTime::from_millis(0), Timestamp { time: 0, increment: 0 }, 0);
    let filter = doc! { "_id": { "$in": [1, 3, 1.0, 9] } };
    let filter = Filter::parse(&filter, &env).expect("a valid filter");
    let found: Vec<_> = collection.candidates(&filter, &env).map(|it| (**it).clone()).collect();
    assert_eq!(found, [doc! { "_id": 3 }, doc! { "_id": 1 }], "in natural order, each once");
}

#[test]
fn numerically_equal_ids_are_duplicates() {
    let mut store = store_with([insert(doc! { "_id": 1 })]);
    let fault = store.check_and_apply(&insert(doc! { "_id": 1.0 })).expect_err("an error");
    assert_eq!(fault.code, Code::DUPLICATE_KEY);
    assert_eq!(
        fault.message,
        "E11000 duplicate key error collection: shop.orders index: _id_ dup key: { _id: 1.0 }"
    );
    assert_eq!(fault.details, doc! { "keyPattern": { "_id": 1 }, "keyValue": { "_id": 1.0 } });
}

#[test]
fn unique_index_covers_array_elements() {
    let unique = doc! { "v": 2, "key": { "a.b": 1, "z": -1 }, "name": "x", "unique": true };
    let mut store = store_with([
        index(unique),
        insert(doc! { "_id": 1, "a": [{ "b": 1 }, { "b": 2 }] }),
        // Equal keys of one document are no duplicates.
        insert(doc! { "_id": 2, "a": [{ "b": 5 }, { "b": 5 }] }),
    ]);
    let fault =
        store.check_and_apply(&insert(doc! { "_id": 3, "a": { "b": 2 } })).expect_err("an error");
    assert_eq!(
        fault.details,
        doc! { "keyPattern": { "a.b": 1, "z": -1 }, "keyValue": { "a.b": 2, "z": null } }
    );
    let fault = store
        .check_and_apply(&insert(doc! { "_id": 3, "a": [{ "b": 9 }], "z": [1] }))
        .expect_err("an error");
    assert_eq!(fault.message, "cannot index parallel arrays [z] [a]");
}

#[test]
fn unique_index_build_fails_on_duplicates() {
    let mut store =
        store_with([insert(doc! { "_id": 1, "a": 1 }), insert(doc! { "_id": 2, "a": 1 })]);
    let unique = doc! { "v": 2, "key": { "a": 1 }, "name": "a_1", "unique": true };
    let fault = store.check_and_apply(&index(unique)).expect_err("an error");
    assert_eq!(fault.code, Code::DUPLICATE_KEY);
    assert_eq!(store.collection(&namespace()).expect("the collection exists").indexes().len(), 1);
}

#[test]
fn sparse_index_omits_documents_without_its_fields() {
    let sparse = doc! { "v": 2, "key": { "a": 1 }, "name": "a_1", "unique": true, "sparse": true };
    let store = store_with([index(sparse), insert(doc! { "_id": 1 }), insert(doc! { "_id": 2 })]);
    assert_eq!(documents(&store).len(), 2);
}

#[test]
fn entry_is_applied_atomically() {
    let mut store = store_with([insert(doc! { "_id": 1 })]);
    let record = SessionUpdate {
        session: SessionId { id: vec![1], user: vec![] },
        number: 3,
        what: SessionUpdateKind::Committed,
    };
    let both = vec![insert(doc! { "_id": 2 }), insert(doc! { "_id": 1 })];
    store.apply(&entry(both, Some(record.clone()))).expect_err("the second is a duplicate");
    assert_eq!(documents(&store), [doc! { "_id": 1 }]);
    assert!(store.session(&record.session).is_none());

    let both = vec![insert(doc! { "_id": 2 }), insert(doc! { "_id": 3 })];
    store.apply(&entry(both, Some(record.clone()))).expect("valid changes");
    assert_eq!(documents(&store).len(), 3);
    let known = store.session(&record.session).expect("a session record");
    assert!(known.committed());
    assert_eq!((known.number(), known.last_use()), (3, DateTime::from_millis(1)));
}

#[test]
fn newer_txn_number_replaces_records() {
    let session = SessionId { id: vec![1], user: vec![] };
    let record = |number, id| SessionUpdate {
        session: session.clone(),
        number,
        what: SessionUpdateKind::Statement(Statement { id, outcome: doc! { "n": id } }),
    };
    let mut store = Store::default();
    for record in [record(1, 0), record(1, 1), record(2, 1), record(1, 5)] {
        store.apply(&entry(Vec::new(), Some(record))).expect("a valid entry");
    }
    let known = store.session(&session).expect("a session record");
    assert_eq!(known.number(), 2);
    assert_eq!(known.statement(0), None);
    assert_eq!(known.statement(1), Some(&doc! { "n": 1 }));
    assert_eq!(known.statement(5), None);
    store.remove_session(&session);
    assert_eq!(store.sessions().count(), 0);
}

#[test]
fn capped_collection_removes_oldest_documents() {
    let mut store = Store::default();
    let options = doc! { "capped": true, "size": 100_000, "max": 2 };
    store.check_and_apply(&create(options)).expect("created");
    for id in 1..=5 {
        store.check_and_apply(&insert(doc! { "_id": id })).expect("inserted");
    }
    assert_eq!(documents(&store), [doc! { "_id": 4 }, doc! { "_id": 5 }]);
    store.check_and_apply(&insert(doc! { "_id": 1 })).expect("_id 1 was removed");
}

#[test]
fn rename_replaces_existing_collection() {
    let other = Namespace::new("shop", "archive");
    let mut store = store_with([insert(doc! { "_id": 1 })]);
    let uuid = bson::Uuid::from_bytes([9; 16]);
    let changes = [
        Change::CreateCollection { namespace: other.clone(), uuid, options: doc! {} },
        Change::RenameCollection { from: namespace(), to: other.clone() },
    ];
    changes.iter().for_each(|change| store.check_and_apply(change).expect("a valid change"));
    assert!(store.collection(&namespace()).is_none());
    let renamed = store.collection(&other).expect("the collection exists");
    assert_eq!((renamed.len(), renamed.uuid()), (1, bson::Uuid::from_bytes([7; 16])));
    assert_eq!(store.databases(), ["shop"]);
    assert_eq!(store.collections("shop").count(), 1);
    assert_eq!(store.collections("sho").count(), 0);
}

#[test]
fn document_size_equals_encoded_length() {
    let id = bson::oid::ObjectId::from_bytes([1; 12]);
    let document = doc! {
        "double": 1.5, "string": "été", "document": { "a": { "b": [1, "x", [], {}] } },
        "array": (0..120).collect::<Vec<i32>>(), "binary": bson::Binary {
            subtype: bson::spec::BinarySubtype::BinaryOld, bytes: vec![1, 2, 3],
        },
        "id": id, "yes": true, "when": DateTime::from_millis(5), "null": null,
        "regex": bson::Regex { pattern: "a".try_into().expect("no NUL"),
            options: "im".try_into().expect("no NUL") },
        "code": bson::Bson::JavaScriptCode("f()".into()), "symbol": bson::Bson::Symbol("s".into()),
        "scoped": bson::JavaScriptCodeWithScope { code: "g()".into(), scope: doc! { "x": 1 } },
        "int": 1, "timestamp": bson::Timestamp { time: 1, increment: 2 }, "long": 5_i64,
        "min": bson::Bson::MinKey, "max": bson::Bson::MaxKey,
        "decimal": "1.5".parse::<bson::Decimal128>().expect("a decimal"),
    };
    let bytes = bson::document_to_vec(&document).expect("a valid document");
    assert_eq!(size_of_document(&document), bytes.len());
}
