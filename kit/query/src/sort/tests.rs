//! Sorted documents.

use bson::{Bson, DateTime, Document, Timestamp, bson, doc};

use super::Sort;
use crate::{Collation, Environment};

#[derive(Clone)]
struct Stored(Document);

impl AsRef<Document> for Stored {
    fn as_ref(&self) -> &Document {
        &self.0
    }
}

/// Sorts documents with these values of `a`. Returns their original positions.
fn order(sort: Document, documents: &[Bson]) -> Vec<i32> {
    let env = Environment::new(DateTime::from_millis(0), Timestamp { time: 1, increment: 1 }, 1);
    let mut sorted: Vec<Stored> = (0..)
        .zip(documents)
        .map(|(index, value)| Stored(doc! { "a": value.clone(), "n": index }))
        .collect();
    Sort::parse(&sort).unwrap().sort(&mut sorted, &env);
    sorted.iter().map(|it| it.0.get_i32("n").unwrap()).collect()
}

#[test]
fn array_sorts_by_its_first_element_in_sort_order() {
    let values = [bson!([1, 9]), bson!(5), bson!([]), bson!([[0]]), Bson::Null];
    assert_eq!(order(doc! { "a": 1 }, &values), [2, 4, 0, 1, 3]);
    assert_eq!(order(doc! { "a": -1 }, &values), [3, 0, 1, 4, 2]);
}

#[test]
fn compound_sort_keys_come_from_one_element() {
    let values =
        [bson!([{ "b": 1, "c": 5 }, { "b": 2, "c": 9 }]), bson!({ "b": 1, "c": 7 }), bson!(1)];
    assert_eq!(order(doc! { "a.b": 1, "a.c": -1 }, &values), [2, 1, 0]);
}

#[test]
fn numeric_path_component_is_an_index_or_a_field() {
    let values = [bson!([3, 1]), bson!({ "0": 2 }), bson!([[1]]), bson!([])];
    assert_eq!(order(doc! { "a.0": 1 }, &values), [3, 1, 0, 2]);
}

#[test]
fn sort_is_stable() {
    let values: Vec<Bson> = (0..40).map(|it| Bson::Int32(it % 2)).collect();
    let expected: Vec<i32> =
        (0..40).filter(|it| it % 2 == 0).chain((0..40).filter(|it| it % 2 == 1)).collect();
    assert_eq!(order(doc! { "a": 1 }, &values), expected);
    assert_eq!(order(doc! {}, &values), (0..40).collect::<Vec<_>>());
    assert_eq!(order(doc! { "$natural": -1 }, &values), (0..40).rev().collect::<Vec<_>>());
}

#[test]
fn compare_orders_two_documents() {
    let sort = Sort::parse(&doc! { "a": -1 }).unwrap();
    let compare =
        |left, right| sort.compare(&doc! { "a": left }, &doc! { "a": right }, &Collation::simple());
    assert!(compare(2, 1).is_lt());
    assert!(compare(1, 1).is_eq());
}

#[test]
fn parallel_arrays_fail() {
    let env = Environment::new(DateTime::from_millis(0), Timestamp { time: 1, increment: 1 }, 1);
    let mut documents = [Stored(doc! { "a": [1], "b": [2] })];
    let sort = Sort::parse(&doc! { "a": 1, "b": 1 }).unwrap();
    let fault = sort.try_sort(&mut documents, &env).unwrap_err();
    assert_eq!(fault.code.number, 2);
    assert_eq!(fault.message, "cannot sort with keys that are parallel arrays");
}

#[test]
fn invalid_sorts_fail_with_server_codes() {
    for (sort, code) in [
        (doc! { "a": 0 }, 15975),
        (doc! { "a": 2 }, 15975),
        (doc! { "a": "x" }, 15974),
        (doc! { "a": [] }, 15974),
        (doc! { "": 1 }, 40352),
        (doc! { "a.": 1 }, 40353),
        (doc! { "a..b": 1 }, 15998),
        (doc! { "$a": 1 }, 16410),
        (doc! { "a": { "$meta": "textScore" } }, 40218),
        (doc! { "a": { "$meta": "foo" } }, 31138),
        (doc! { "a": {} }, 17312),
        (doc! { "$natural": 1, "a": 1 }, 2),
        ((0..33).map(|it| (format!("a{it}"), Bson::Int32(1))).collect(), 13103),
    ] {
        assert_eq!(Sort::parse(&sort).unwrap_err().code.number, code, "{sort}");
    }
    assert!(Sort::parse(&doc! { "a": 1.5, "b": -1_i64 }).is_ok());
    assert_eq!(Sort::parse_stage(&doc! { "$natural": 1 }).unwrap_err().code.number, 16410);
}
