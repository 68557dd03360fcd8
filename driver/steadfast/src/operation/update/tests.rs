//! The `update` command and its reply.

use bson::{Bson, Document, RawDocumentBuf, ToStr, doc};
use steadfast_core::concern::WriteConcern;

use super::*;
use crate::{
    error::ErrorKind,
    operation::fixture::{assert_invalid_response, body, collection, raw},
    options::{Collation, Hint, ReplaceOptions, UpdateModifications},
};

fn statement(command: &Command) -> Document {
    let sequence = command.sequence.as_ref().unwrap();
    assert_eq!(sequence.identifier.to_str(), "updates");
    bson::deserialize_from_slice(&sequence.documents).unwrap()
}

fn updating(
    update: impl Into<UpdateModifications>,
    multi: bool,
    options: Option<&UpdateOptions>,
) -> Result<Command> {
    let update = update.into();
    super::update(&collection(), &doc! { "x": 1 }, (Change::Update, &update), multi, options)
}

#[tokio::test]
async fn update_without_options_sends_filter_and_operators() {
    let command = updating(doc! { "$inc": { "x": 1 } }, false, None).unwrap();
    assert_eq!(body(&command), doc! { "update": "books", "ordered": true });
    assert_eq!(statement(&command), doc! { "q": { "x": 1 }, "u": { "$inc": { "x": 1 } } });
    assert_eq!(command.kind, CommandKind::RetryableWrite);
}

#[tokio::test]
async fn update_many_is_not_retryable() {
    // pitfall 12
    let command = updating(doc! { "$inc": { "x": 1 } }, true, None).unwrap();
    assert_eq!(
        statement(&command),
        doc! { "q": { "x": 1 }, "u": { "$inc": { "x": 1 } }, "multi": true }
    );
    assert_eq!(command.kind, CommandKind::Write);
}

#[tokio::test]
async fn pipeline_is_sent_as_an_array() {
    let command = updating(vec![doc! { "$set": { "y": "$x" } }], false, None).unwrap();
    assert_eq!(statement(&command), doc! { "q": { "x": 1 }, "u": [{ "$set": { "y": "$x" } }] });
}

#[tokio::test]
async fn options_are_sent_in_the_statement_or_in_the_command() {
    let options = UpdateOptions::builder()
        .array_filters(vec![doc! { "e": 1 }])
        .bypass_document_validation(true)
        .upsert(true)
        .collation(Collation::builder().locale("de").build())
        .hint(Hint::Keys(doc! { "x": 1 }))
        .write_concern(WriteConcern::majority())
        .let_vars(doc! { "v": 1 })
        .comment(Bson::from("note"))
        .sort(doc! { "x": -1 })
        .build();
    let command = updating(doc! { "$set": { "a": 1 } }, false, Some(&options)).unwrap();
    assert_eq!(
        body(&command),
        doc! {
            "update": "books", "ordered": true, "bypassDocumentValidation": true,
            "let": { "v": 1 }, "comment": "note", "writeConcern": { "w": "majority" },
        }
    );
    assert_eq!(
        statement(&command),
        doc! {
            "q": { "x": 1 }, "u": { "$set": { "a": 1 } }, "upsert": true,
            "arrayFilters": [{ "e": 1 }], "collation": { "locale": "de" }, "hint": { "x": 1 },
            "sort": { "x": -1 },
        }
    );
}

#[tokio::test]
async fn replacement_is_sent_unchanged() {
    let replacement: RawDocumentBuf = raw(doc! { "y": 2 });
    let options = ReplaceOptions::builder().upsert(true).hint(Hint::Name("x_1".to_owned())).build();
    let change = (Change::Replacement, &replacement);
    let command =
        super::update(&collection(), &doc! { "x": 1 }, change, false, Some(&options.into()))
            .unwrap();
    assert_eq!(
        statement(&command),
        doc! { "q": { "x": 1 }, "u": { "y": 2 }, "upsert": true, "hint": "x_1" }
    );
    assert_eq!(command.kind, CommandKind::RetryableWrite);
}

#[tokio::test]
async fn updates_require_operators_and_replacements_reject_them() {
    assert!(updating(doc! { "x": 1 }, false, None).unwrap_err().is_invalid_argument());
    assert!(updating(doc! {}, true, None).unwrap_err().is_invalid_argument());
    let operators = raw(doc! { "$set": { "x": 1 } });
    let change = (Change::Replacement, &operators);
    let error = super::update(&collection(), &doc! {}, change, false, None).unwrap_err();
    assert!(error.is_invalid_argument());
}

#[tokio::test]
async fn nul_byte_in_a_field_name_is_rejected() {
    let error = updating(doc! { "$set": { "a\0b": 1 } }, false, None).unwrap_err();
    assert!(
        matches!(&*error.kind, ErrorKind::Bson(_) | ErrorKind::BsonSerialization(_)),
        "{error}"
    );
}

#[test]
fn matched_and_modified_counts_are_read_from_the_reply() {
    let result = read(&raw(doc! { "ok": 1, "n": 5, "nModified": 3 })).unwrap();
    assert_eq!((result.matched_count, result.modified_count, result.upserted_id), (5, 3, None));
}

#[test]
fn upsert_has_no_matched_document() {
    let reply =
        doc! { "ok": 1, "n": 1, "nModified": 0, "upserted": [{ "index": 0, "_id": "new" }] };
    let result = read(&raw(reply)).unwrap();
    assert_eq!((result.matched_count, result.modified_count), (0, 0));
    assert_eq!(result.upserted_id, Some(Bson::from("new")));
}

#[test]
fn malformed_replies_are_rejected() {
    assert_invalid_response(read(&raw(doc! { "ok": 1, "nModified": 1 })));
    assert_invalid_response(read(&raw(doc! { "ok": 1, "n": 1, "upserted": 5 })));
}
