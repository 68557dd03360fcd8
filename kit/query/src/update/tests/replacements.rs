//! Replacement documents.

use bson::{Bson, Timestamp, doc};

use crate::Update;

use super::{applied, assert_each, assert_fails, env};

#[test]
fn replacement_keeps_the_id_first() {
    assert_each(vec![
        (doc! { "_id": 1, "a": 5 }, doc! {}, doc! { "_id": 1 }),
        (doc! { "_id": 1, "a": 5 }, doc! { "x": 1 }, doc! { "_id": 1, "x": 1 }),
        (doc! { "_id": 1 }, doc! { "x": 1, "_id": 1.0 }, doc! { "_id": 1.0, "x": 1 }),
        (doc! { "_id": 1 }, doc! { "a.b": 1, "": 2 }, doc! { "_id": 1, "a.b": 1, "": 2 }),
        (
            doc! { "_id": 1 },
            doc! { "a": Timestamp { time: 0, increment: 0 } },
            doc! { "_id": 1, "a": Timestamp { time: 7, increment: 8 } },
        ),
        // A replacement without `_id` counts as a change.
        (doc! { "_id": 1, "a": 5 }, doc! { "a": 5 }, doc! { "_id": 1, "a": 5 }),
    ]);
    assert!(applied(&doc! { "_id": 1, "a": 5 }, doc! { "_id": 1, "a": 5 }).unwrap().is_none());
}

#[test]
fn replacement_with_another_id_fails() {
    assert_fails(vec![
        (
            doc! { "_id": 1 },
            doc! { "_id": 2 },
            66,
            "After applying the update, the (immutable) field '_id' was found to have been altered to \
             _id: 2",
        ),
        (doc! { "_id": 1 }, doc! { "_id": [1] }, 53, "The '_id' value cannot be of type array"),
        (
            doc! { "_id": 1 },
            doc! { "_id": { "$a": 1 } },
            52,
            "_id fields may not contain '$'-prefixed fields: $a is not valid for storage.",
        ),
        (
            doc! { "_id": 1 },
            doc! { "b": 1, "$set": { "a": 1 } },
            52,
            "The dollar ($) prefixed field '$set' in '$set' is not allowed in the context of an \
             update's replacement document. Consider using an aggregation pipeline with $replaceWith.",
        ),
    ]);
}

#[test]
fn operators_replacements_and_pipelines_are_distinguished() {
    let parsed = |update: Bson| Update::parse(&update, &[], &env()).unwrap();
    let replacement = parsed(doc! { "a": 1 }.into());
    assert!(replacement.is_replacement());
    assert_eq!(
        replacement.check_multi().unwrap_err().message,
        "multi update is not supported for replacement-style update"
    );
    let operators = parsed(doc! { "$set": { "a": 1 } }.into());
    assert!(!operators.is_replacement() && !operators.is_pipeline());
    assert!(operators.check_multi().is_ok());
    assert!(parsed(Bson::Array(vec![])).is_pipeline());
    let fault = Update::parse(&Bson::Int32(5), &[], &env()).unwrap_err();
    assert_eq!(fault.message, "Update argument must be either an object or an array");
    let fault = Update::parse(&Bson::Array(vec![]), &[doc! { "i": 1 }], &env()).unwrap_err();
    assert_eq!(fault.message, "arrayFilters may not be specified for pipeline-style updates");
}
