//! The `insert` command, and the `_id`s of documents.

use bson::{Document, RawDocumentBuf, ToStr, doc, rawdoc};
use steadfast_core::concern::WriteConcern;

use super::*;
use crate::operation::fixture::{assert_invalid_response, body, collection, raw};

fn decoded(bytes: &[u8]) -> Document {
    bson::deserialize_from_slice(bytes).unwrap()
}

fn keys(document: &Document) -> Vec<&str> {
    document.keys().map(String::as_str).collect()
}

#[tokio::test]
async fn plain_insert_has_a_document_sequence() {
    let encoded = encode(&doc! { "_id": 7, "x": 1 }).unwrap();
    let command = one(&collection(), encoded.bytes, None).unwrap();
    assert_eq!(body(&command), doc! { "insert": "books", "ordered": true });
    assert_eq!((&*command.name, &*command.database), ("insert", "library"));
    assert_eq!(command.kind, CommandKind::RetryableWrite);
    assert!(command.acknowledged);
    let sequence = command.sequence.unwrap();
    assert_eq!(sequence.identifier.to_str(), "documents");
    assert_eq!(sequence.documents, raw(doc! { "_id": 7, "x": 1 }).into_bytes());
}

#[tokio::test]
async fn every_option_is_sent() {
    let options = InsertOneOptions::builder()
        .bypass_document_validation(false)
        .comment(Bson::from(5))
        .write_concern(WriteConcern::nodes(2))
        .build();
    let command = one(&collection(), Vec::new(), Some(&options)).unwrap();
    assert_eq!(
        body(&command),
        doc! {
            "insert": "books", "ordered": true, "bypassDocumentValidation": false, "comment": 5,
            "writeConcern": { "w": 2 },
        }
    );
}

#[test]
fn existing_id_keeps_its_position() {
    for expected in [IdOrigin::Given, IdOrigin::Generated] {
        let mut out = b"before".to_vec();
        let id = append(&doc! { "x": 1, "_id": "mine" }, &mut out, expected).unwrap();
        assert_eq!(id, Id::Given("mine".into()));
        assert_eq!(out[6..], raw(doc! { "x": 1, "_id": "mine" }).into_bytes());
    }
}

#[test]
fn missing_id_is_generated_as_the_first_field() {
    for expected in [IdOrigin::Given, IdOrigin::Generated] {
        let mut out = b"before".to_vec();
        let id = append(&doc! { "x": 1 }, &mut out, expected).unwrap();
        assert_eq!(id.origin(), IdOrigin::Generated);
        assert_eq!(&out[..6], b"before");
        let document = decoded(&out[6..]);
        assert_eq!(keys(&document), ["_id", "x"]);
        assert_eq!(document.get("_id"), Some(&id.into()));
    }
}

#[test]
fn empty_document_gets_an_id() {
    let encoded = encode(&doc! {}).unwrap();
    assert_eq!(keys(&decoded(&encoded.bytes)), ["_id"]);
}

#[test]
fn raw_documents_are_sent_unchanged() {
    let document: RawDocumentBuf = rawdoc! { "_id": 1, "x": [1, 2, { "y": "z" }] };
    assert_eq!(encode(&document).unwrap().bytes, document.as_bytes());
}

#[test]
fn value_that_is_not_a_document_is_an_error_and_appends_nothing() {
    let mut out = b"before".to_vec();
    assert!(append(&5, &mut out, IdOrigin::Given).is_err());
    assert!(append(&vec![1, 2], &mut out, IdOrigin::Generated).is_err());
    assert!(append(&doc! { "a\0b": 1 }, &mut out, IdOrigin::Generated).is_err());
    assert_eq!(out, b"before");
}

#[test]
fn errors_in_the_reply_are_raised() {
    assert!(read_one(&raw(doc! { "ok": 1, "n": 1 })).is_ok());
    let failed = doc! { "ok": 1, "n": 0, "writeErrors": [{ "index": 0, "code": 11000 }] };
    assert!(read_one(&raw(failed)).unwrap_err().is_duplicate_key_error());
    assert_invalid_response(read_one(&raw(doc! { "ok": 1 })));
}
