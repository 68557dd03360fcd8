//! The `findAndModify` command and its reply.

use bson::{doc, oid::ObjectId};
use serde::Deserialize;

use super::*;
use crate::operation::fixture::{assert_invalid_response, body, collection, raw};

#[tokio::test]
async fn find_one_and_update_sends_every_option() {
    let options = FindOneAndUpdateOptions::builder()
        .array_filters(vec![doc! { "e": 1 }])
        .bypass_document_validation(true)
        .max_time(Duration::from_millis(20))
        .projection(doc! { "_id": 0 })
        .return_document(ReturnDocument::After)
        .sort(doc! { "x": 1 })
        .upsert(true)
        .write_concern(WriteConcern::majority())
        .collation(Collation::builder().locale("de").build())
        .hint(Hint::Name("x_1".to_owned()))
        .let_vars(doc! { "v": 1 })
        .comment(Bson::from("note"))
        .build();
    let operators = doc! { "$set": { "y": 1 } }.into();
    let command = update(&collection(), &doc! { "x": 1 }, &operators, Some(&options)).unwrap();
    assert_eq!(
        body(&command),
        doc! {
            "findAndModify": "books", "query": { "x": 1 }, "sort": { "x": 1 },
            "update": { "$set": { "y": 1 } }, "new": true, "fields": { "_id": 0 }, "upsert": true,
            "bypassDocumentValidation": true, "arrayFilters": [{ "e": 1 }], "maxTimeMS": 20_i64,
            "collation": { "locale": "de" }, "hint": "x_1", "let": { "v": 1 }, "comment": "note",
            "writeConcern": { "w": "majority" },
        }
    );
    assert_eq!(command.kind, CommandKind::RetryableWrite);
    assert!(command.sequence.is_none());
}

#[tokio::test]
async fn replacements_and_pipelines_are_sent() {
    let replacement = raw(doc! { "y": 1 });
    let options =
        FindOneAndReplaceOptions::builder().return_document(ReturnDocument::Before).build();
    let command = replace(&collection(), &doc! {}, &replacement, Some(&options)).unwrap();
    assert_eq!(
        body(&command),
        doc! { "findAndModify": "books", "query": {}, "update": { "y": 1 }, "new": false }
    );
    let pipeline = vec![doc! { "$set": { "y": 1 } }].into();
    let command = update(&collection(), &doc! {}, &pipeline, None).unwrap();
    assert_eq!(
        body(&command),
        doc! { "findAndModify": "books", "query": {}, "update": [{ "$set": { "y": 1 } }] }
    );
}

#[tokio::test]
async fn find_one_and_delete_sends_remove() {
    let options = FindOneAndDeleteOptions::builder().sort(doc! { "x": 1 }).build();
    let command = delete(&collection(), &doc! { "x": 1 }, Some(&options)).unwrap();
    assert_eq!(
        body(&command),
        doc! {
            "findAndModify": "books", "query": { "x": 1 }, "sort": { "x": 1 }, "remove": true,
        }
    );
}

#[tokio::test]
async fn updates_require_operators_and_replacements_reject_them() {
    let error = update(&collection(), &doc! {}, &doc! { "x": 1 }.into(), None).unwrap_err();
    assert!(error.is_invalid_argument());
    let operators = raw(doc! { "$set": { "x": 1 } });
    let error = replace(&collection(), &doc! {}, &operators, None).unwrap_err();
    assert!(error.is_invalid_argument());
}

#[derive(Debug, PartialEq, Deserialize)]
struct Book {
    title: String,
}

#[test]
fn document_deserializes_as_the_type_of_the_collection() {
    let reply = raw(doc! { "ok": 1, "value": { "_id": ObjectId::new(), "title": "1984" } });
    let expected = Book { title: "1984".to_owned() };
    assert_eq!(read::<Book>(&reply).unwrap(), Some(expected));
    assert_eq!(read::<Book>(&raw(doc! { "ok": 1, "value": null })).unwrap(), None);
}

#[test]
fn document_of_another_type_is_a_bson_error() {
    let error = read::<Book>(&raw(doc! { "ok": 1, "value": { "title": 5 } })).unwrap_err();
    assert!(
        matches!(&*error.kind, ErrorKind::Bson(_) | ErrorKind::BsonDeserialization(_)),
        "{error:?}"
    );
}

#[test]
fn write_concern_error_keeps_the_reply() {
    let reply = raw(doc! {
        "ok": 1, "value": { "title": "1984" },
        "writeConcernError": { "code": 64, "errmsg": "late" }, "errorLabels": ["Label"],
    });
    let error = read::<Book>(&reply).unwrap_err();
    assert_eq!(error.code(), Some(64));
    assert!(error.contains_label("Label"));
    assert!(error.server_response().unwrap().get_document("value").is_ok());
}

#[test]
fn malformed_replies_are_rejected() {
    for reply in [
        doc! { "ok": 1 },
        doc! { "ok": 1, "value": 5 },
        doc! { "ok": 1, "value": null, "writeConcernError": 5 },
    ] {
        assert_invalid_response(read::<Book>(&raw(reply)));
    }
}
