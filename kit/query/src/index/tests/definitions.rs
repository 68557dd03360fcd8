//! Index definitions: valid, invalid, conflicting.

use bson::{Bson, Document, doc};

use crate::{Index, index::default_name};

use super::parsed;

#[test]
fn description_keeps_the_given_options() {
    for (specification, described) in [
        (
            doc! { "key": { "a": 1, "b.c": -1.0 }, "name": "n" },
            doc! { "v": 2, "key": { "a": 1, "b.c": -1.0 }, "name": "n" },
        ),
        (
            doc! { "key": { "a": "hashed", "b": 1 }, "name": "n", "v": 1 },
            doc! { "v": 1, "key": { "a": "hashed", "b": 1 }, "name": "n" },
        ),
        (
            doc! { "key": { "a": 1 }, "name": "n", "unique": 1.5, "sparse": 0, "hidden": false },
            doc! { "v": 2, "key": { "a": 1 }, "name": "n", "unique": true, "sparse": false },
        ),
        (
            doc! { "key": { "a": 1 }, "name": "n", "unique": false, "expireAfterSeconds": 1.5 },
            doc! { "v": 2, "key": { "a": 1 }, "name": "n", "expireAfterSeconds": 1 },
        ),
        (
            doc! {
                "key": { "a": 1 }, "name": "n", "hidden": true, "background": true, "ns": "d.c",
                "partialFilterExpression": { "$or": [{ "b": { "$gt": 5 } }, { "c": null }] },
                "collation": { "locale": "simple" },
            },
            doc! {
                "v": 2, "key": { "a": 1 }, "name": "n", "hidden": true, "background": true,
                "partialFilterExpression": { "$or": [{ "b": { "$gt": 5 } }, { "c": null }] },
            },
        ),
        (
            doc! { "key": { "_id": 1.0 }, "name": "anything" },
            doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" },
        ),
    ] {
        let index = parsed(specification).unwrap();
        assert_eq!(index.description(), described);
        assert_eq!(
            index.description().keys().collect::<Vec<_>>(),
            described.keys().collect::<Vec<_>>()
        );
    }
}

#[test]
fn default_index_name_lists_fields_and_directions() {
    assert_eq!(default_name(&doc! { "a": 1, "b.c": -1.0, "d": "hashed" }), "a_1_b.c_-1_d_hashed");
}

#[test]
fn invalid_key_patterns_fail() {
    let in_key = |code: i32, key: Document, words: &str| {
        let specification = doc! { "key": key, "name": "x" };
        let message = format!(
            "Error in specification {} :: caused by :: {words}",
            crate::text::document(&specification)
        );
        let fault = parsed(specification).unwrap_err();
        assert_eq!((fault.code.number, fault.message), (code, message));
    };
    in_key(67, doc! {}, "Index keys cannot be empty.");
    in_key(67, doc! { "a": 0 }, "Values in the index key pattern cannot be 0.");
    in_key(67, doc! { "a": f64::NAN }, "Values in the index key pattern cannot be NaN.");
    in_key(67, doc! { "a": "text" }, "Unknown index plugin 'text'");
    in_key(67, doc! { "a": "2dsphere" }, "Unknown index plugin '2dsphere'");
    in_key(
        67,
        doc! { "a": true },
        "Values in v:2 index key pattern cannot be of type bool. Only numbers > 0, numbers < 0, and \
         strings are allowed.",
    );
    in_key(67, doc! { "": 1 }, "Index keys cannot be an empty field.");
    in_key(67, doc! { "a..b": 1 }, "Index keys cannot contain an empty field.");
    in_key(
        67,
        doc! { "$**": 1 },
        "Index key contains an illegal field name: field name starts with '$'.",
    );
    assert!(parsed(doc! { "key": { "a.$id": 1 }, "name": "x" }).is_ok());
    let two = parsed(doc! { "key": { "a": "hashed", "b": "hashed" }, "name": "x" }).unwrap_err();
    assert_eq!(two.code.number, 31303);
    let many: Document = (0..33).map(|at| (format!("k{at}"), Bson::Int32(1))).collect();
    assert_eq!(parsed(doc! { "key": many, "name": "x" }).unwrap_err().code.number, 13103);
}

#[test]
fn invalid_index_options_fail() {
    for (options, code, words) in [
        (doc! { "foo": 1 }, 197, "The field 'foo' is not valid for an index specification"),
        (doc! { "unique": "y" }, 14, "unique: \"y\", which is not convertible to bool"),
        (doc! { "v": 3 }, 67, "cannot create an index with v=3"),
        (doc! { "v": "2" }, 14, "The field 'v' must be a number, but got string"),
        (doc! { "expireAfterSeconds": -1 }, 67, "option cannot be less than 0. Index spec: "),
        (doc! { "expireAfterSeconds": "s" }, 67, "but received a type of 'string'. Index spec: "),
        (doc! { "expireAfterSeconds": 1_i64 << 40 }, 67, "try a lower number. Index spec: "),
        (
            doc! { "partialFilterExpression": 5 },
            14,
            "The field 'partialFilterExpression' must be an object, but got int",
        ),
        (
            doc! { "partialFilterExpression": { "b": { "$ne": 5 } } },
            67,
            "Expression not supported in partial index",
        ),
        (
            doc! { "partialFilterExpression": { "b": { "$exists": false } } },
            67,
            "Expression not supported in partial index",
        ),
        (
            doc! { "partialFilterExpression": { "$expr": true } },
            224,
            "$expr is not allowed in this context",
        ),
        (
            doc! { "partialFilterExpression": { "b": 1 }, "sparse": true },
            67,
            "cannot mix \"partialFilterExpression\" and \"sparse\" options",
        ),
        (doc! { "weights": { "a": 1 } }, 67, "can only be specified with text indexes"),
    ] {
        let mut specification = doc! { "key": { "a": 1 }, "name": "x" };
        specification.extend(options.clone());
        let fault = parsed(specification).unwrap_err();
        assert_eq!(fault.code.number, code, "{options}");
        assert!(fault.message.contains(words), "{options}: {}", fault.message);
    }
    let hashed = doc! { "key": { "a": "hashed" }, "name": "x", "unique": true };
    assert_eq!(parsed(hashed).unwrap_err().code.number, 16764);
    let of_two = doc! { "key": { "a": 1, "b": 1 }, "name": "x", "expireAfterSeconds": 1 };
    assert_eq!(parsed(of_two).unwrap_err().code.number, 67);
}

