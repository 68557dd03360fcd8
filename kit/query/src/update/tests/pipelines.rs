//! Update pipelines.

use bson::{Bson, Document, Timestamp, doc};

use crate::{Fault, Filter, Update};

use super::{applied, env, identical_documents};

fn pipeline(stages: &[Document]) -> Bson {
    stages.iter().cloned().map(Bson::Document).collect()
}

fn fails_with(result: Result<Option<Document>, Fault>) -> (i32, String) {
    let fault = result.unwrap_err();
    (fault.code.number, fault.message)
}

#[test]
fn update_pipeline_keeps_the_id() {
    let before = doc! { "_id": 1, "a": 1 };
    for (stages, expected) in [
        (
            vec![doc! { "$addFields": { "b": { "$add": ["$a", 1] } } }],
            doc! { "_id": 1, "a": 1, "b": 2 },
        ),
        (vec![doc! { "$unset": "a" }], doc! { "_id": 1 }),
        // Removing `_id` makes another document, until `_id` is restored.
        (vec![doc! { "$unset": "_id" }], doc! { "_id": 1, "a": 1 }),
        (vec![doc! { "$replaceWith": { "z": "$a" } }], doc! { "_id": 1, "z": 1 }),
        (vec![doc! { "$replaceWith": { "_id": 1.0 } }], doc! { "_id": 1.0 }),
        (vec![doc! { "$replaceWith": { "$literal": { "$a": 1 } } }], doc! { "_id": 1, "$a": 1 }),
        (
            vec![doc! { "$set": { "t": Timestamp { time: 0, increment: 0 } } }],
            doc! { "_id": 1, "a": 1, "t": Timestamp { time: 0, increment: 0 } },
        ),
        (
            vec![doc! { "$set": { "t": "$$CLUSTER_TIME" } }, doc! { "$project": { "a": 0 } }],
            doc! { "_id": 1, "t": Timestamp { time: 7, increment: 8 } },
        ),
    ] {
        let after = applied(&before, pipeline(&stages)).unwrap().unwrap();
        assert!(identical_documents(&after, &expected), "{stages:?} made {after}");
    }
    for stages in [vec![], vec![doc! { "$set": { "a": 1 } }], vec![doc! { "$project": { "a": 1 } }]]
    {
        assert!(applied(&before, pipeline(&stages)).unwrap().is_none(), "{stages:?}");
    }
}

#[test]
fn invalid_update_pipelines_fail() {
    let before = doc! { "_id": 1, "a": 1 };
    for (stages, code, words) in [
        (
            vec![doc! { "$set": { "_id": 2 } }],
            66,
            "After applying the update, the (immutable) field '_id' was found to have been altered to \
             _id: 2",
        ),
        (vec![doc! { "$set": { "_id": [1] } }], 53, "The '_id' value cannot be of type array"),
        (vec![doc! { "$match": {} }], 72, "$match is not allowed to be used within an update"),
        (vec![doc! { "$out": "x" }], 72, "$out is not allowed to be used within an update"),
        (vec![doc! { "$foo": 1 }], 40324, "Unrecognized pipeline stage name: '$foo'"),
    ] {
        let (number, message) = fails_with(applied(&before, pipeline(&stages)));
        assert_eq!((number, message.as_str()), (code, words));
    }
    let (code, message) = fails_with(applied(&before, Bson::Array(vec![Bson::Int32(5)])));
    assert_eq!(code, 14);
    assert_eq!(message, "Each element of the 'pipeline' array must be an object");
}

#[test]
fn pipeline_upsert_starts_with_equality_conditions() {
    let env = env();
    let upserted = |filter: Document, stages: &[Document]| {
        let filter = Filter::parse(&filter, &env).unwrap();
        Update::parse(&pipeline(stages), &[], &env).unwrap().upserted(&filter, &env)
    };
    let set = [doc! { "$set": { "z": "$y" } }];
    let document = upserted(doc! { "y": 5, "_id": 3 }, &set).unwrap();
    assert!(identical_documents(&document, &doc! { "_id": 3, "y": 5, "z": 5 }));
    let replaced = [doc! { "$replaceWith": { "q": 1 } }];
    let document = upserted(doc! { "_id": 3, "y.z": 1 }, &replaced).unwrap();
    assert!(identical_documents(&document, &doc! { "_id": 3, "q": 1 }));
    let fault = upserted(doc! { "_id": 3 }, &[doc! { "$set": { "_id": 9 } }]).unwrap_err();
    assert_eq!(fault.code.number, 66);
    let document = upserted(doc! { "x": 3 }, &[doc! { "$set": { "_id": 9 } }]).unwrap();
    assert_eq!(document, doc! { "_id": 9, "x": 3 });
}
