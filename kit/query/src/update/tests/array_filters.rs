//! Array updates: `$`, `$[]` and `$[name]`.

use bson::{Document, doc};

use crate::{Fault, Filter, Update};

use super::{assert_each, assert_fails, env, matched};

fn document() -> Document {
    doc! {
        "_id": 1,
        "arr": [1, 2, 3],
        "docs": [{ "x": 1, "y": [1, 2] }, { "x": 2, "y": [3] }],
    }
}

fn filtered(update: Document, filters: &[Document]) -> Result<Option<Document>, Fault> {
    let env = env();
    let filter = Filter::parse(&doc! {}, &env)?;
    Update::parse(&update.into(), filters, &env)?.apply(&document(), &filter, &env)
}

#[test]
fn array_filters_select_elements() {
    for (update, filters, field, expected) in [
        (
            doc! { "$set": { "arr.$[i]": 9 } },
            vec![doc! { "i": { "$gt": 1 } }],
            "arr",
            doc! { "": [1, 9, 9] },
        ),
        (
            doc! { "$set": { "arr.$[i]": 9, "arr.$[j]": 10 } },
            vec![doc! { "i": 1 }, doc! { "j": 2 }],
            "arr",
            doc! { "": [9, 10, 3] },
        ),
        (
            doc! { "$set": { "docs.$[].y.$[k]": 0 } },
            vec![doc! { "k": { "$gte": 2 } }],
            "docs",
            doc! { "": [{ "x": 1, "y": [1, 0] }, { "x": 2, "y": [0] }] },
        ),
        (
            doc! { "$inc": { "docs.$[d].x": 9 }, "$set": { "docs.$[e].q": 10 } },
            vec![doc! { "d.x": 2 }, doc! { "e.x": { "$gt": 0 } }],
            "docs",
            doc! { "": [{ "x": 1, "y": [1, 2], "q": 10 }, { "x": 11, "y": [3], "q": 10 }] },
        ),
        (
            doc! { "$unset": { "arr.$[i]": 1 } },
            vec![doc! { "$or": [{ "i": 2 }, { "i": 3 }] }],
            "arr",
            doc! { "": [1, null, null] },
        ),
    ] {
        let result = filtered(update.clone(), &filters).unwrap().unwrap();
        assert_eq!(result.get(field), expected.get(""), "{update}");
    }
    let none = filtered(doc! { "$set": { "arr.$[i]": 9 } }, &[doc! { "i": 77 }]).unwrap();
    assert!(none.is_none());
}

#[test]
fn invalid_array_filters_fail() {
    let set = || doc! { "$set": { "arr.$[i]": 9 } };
    for (update, filters, code, words) in [
        (set(), vec![], 2, "No array filter found for identifier 'i' in path 'arr.$[i]'"),
        (
            set(),
            vec![doc! { "i": 1 }, doc! { "j": 1 }],
            9,
            "The array filter for identifier 'j' was not used in the update { $set: { arr.$[i]: 9 } }",
        ),
        (
            set(),
            vec![doc! { "i": 1 }, doc! { "i": 2 }],
            9,
            "Found multiple array filters with the same top-level field name i",
        ),
        (
            set(),
            vec![doc! { "I": 1 }],
            2,
            "Error parsing array filter :: caused by :: The top-level field name must be an \
             alphanumeric string beginning with a lowercase letter, found 'I'",
        ),
        (
            set(),
            vec![doc! {}],
            9,
            "Cannot use an expression without a top-level field name in arrayFilters",
        ),
        (
            set(),
            vec![doc! { "i": 1, "j": 2 }],
            9,
            "Error parsing array filter :: caused by :: Expected a single top-level field name, found \
             'i' and 'j'",
        ),
        (
            set(),
            vec![doc! { "$expr": true }],
            224,
            "Error parsing array filter :: caused by :: $expr is not allowed in this context",
        ),
        (
            doc! { "$set": { "arr.$[i]": 9, "arr.$[j]": 10 } },
            vec![doc! { "i": 1 }, doc! { "j": { "$gt": 0 } }],
            40,
            "Update created a conflict at 'arr.0'",
        ),
        (
            doc! { "$set": { "docs.$[d].x": 9, "docs.$[].x": 10 } },
            vec![doc! { "d.x": 2 }],
            40,
            "Update created a conflict at 'docs.1.x'",
        ),
    ] {
        let fault = filtered(update.clone(), &filters).unwrap_err();
        assert_eq!((fault.code.number, fault.message.as_str()), (code, words), "{update}");
    }
}

#[test]
fn positional_operator_updates_the_matched_element() {
    for (filter, update, field, expected) in [
        (doc! { "arr": 2 }, doc! { "$set": { "arr.$": 9 } }, "arr", doc! { "": [1, 9, 3] }),
        (
            doc! { "docs.x": 2 },
            doc! { "$set": { "docs.$.a": 9, "docs.1.b": 3 } },
            "docs",
            doc! { "": [{ "x": 1, "y": [1, 2] }, { "x": 2, "y": [3], "a": 9, "b": 3 }] },
        ),
        (
            doc! { "docs.x": 2 },
            doc! { "$set": { "docs.$.y.$[]": 9 } },
            "docs",
            doc! { "": [{ "x": 1, "y": [1, 2] }, { "x": 2, "y": [9] }] },
        ),
        (doc! { "arr": 2 }, doc! { "$set": { "other.$": 9 } }, "other", doc! { "": { "1": 9 } }),
    ] {
        let result = matched(&document(), &filter, update.clone()).unwrap().unwrap();
        assert_eq!(result.get(field), expected.get(""), "{update}");
    }
    let conflict = doc! { "$set": { "docs.$.a": 9, "docs.1.a": 3 } };
    let fault = matched(&document(), &doc! { "docs.x": 2 }, conflict).unwrap_err();
    assert_eq!(fault.message, "Update created a conflict at 'docs.1.a'");
}

#[test]
fn invalid_positional_paths_fail() {
    for (update, words) in [
        (
            doc! { "$set": { "arr.$": 1 } },
            "The positional operator did not find the match needed from the query.",
        ),
        (
            doc! { "$set": { "arr.$.$": 1 } },
            "Too many positional (i.e. '$') elements found in path 'arr.$.$'",
        ),
        (
            doc! { "$set": { "$": 1 } },
            "Cannot have positional (i.e. '$') element in the first position in path '$'",
        ),
        (
            doc! { "$set": { "$[]": 1 } },
            "Cannot have array filter identifier (i.e. '$[<id>]') element in the first position in \
             path '$[]'",
        ),
        (
            doc! { "$set": { "nope.$[]": 1 } },
            "The path 'nope' must exist in the document in order to apply array updates.",
        ),
        (
            doc! { "$set": { "_id.$[]": 1 } },
            "Cannot apply array updates to non-array element _id: 1",
        ),
        (
            doc! { "$rename": { "a.$": "x" } },
            "The source field for $rename may not be dynamic: a.$",
        ),
    ] {
        assert_fails(vec![(document(), update, 2, words)]);
    }
}

#[test]
fn all_positional_operator_updates_all_elements() {
    assert_each(vec![
        (doc! { "a": [1, 2] }, doc! { "$inc": { "a.$[]": 1.5 } }, doc! { "a": [2.5, 3.5] }),
        (
            doc! { "a": [{ "b": [1] }, { "b": [] }] },
            doc! { "$push": { "a.$[].b": 9 } },
            doc! { "a": [{ "b": [1, 9] }, { "b": [9] }] },
        ),
    ]);
}
