//! Keys of documents.

use bson::{Bson, Document, bson, doc};
use proptest::prelude::*;

use crate::{Fault, Index, index::hashed};

use super::{env, parsed};

fn keys(specification: Document, document: &Document) -> Result<Vec<Vec<Bson>>, Fault> {
    let keys = parsed(specification)?.keys(document, &env())?;
    Ok(keys.iter().map(|key| key.values().to_vec()).collect())
}

#[test]
fn array_gives_one_key_per_element() {
    for (key, document, expected) in [
        (doc! { "a": 1 }, doc! { "a": [1, 2, 1] }, bson!([[1], [2]])),
        (doc! { "a": -1 }, doc! { "a": [1, 2, 1] }, bson!([[2], [1]])),
        (doc! { "a": 1 }, doc! {}, bson!([[null]])),
        (doc! { "a": 1, "b": 1 }, doc! { "a": [1, 2], "b": 3 }, bson!([[1, 3], [2, 3]])),
        (doc! { "a.b": 1 }, doc! { "a": [{ "b": 1 }, { "b": [2, 3] }] }, bson!([[1], [2], [3]])),
        (doc! { "a.0": 1 }, doc! { "a": [7, 8] }, bson!([[7]])),
    ] {
        let found = keys(doc! { "key": key, "name": "x" }, &document).unwrap();
        let found = Bson::Array(found.into_iter().map(Bson::Array).collect());
        assert_eq!(found, expected, "{document}");
    }
    let empty = keys(doc! { "key": { "a": 1 }, "name": "x" }, &doc! { "a": [] }).unwrap();
    assert_eq!(empty, [[Bson::Undefined]]);
}

#[test]
fn sparse_and_partial_indexes_omit_documents() {
    let sparse = |document| {
        let specification = doc! { "key": { "a.b": 1, "c": 1 }, "name": "x", "sparse": true };
        keys(specification, &document).unwrap().len()
    };
    assert_eq!(sparse(doc! { "a": 1 }), 0);
    assert_eq!(sparse(doc! { "a": { "b": null } }), 1);
    assert_eq!(sparse(doc! { "c": 1 }), 1);
    assert_eq!(sparse(doc! { "a": [{ "b": 1 }, {}] }), 1);
    let partial = |document| {
        let specification = doc! { "key": { "a": 1 }, "name": "x", "partialFilterExpression": { "b": { "$gt": 5 } } };
        keys(specification, &document).unwrap().len()
    };
    assert_eq!(partial(doc! { "a": 1, "b": 5 }), 0);
    assert_eq!(partial(doc! { "b": 6 }), 1);
}

#[test]
fn parallel_arrays_fail_with_their_names() {
    for (key, document, words) in [
        (doc! { "a": 1, "b": 1 }, doc! { "a": [], "b": [2] }, "[b] [a]"),
        (doc! { "x.a": 1, "x.b": 1, "c": 1 }, doc! { "x": [{ "a": 1 }], "c": [1] }, "[c] [x]"),
        (doc! { "x.a": 1, "x.b": 1 }, doc! { "x": { "a": [1], "b": [1] } }, "[b] [a]"),
        (doc! { "x.a": 1, "x.b": 1 }, doc! { "x": [{ "a": [1], "b": [2] }] }, "[b] [a]"),
    ] {
        let fault = keys(doc! { "key": key, "name": "x" }, &document).unwrap_err();
        assert_eq!(fault.code.number, 171);
        assert_eq!(fault.message, format!("cannot index parallel arrays {words}"));
    }
}

#[test]
fn hashed_index_stores_hashes_and_rejects_arrays() {
    let specification = || doc! { "key": { "a.b": "hashed" }, "name": "x" };
    let found = keys(specification(), &doc! { "a": { "b": 1 } }).unwrap();
    assert_eq!(found, [[Bson::Int64(hashed(&1.into()))]]);
    let found = keys(specification(), &doc! { "a": 5 }).unwrap();
    assert_eq!(found, [[Bson::Int64(hashed(&Bson::Null))]]);
    let fault = keys(specification(), &doc! { "a": [{ "b": 1 }] }).unwrap_err();
    assert_eq!(fault.code.number, 16766);
    assert!(fault.message.ends_with("Found array at path: a"));
}

#[test]
fn duplicate_key_error_names_the_key() {
    let index = parsed(doc! { "key": { "a": 1, "b.c": -1 }, "name": "n", "unique": true }).unwrap();
    let keys = index.keys(&doc! { "a": [5, 1], "b": { "c": "x" } }, &env()).unwrap();
    let fault = index.duplicate_key("db.c", &keys[0]);
    assert_eq!(fault.code.number, 11000);
    assert_eq!(
        fault.message,
        "E11000 duplicate key error collection: db.c index: n dup key: { a: 1, b.c: \"x\" }"
    );
    assert_eq!(
        fault.details,
        doc! { "keyPattern": { "a": 1, "b.c": -1 }, "keyValue": { "a": 1, "b.c": "x" } }
    );
    let id_index = Index::id_index();
    let keys = id_index.keys(&doc! { "_id": 1 }, &env()).unwrap();
    assert_eq!(
        id_index.duplicate_key("db.c", &keys[0]).message,
        "E11000 duplicate key error collection: db.c index: _id_ dup key: { _id: 1 }"
    );
    assert!(id_index.is_unique());
}

#[test]
fn index_keys_compare_across_number_types() {
    let index = Index::id_index();
    let key = |id: Bson| index.keys(&doc! { "_id": id }, &env()).unwrap().remove(0);
    assert_eq!(key(1.into()), key(1.0.into()));
    assert!(key(1.into()) < key("a".into()));
    assert_eq!(key(1.into()), index.key_of(vec![Bson::Int64(1)]));
}

proptest! {
    /// Keys are sorted and unique.
    #[test]
    fn index_keys_are_sorted_and_unique(
        elements in prop::collection::vec(any::<i8>(), 0..8),
        descends: bool,
    ) {
        let direction = if descends { -1 } else { 1 };
        let index = parsed(doc! { "key": { "a": direction }, "name": "x" }).unwrap();
        let array: Vec<Bson> = elements.iter().map(|it| i32::from(*it).into()).collect();
        let keys = index.keys(&doc! { "a": array }, &env()).unwrap();
        prop_assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
        for element in &elements {
            prop_assert!(keys.contains(&index.key_of(vec![i64::from(*element).into()])));
        }
    }
}
