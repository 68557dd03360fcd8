//! Documents of upserts.

use bson::{Bson, Document, Timestamp, doc};

use crate::{Fault, Filter, Update};

use super::env;

fn upserted(filter: Document, update: Document) -> Result<Document, Fault> {
    let env = env();
    let filter = Filter::parse(&filter, &env)?;
    Update::parse(&update.into(), &[], &env)?.upserted(&filter, &env)
}

#[test]
fn upsert_starts_with_equality_conditions() {
    let set = || doc! { "$set": { "x": 1 } };
    for (filter, update, expected) in [
        (doc! { "_id": 5 }, set(), doc! { "_id": 5, "x": 1 }),
        (doc! { "z": 1, "_id": 2, "a": 3 }, set(), doc! { "_id": 2, "a": 3, "z": 1, "x": 1 }),
        (
            doc! { "_id": 2, "a.b": 1, "a0": 2, "a-": 3, "B": { "$eq": 4 } },
            set(),
            doc! { "_id": 2, "B": 4, "a-": 3, "a": { "b": 1 }, "a0": 2, "x": 1 },
        ),
        (doc! { "_id": 2, "a.0": 1 }, set(), doc! { "_id": 2, "a": { "0": 1 }, "x": 1 }),
        (doc! { "_id.a": 1, "_id.b": 1 }, set(), doc! { "_id": { "a": 1, "b": 1 }, "x": 1 }),
        (doc! { "$and": [{ "_id": 1 }, { "a": { "$gt": 2 } }] }, set(), doc! { "_id": 1, "x": 1 }),
        (
            doc! { "a": 1 },
            doc! { "$setOnInsert": { "_id": 9, "b": 1 }, "$inc": { "a": 1 }, "$unset": { "q": 1 } },
            doc! { "_id": 9, "a": 2, "b": 1 },
        ),
        (
            doc! { "_id": 1, "t": Timestamp { time: 0, increment: 0 } },
            set(),
            doc! { "_id": 1, "t": Timestamp { time: 0, increment: 0 }, "x": 1 },
        ),
        (doc! { "_id": 5, "a": 1 }, doc! { "y": 1 }, doc! { "_id": 5, "y": 1 }),
        (doc! { "_id": 5 }, doc! { "_id": 5.0, "y": 1 }, doc! { "_id": 5.0, "y": 1 }),
        (doc! { "_id": 5 }, doc! { "y": 1, "$b": 1 }, doc! { "_id": 5, "y": 1, "$b": 1 }),
    ] {
        let document = upserted(filter.clone(), update).unwrap();
        assert!(
            super::identical_documents(&document, &expected),
            "{filter} gave {document}, not {expected}"
        );
    }
    let made = upserted(doc! { "a": 1 }, doc! { "y": 1 }).unwrap();
    assert!(matches!(made["_id"], Bson::ObjectId(_)));
}

#[test]
fn conflicting_upsert_filters_fail() {
    let set = || doc! { "$set": { "x": 1 } };
    for (filter, update, code, words) in [
        (
            doc! { "a": 1, "$and": [{ "a": 2 }] },
            set(),
            54,
            "cannot infer query fields to set, path 'a' is matched twice",
        ),
        (
            doc! { "a.b": 1, "a": { "b": 1 } },
            set(),
            54,
            "cannot infer query fields to set, both paths 'a.b' and 'a' are matched",
        ),
        (
            doc! { "_id.a": 5 },
            doc! { "y": 1 },
            111,
            "field at '_id' must be exactly specified, field at sub-path '_id.a'found",
        ),
        (
            doc! { "_id": 5 },
            doc! { "_id": 6 },
            66,
            "After applying the update, the (immutable) field '_id' was found to have been altered to \
             _id: 6",
        ),
        (
            doc! { "_id": 5 },
            doc! { "$set": { "_id": 6 } },
            66,
            "Performing an update on the path '_id' would modify the immutable field '_id'",
        ),
        (
            doc! { "a": 1 },
            doc! { "_id": [1] },
            54,
            "After applying the update to the document, the (immutable) field '_id' was found to be an \
             array or array descendant.",
        ),
        (
            doc! { "a": 1 },
            doc! { "$set": { "_id": [1] } },
            53,
            "The '_id' value cannot be of type array",
        ),
        (
            doc! { "a": 1 },
            doc! { "$set": { "a.b": 2 } },
            28,
            "Cannot create field 'b' in element {a: 1}",
        ),
        (doc! { "": 1 }, set(), 20, "Cannot call setValue on the root object"),
    ] {
        let fault = upserted(filter.clone(), update).unwrap_err();
        assert_eq!((fault.code.number, fault.message.as_str()), (code, words), "{filter}");
    }
}
