//! Commands, batches and results of a client's bulk write.

use std::collections::BTreeMap;

use bson::{Bson, Document, ToStr, doc};
use steadfast_core::address::ServerAddress;

use super::*;
use crate::{
    Namespace,
    error::{BulkWriteError, ErrorKind, PartialBulkWriteResult},
    operation::{
        WriteLimits,
        fixture::{body, database, raw},
    },
    options::{
        DeleteManyModel, DeleteOneModel, InsertOneModel, ReplaceOneModel, UpdateManyModel,
        UpdateOneModel, WriteModel,
    },
    results::VerboseBulkWriteResult,
    sequence::Documents,
};

fn at(coll: &str) -> Namespace {
    Namespace::new("db", coll)
}

fn insert(coll: &str, id: i32) -> WriteModel {
    InsertOneModel::new(doc! { "_id": id }).namespace(at(coll)).into()
}

fn limits(count: usize) -> WriteLimits {
    WriteLimits { document_bytes: 1000, message_bytes: 48_000_000, batch_count: count }
}

/// Splits a buffer of documents.
fn split(documents: &Documents<'_>) -> Vec<Document> {
    let mut split = Vec::new();
    documents.for_each(|it| split.push(Document::try_from(it).unwrap())).unwrap();
    split
}

/// Returns the operations and collections of a batch as they are sent.
fn sent(operations: &Operations, batch: &ClientBulkBatch) -> (Vec<Document>, Vec<Document>) {
    let lent = operations.document_sequence(batch);
    let ns_info = lent.ns_info.unwrap();
    assert_eq!((lent.identifier.to_str(), ns_info.identifier.to_str()), ("ops", "nsInfo"));
    (split(&lent.documents), split(&Documents::Whole(&ns_info.documents)))
}

#[tokio::test]
async fn command_contains_errors_only_and_ordered() {
    let client = database().client().clone();
    let settings = Settings { ordered: false, ..Settings::default() };
    let plain = command(&client, &settings, false, false).unwrap();
    assert_eq!(body(&plain), doc! { "bulkWrite": 1, "errorsOnly": true, "ordered": false });
    assert_eq!((&*plain.database, plain.kind), ("admin", CommandKind::RetryableWrite));
    let (comment, variables, concern) =
        (Bson::from("note"), doc! { "x": 1 }, WriteConcern::nodes(2));
    let settings = Settings {
        bypass_document_validation: Some(true),
        let_vars: Some(&variables),
        comment: Some(&comment),
        write_concern: Some(&concern),
        ..Settings::default()
    };
    let full = command(&client, &settings, true, true).unwrap();
    let expected = doc! {
        "bulkWrite": 1, "errorsOnly": false, "ordered": true, "bypassDocumentValidation": true,
        "comment": "note", "let": { "x": 1 }, "writeConcern": { "w": 2 },
    };
    assert_eq!((body(&full), full.kind), (expected, CommandKind::Write));
}

#[test]
fn every_write_model_is_encoded() {
    let (q, u) = (doc! { "a": 1 }, doc! { "$set": { "x": 1 } });
    let models: [WriteModel; 6] = [
        insert("one", 1),
        UpdateOneModel::new(q.clone(), u.clone()).sort(doc! { "b": 1 }).namespace(at("one")).into(),
        UpdateManyModel::new(q.clone(), u).upsert(true).namespace(at("two")).into(),
        ReplaceOneModel::new(q.clone(), doc! { "y": 1 }).namespace(at("one")).into(),
        DeleteOneModel::new(q.clone()).namespace(at("two")).into(),
        DeleteManyModel::new(q).namespace(at("three")).into(),
    ];
    let mut operations = Operations::of_models(models).unwrap();
    let batches = plan(&mut operations, &limits(9), 43).unwrap();
    assert_eq!(batches.len(), 1);
    assert!(batches[0].has_multi);
    let (ops, namespaces) = sent(&operations, &batches[0]);
    let set = doc! { "$set": { "x": 1 } };
    assert_eq!(
        ops,
        [
            doc! { "insert": 0, "document": { "_id": 1 } },
            doc! {
                "update": 0, "filter": { "a": 1 }, "updateMods": set.clone(), "multi": false,
                "sort": { "b": 1 },
            },
            doc! {
                "update": 1, "filter": { "a": 1 }, "updateMods": set, "multi": true, "upsert": true,
            },
            doc! { "update": 0, "filter": { "a": 1 }, "updateMods": { "y": 1 }, "multi": false },
            doc! { "delete": 1, "filter": { "a": 1 }, "multi": false },
            doc! { "delete": 2, "filter": { "a": 1 }, "multi": true },
        ]
    );
    let expected = ["db.one", "db.two", "db.three"].map(|ns| doc! { "ns": ns });
    assert_eq!(namespaces, expected);
}

