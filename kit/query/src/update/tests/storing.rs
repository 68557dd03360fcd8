//! Stored documents.

use bson::{Bson, Document, Regex, Timestamp, doc};

use crate::update::{size, stored};

use super::{applied, env};

#[test]
fn id_comes_first_and_is_generated_if_missing() {
    let document = stored(doc! { "a": 1, "_id": 7 }, &env()).unwrap();
    assert_eq!(document.keys().collect::<Vec<_>>(), ["_id", "a"]);
    let document = stored(doc! { "a": 1, "$b": { "$c": 1 } }, &env()).unwrap();
    assert_eq!(document.keys().collect::<Vec<_>>(), ["_id", "a", "$b"]);
    assert!(matches!(document["_id"], Bson::ObjectId(_)));
    assert_eq!(stored(doc! { "_id": null }, &env()).unwrap(), doc! { "_id": null });
}

#[test]
fn empty_top_level_timestamps_are_replaced() {
    let empty = Timestamp { time: 0, increment: 0 };
    let document = doc! { "_id": empty, "a": empty, "o": { "t": empty }, "l": [empty] };
    assert_eq!(
        stored(document, &env()).unwrap(),
        doc! {
            "_id": empty, "a": Timestamp { time: 7, increment: 8 }, "o": { "t": empty }, "l": [empty],
        }
    );
}

#[test]
fn invalid_ids_fail() {
    let regex = Regex { pattern: "a".try_into().unwrap(), options: "".try_into().unwrap() };
    for (id, code, words) in [
        (Bson::Array(vec![]), 53, "The '_id' value cannot be of type array"),
        (regex.into(), 53, "The '_id' value cannot be of type regex"),
        (Bson::Undefined, 53, "The '_id' value cannot be of type undefined"),
        (
            doc! { "a": [{ "$b": 1 }] }.into(),
            52,
            "_id fields may not contain '$'-prefixed fields: $b is not valid for storage.",
        ),
        (
            doc! { "$id": 1, "$ref": "c" }.into(),
            52,
            "_id fields may not contain '$'-prefixed fields: $id is not valid for storage.",
        ),
    ] {
        let fault = stored(doc! { "_id": id }, &env()).unwrap_err();
        assert_eq!((fault.code.number, fault.message.as_str()), (code, words));
    }
    for reference in [
        doc! { "$ref": "c", "$id": 1 },
        doc! { "$ref": "c", "$id": 1, "$db": "d" },
        doc! { "$ref": "c", "$id": 1, "x": 1 },
        doc! { "$ref": "c", "$id": { "$x": 1 } },
    ] {
        assert!(stored(doc! { "_id": reference }, &env()).is_ok());
    }
}

fn nested(levels: usize, innermost: impl Into<Bson>) -> Bson {
    (0..levels).fold(innermost.into(), |inner, _| doc! { "a": inner }.into())
}

#[test]
fn documents_are_limited_to_180_levels() {
    let as_document = |value: Bson| value.as_document().cloned().unwrap_or_default();
    for innermost in [Bson::Int32(1), doc! {}.into(), Bson::Array(vec![])] {
        assert!(stored(as_document(nested(180, innermost.clone())), &env()).is_ok());
        let fault = stored(as_document(nested(181, innermost.clone())), &env()).unwrap_err();
        assert_eq!(fault.code.number, 15);
        assert_eq!(
            fault.message,
            "cannot insert document because it exceeds 180 levels of nesting"
        );
        let set = |levels| doc! { "$set": { "a": nested(levels, innermost.clone()) } };
        assert!(applied(&doc! { "_id": 1 }, set(179)).is_ok());
        let fault = applied(&doc! { "_id": 1 }, set(180)).unwrap_err();
        assert_eq!(fault.message, "Document exceeds maximum nesting depth of 180");
        let path = |parts| doc! { "$set": { vec!["a"; parts].join("."): innermost.clone() } };
        assert!(applied(&doc! { "_id": 1 }, path(180)).is_ok());
        assert_eq!(applied(&doc! { "_id": 1 }, path(181)).unwrap_err().code.number, 15);
    }
    let long = vec!["a"; 100_000].join(".");
    assert_eq!(applied(&doc! {}, doc! { "$unset": { long: 1 } }).unwrap_err().code.number, 15);
}

#[test]
fn documents_are_limited_to_16_mebibytes() {
    let of_size = |bytes: usize| -> Document {
        let document = doc! { "_id": 1, "a": "" };
        let rest = bytes - size(&document);
        doc! { "_id": 1, "a": "x".repeat(rest) }
    };
    let most = 16 * 1024 * 1024;
    assert!(stored(of_size(most), &env()).is_ok());
    let fault = stored(of_size(most + 1), &env()).unwrap_err();
    assert_eq!(fault.code.number, 2);
    assert_eq!(
        fault.message,
        "object to insert too large. size in bytes: 16777217, max size: 16777216"
    );
    let full = of_size(most);
    let fault = applied(&full, doc! { "$set": { "b": 1 } }).unwrap_err();
    assert_eq!(fault.code.number, 17419);
    assert_eq!(fault.message, "Resulting document after update is larger than 16777216");
    assert!(applied(&full, doc! { "$set": { "_id": 1 } }).unwrap().is_none());
}
