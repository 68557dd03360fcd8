//! Write commands without statements, their replies, and the distinction of updates and
//! replacements.

use bson::{Bson, doc};
use steadfast_core::concern::WriteConcern;

use super::*;
use crate::{
    operation::fixture::{
        assert_invalid_response, body, collection, collection_named, collection_with, raw,
    },
    options::CollectionOptions,
};

fn head_of(verb: Verb, settings: &Settings<'_>) -> Document {
    body(&head(&collection(), verb, settings, CommandKind::Write).unwrap())
}

#[tokio::test]
async fn fields_are_sent_only_in_commands_that_support_them() {
    let (variables, comment) = (doc! { "x": 1 }, Bson::from("note"));
    let settings = Settings {
        ordered: false,
        bypass_document_validation: Some(true),
        let_vars: Some(&variables),
        comment: Some(&comment),
        write_concern: None,
        timeout: None,
        in_transaction: false,
    };
    assert_eq!(
        head_of(Verb::Insert, &settings),
        doc! {
            "insert": "books", "ordered": false, "bypassDocumentValidation": true,
            "comment": "note",
        }
    );
    assert_eq!(
        head_of(Verb::Update, &settings),
        doc! {
            "update": "books", "ordered": false, "bypassDocumentValidation": true,
            "let": { "x": 1 }, "comment": "note",
        }
    );
    assert_eq!(
        head_of(Verb::Delete, &settings),
        doc! { "delete": "books", "ordered": false, "let": { "x": 1 }, "comment": "note" }
    );
}

#[tokio::test]
async fn write_concern_of_the_action_overrides_that_of_the_collection() {
    let options = CollectionOptions::builder().write_concern(WriteConcern::majority()).build();
    let collection = collection_with(options);
    let own = WriteConcern::nodes(0);
    let inherited =
        head(&collection, Verb::Insert, &Settings::default(), CommandKind::Write).unwrap();
    assert_eq!(body(&inherited).get_document("writeConcern").unwrap(), &doc! { "w": "majority" });
    assert!(inherited.acknowledged);
    let settings = Settings { write_concern: Some(&own), ..Settings::default() };
    let unacknowledged = head(&collection, Verb::Insert, &settings, CommandKind::Write).unwrap();
    assert_eq!(body(&unacknowledged).get_document("writeConcern").unwrap(), &doc! { "w": 0 });
    assert!(!unacknowledged.acknowledged);
}

#[tokio::test]
async fn names_and_variables_with_nul_bytes_are_rejected() {
    // pitfall 41
    let error = head(
        &collection_named("a", "b\0c"),
        Verb::Insert,
        &Settings::default(),
        CommandKind::Write,
    )
    .unwrap_err();
    assert!(error.is_invalid_argument(), "{error}");
    let variables = doc! { "a\0b": 1 };
    let settings = Settings { let_vars: Some(&variables), ..Settings::default() };
    let error = head(&collection(), Verb::Update, &settings, CommandKind::Write).unwrap_err();
    assert!(
        matches!(&*error.kind, ErrorKind::Bson(_) | ErrorKind::BsonSerialization(_)),
        "{error}"
    );
}

#[test]
fn successful_reply_has_counts() {
    let reply = raw(doc! { "ok": 1, "n": 3_i64, "nModified": 2.0 });
    let reply = WriteReply::read(&reply, 3).unwrap();
    assert_eq!((reply.count(), reply.matched_count(), reply.modified_count()), (3, 3, 2));
}

#[test]
fn ok_with_write_errors_is_an_error() {
    // pitfall 7
    let reply = raw(doc! {
        "ok": 1, "n": 0,
        "writeErrors": [{ "index": 0, "code": 11000, "errmsg": "dup", "errInfo": { "a": 1 } }],
        "errorLabels": ["Label"],
    });
    let error = WriteReply::read_single(&reply).unwrap_err();
    assert!(error.is_duplicate_key_error());
    assert!(error.contains_label("Label"));
    match &*error.kind {
        ErrorKind::Write(WriteFailure::WriteError(error)) => {
            assert_eq!(error.message, "dup");
            assert_eq!(error.details, Some(doc! { "a": 1 }));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_unmet_write_concern_is_an_error() {
    // pitfall 11
    let reply =
        raw(doc! { "ok": 1, "n": 1, "writeConcernError": { "code": 64, "errmsg": "late" } });
    let error = WriteReply::read_single(&reply).unwrap_err();
    match &*error.kind {
        ErrorKind::Write(WriteFailure::WriteConcernError(error)) => assert_eq!(error.code, 64),
        other => panic!("{other:?}"),
    }
}

#[test]
fn write_error_and_write_concern_error_are_both_kept() {
    let reply = raw(doc! {
        "ok": 1, "n": 0,
        "writeErrors": [{ "index": 0, "code": 121, "errmsg": "invalid" }],
        "writeConcernError": { "code": 64, "errmsg": "late" },
    });
    let error = WriteReply::read_single(&reply).unwrap_err();
    assert_eq!(error.code(), Some(121));
    let response = error.server_response().unwrap();
    assert!(response.get_document("writeConcernError").is_ok());
}

#[test]
fn malformed_replies_are_rejected() {
    for reply in [
        doc! { "ok": 1 },
        doc! { "ok": 1, "n": "many" },
        doc! { "ok": 1, "n": -1 },
        doc! { "ok": 1, "n": 1, "writeErrors": 5 },
        doc! { "ok": 1, "n": 1, "writeErrors": [{ "index": 0 }] },
        doc! { "ok": 1, "n": 1, "writeErrors": [{ "index": 1, "code": 1 }] },
        doc! { "ok": 1, "n": 1, "writeErrors": [{ "index": -1, "code": 1 }] },
        doc! { "ok": 1, "n": 1, "writeConcernError": "late" },
        doc! { "ok": 1, "n": 1, "upserted": [{ "index": 7, "_id": 1 }] },
        doc! { "ok": 1, "n": 0, "upserted": [{ "index": 0, "_id": 1 }] },
        doc! { "ok": 1, "n": 1, "upserted": [{ "index": 0 }] },
    ] {
        assert_invalid_response(WriteReply::read_single(&raw(reply)));
    }
}

fn check(change: Change, value: Bson) -> Result<()> {
    let holder = raw(doc! { "u": value });
    change.check(holder.get("u").unwrap().unwrap())
}

#[test]
fn updates_require_operators() {
    assert!(check(Change::Update, doc! { "$set": { "x": 1 } }.into()).is_ok());
    assert!(check(Change::Update, Bson::Array(vec![doc! { "$set": { "x": 1 } }.into()])).is_ok());
    for bad in [doc! {}.into(), doc! { "x": 1 }.into(), Bson::Int32(1)] {
        let error = check(Change::Update, bad).unwrap_err();
        assert!(error.is_invalid_argument(), "{error}");
    }
}

#[test]
fn replacements_reject_operators() {
    assert!(check(Change::Replacement, doc! { "x": 1 }.into()).is_ok());
    assert!(check(Change::Replacement, doc! {}.into()).is_ok());
    for bad in [doc! { "$set": { "x": 1 } }.into(), Bson::Array(vec![]), Bson::Int32(1)] {
        let error = check(Change::Replacement, bad).unwrap_err();
        assert!(error.is_invalid_argument(), "{error}");
    }
}

#[test]
fn failed_append_leaves_the_buffer_unchanged() {
    let mut out = vec![1];
    let failed = append_whole(&mut out, |out| {
        out.push(2);
        Err::<(), _>(Error::invalid_argument("no"))
    });
    assert!(failed.is_err());
    assert_eq!(out, [1]);
}