#[test]
fn missing_id_is_generated_as_the_first_field() {
    let models: [WriteModel; 3] = [doc! { "x": 1 }, doc! { "x": 1, "_id": 7 }, doc! { "x": 2 }]
        .map(|document| InsertOneModel::new(document).namespace(at("one")).into());
    let mut operations = Operations::of_models(models).unwrap();
    let batches = plan(&mut operations, &limits(9), 43).unwrap();
    let (ops, _) = sent(&operations, &batches[0]);
    for (index, operation) in ops.iter().enumerate() {
        let document = operation.get_document("document").unwrap();
        assert_eq!(document.get("_id"), Some(&operations.id(index)));
        let first = document.keys().next().unwrap();
        assert_eq!(first == "_id", index != 1, "{document}");
    }
    assert_eq!(operations.id(1), Bson::from(7));
}

#[test]
fn each_batch_has_its_own_ns_info() {
    let models = [insert("a", 1), insert("b", 2), insert("b", 3), insert("a", 4), insert("c", 5)];
    let mut operations = Operations::of_models(models).unwrap();
    let batches = plan(&mut operations, &limits(2), 43).unwrap();
    let places = |batch: &ClientBulkBatch| -> (Vec<i32>, Vec<String>) {
        let (ops, namespaces) = sent(&operations, batch);
        let names = namespaces.iter().map(|it| it.get_str("ns").unwrap().to_owned());
        (ops.iter().map(|it| it.get_i32("insert").unwrap()).collect(), names.collect())
    };
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(places(&batches[0]), (vec![0, 1], named(&["db.a", "db.b"])));
    assert_eq!(places(&batches[1]), (vec![0, 1], named(&["db.b", "db.a"])));
    assert_eq!(places(&batches[2]), (vec![0], named(&["db.c"])));
}

#[test]
fn client_batch_uses_the_message_limit_fully() {
    // Each operation takes 43 bytes, the first collection 18.
    let models = || [insert("ab", 1), insert("ab", 2)];
    let batches = |bytes: usize| {
        let mut operations = Operations::of_models(models()).unwrap();
        let limits = WriteLimits { message_bytes: 1000 + 43 + bytes, ..limits(9) };
        plan(&mut operations, &limits, 43).map(|batches| batches.len()).ok()
    };
    let own = Operations::of_models(models()).unwrap().bytes_of(0);
    let whole = 2 * own + "\0\0\0\0\x02ns\0\0\0\0\0db.ab\0\0".len();
    assert_eq!(batches(whole), Some(1));
    assert_eq!(batches(whole - 1), Some(2));
    assert_eq!(batches(whole - own), Some(2));
    assert_eq!(batches(whole - own - 1), None, "not even one has room");
}

#[test]
fn invalid_operations_are_rejected() {
    let text = "x".repeat(1000);
    let large: [WriteModel; 2] = [
        InsertOneModel::new(doc! { "x": &text }).namespace(at("a")).into(),
        ReplaceOneModel::new(doc! {}, doc! { "x": &text }).namespace(at("a")).into(),
    ];
    for model in large {
        let mut operations = Operations::of_models([insert("a", 1), model]).unwrap();
        let error = plan(&mut operations, &limits(9), 43).unwrap_err();
        assert!(error.to_string().contains("the document of write 1"), "{error}");
    }
    let nonsense: [WriteModel; 4] = [
        UpdateOneModel::new(doc! {}, doc! { "x": 1 }).namespace(at("a")).into(),
        ReplaceOneModel::new(doc! {}, doc! { "$set": {} }).namespace(at("a")).into(),
        insert("", 1),
        InsertOneModel::new(doc! {}).namespace(Namespace::new("a.b", "c")).into(),
    ];
    for model in nonsense {
        let error = Operations::of_models([model]).unwrap_err();
        assert!(error.is_invalid_argument(), "{error}");
    }
}

fn counts(errors: i32, inserted: i32) -> Document {
    doc! {
        "ok": 1, "nErrors": errors, "nInserted": inserted, "nMatched": 0, "nModified": 0,
        "nUpserted": 0, "nDeleted": 0,
    }
}