#[test]
fn invalid_index_names_and_id_indexes_fail() {
    for (specification, code, words) in [
        (
            doc! { "key": { "a": 1 } },
            9,
            "Error in specification { key: { a: 1 } } :: caused by :: The 'name' field is a required \
             property of an index specification",
        ),
        (
            doc! { "name": "a" },
            9,
            "Error in specification { name: \"a\" } :: caused by :: The 'key' field is a required \
             property of an index specification",
        ),
        (
            doc! { "key": { "a": 1 }, "name": "" },
            67,
            "Error in specification { key: { a: 1 }, name: \"\", v: 2 } :: caused by :: index name \
             cannot be empty",
        ),
        (doc! { "key": { "a": 1 }, "name": "*" }, 2, "The index name '*' is not valid."),
        (
            doc! { "key": { "a": 1 }, "name": "_id_" },
            2,
            "The index name '_id_' is reserved for the _id index, which must have key pattern {_id: \
             1}, found key: { a: 1 }",
        ),
        (
            doc! { "key": { "_id": -1 }, "name": "x" },
            2,
            "The field 'key' for an _id index must be {_id: 1}, but got { _id: -1 }",
        ),
        (
            doc! { "key": { "_id": 1 }, "name": "_id_", "unique": true },
            197,
            "The field 'unique' is not valid for an _id index specification. Specification: { key: { \
             _id: 1 }, name: \"_id_\", unique: true, v: 2 }",
        ),
    ] {
        let fault = parsed(specification).unwrap_err();
        assert_eq!((fault.code.number, fault.message.as_str()), (code, words));
    }
}

#[test]
fn equivalent_and_conflicting_indexes_are_detected() {
    let existing = [Index::id_index(), parsed(doc! { "key": { "a": 1 }, "name": "a_1" }).unwrap()];
    let request = |specification: Document| {
        parsed(specification).unwrap().exists_among(&existing).map_err(|it| it.code.number)
    };
    let base = |name: &str| doc! { "key": { "a": 1 }, "name": name };
    let with = |name: &str, option: &str, value: Bson| {
        let mut specification = base(name);
        specification.insert(option, value);
        specification
    };
    for (specification, expected) in [
        (base("a_1"), Ok(true)),
        (doc! { "key": { "a": 1.0 }, "name": "a_1", "unique": false }, Ok(true)),
        (with("a_1", "hidden", true.into()), Ok(true)),
        (doc! { "key": { "_id": 1 }, "name": "x" }, Ok(true)),
        (doc! { "key": { "a": -1 }, "name": "a_1" }, Err(86)),
        (with("a_1", "unique", true.into()), Err(86)),
        (with("a_1", "partialFilterExpression", doc! { "b": 1 }.into()), Err(86)),
        (base("other"), Err(85)),
        (with("a_1", "expireAfterSeconds", 5.into()), Err(85)),
        (with("other", "expireAfterSeconds", 5.into()), Err(85)),
        (with("other", "unique", true.into()), Ok(false)),
        (with("other", "sparse", true.into()), Ok(false)),
        (doc! { "key": { "a": 2 }, "name": "other" }, Ok(false)),
    ] {
        assert_eq!(request(specification.clone()), expected, "{specification}");
    }
    let fault = parsed(with("a_1", "unique", true.into())).unwrap().exists_among(&existing);
    assert!(fault.unwrap_err().message.ends_with(
        "Requested index: { v: 2, unique: true, key: { a: 1 }, name: \"a_1\" }, existing index: { v: \
         2, key: { a: 1 }, name: \"a_1\" }"
    ));
}

#[test]
fn index_collation_orders_and_distinguishes_keys() {
    let collated = |key: Document| {
        doc! { "key": key, "name": "x", "collation": { "locale": "en", "strength": 2 } }
    };
    let index = parsed(collated(doc! { "a": 1 })).unwrap();
    let described = index.description();
    assert_eq!(described.get_document("collation").unwrap().len(), 10);
    let key = |text: &str| index.key_of(vec![text.into()]);
    assert!(key("A") == key("a") && key("a") < key("B"));
    let plain = parsed(doc! { "key": { "a": 1 }, "name": "y" }).unwrap();
    assert!(!plain.exists_among([&index]).unwrap());
    let id_index = parsed(collated(doc! { "_id": 1 })).unwrap();
    let there = Index::id_index_with_collation(&doc! { "locale": "en", "strength": 2 }).unwrap();
    assert!(id_index.exists_among([&there]).unwrap());
    let fault = Index::id_index().exists_among([&there]).unwrap_err();
    assert!(fault.message.starts_with(
        "The _id index must have the same collation as the collection. Index collation: { locale: \
         \"simple\" }, collection collation: { locale: \"en\","
    ));
}