fn error_item(index: i32) -> Document {
    doc! { "ok": 0.0, "idx": index, "code": 11000, "errmsg": "dup", "n": 0 }
}

/// Adds up the replies to four inserts in batches of two, each with the items of its cursor.
fn tallied(
    (ordered, verbose): (bool, bool),
    answers: &[(Document, Vec<Document>)],
    batch_error: Option<Error>,
) -> Result<VerboseBulkWriteResult> {
    let mut operations = Operations::of_models((0..4).map(|id| insert("a", id))).unwrap();
    let batches = plan(&mut operations, &limits(2), 43).unwrap();
    let mut tally = ClientBulkTally::new(ordered, verbose, true);
    let server: ServerAddress = "localhost:27017".parse().unwrap();
    for (batch, (reply, items)) in batches.iter().zip(answers) {
        tally.count_body(batch, &raw(reply.clone()), &server).unwrap();
        for item in items {
            tally.count_item(&operations, batch, &raw(item.clone()))?;
        }
    }
    tally.conclude(batch_error)
}

fn failed(error: &Error) -> &BulkWriteError {
    match &*error.kind {
        ErrorKind::BulkWrite(failed) => failed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn results_of_batches_are_merged_with_the_indexes_of_the_models() {
    let done = |index: i32| doc! { "ok": 1.0, "idx": index, "n": 1 };
    let answer = (counts(0, 2), vec![done(0), done(1)]);
    let result = tallied((true, true), &[answer.clone(), answer], None).unwrap();
    assert_eq!(result.summary.inserted_count, 4);
    let ids: BTreeMap<_, _> = result.insert_results.iter().collect();
    let ids: Vec<_> = ids.values().map(|it| it.inserted_id.clone()).collect();
    assert_eq!(ids, [0, 1, 2, 3].map(Bson::from));
}

#[test]
fn partial_result_requires_an_executed_write() {
    let first = |ordered, errors, refused: &[i32]| {
        let items = refused.iter().map(|index| error_item(*index)).collect();
        let error = tallied((ordered, false), &[(counts(errors, 0), items)], None).unwrap_err();
        let failed = failed(&error);
        assert_eq!(failed.write_errors.len(), refused.len());
        failed.partial_result.is_some()
    };
    assert!(!first(true, 1, &[0]));
    assert!(first(true, 1, &[1]));
    assert!(first(false, 1, &[0]));
    assert!(!first(false, 2, &[0, 1]));
}

#[test]
fn errors_of_later_batches_have_the_indexes_of_the_models() {
    let answers = [(counts(0, 2), vec![]), (counts(1, 1), vec![error_item(1)])];
    let error = tallied((false, false), &answers, None).unwrap_err();
    assert_eq!(failed(&error).write_errors.keys().copied().collect::<Vec<_>>(), [3]);
    let partial = failed(&error).partial_result.as_ref().unwrap();
    assert!(matches!(partial, PartialBulkWriteResult::Summary(it) if it.inserted_count == 3));
    assert!(error.server_response().is_some() && error.is_duplicate_key_error());
}

#[test]
fn error_after_a_reply_is_the_source_of_the_partial_result() {
    let batch_error = || Error::timed_out("a reply");
    let error = tallied((true, false), &[], Some(batch_error())).unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::Io(_)), "{error:?}");
    let error = tallied((true, false), &[(counts(0, 2), vec![])], Some(batch_error())).unwrap_err();
    assert!(failed(&error).partial_result.is_some() && error.is_network_error());
    // The cursor with the write error was not read.
    let error = tallied((true, false), &[(counts(1, 0), vec![])], Some(batch_error())).unwrap_err();
    assert!(failed(&error).partial_result.is_none() && error.is_network_error());
}

#[test]
fn every_write_concern_error_is_kept() {
    // pitfall 3
    let unmet = |code: i32| {
        let mut reply = counts(0, 2);
        reply.insert("writeConcernError", doc! { "code": code, "errmsg": "" });
        (reply, vec![])
    };
    let error = tallied((true, false), &[unmet(64), unmet(91)], None).unwrap_err();
    let codes = failed(&error).write_concern_errors.iter().map(|it| it.code);
    assert_eq!(codes.collect::<Vec<_>>(), [64, 91]);
}

#[test]
fn result_index_beyond_the_batch_is_an_invalid_reply() {
    let answers = [(counts(1, 0), vec![error_item(2)])];
    let error = tallied((true, false), &answers, None).unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::InvalidResponse { .. }), "{error:?}");
}
