//! Comparison of strings by collations.

use std::cmp::Ordering;

use bson::{Bson, bson, doc};

use super::Collation;
use crate::value::compare;

fn english(strength: i32) -> Collation {
    Collation::parse(&doc! { "locale": "en", "strength": strength }).unwrap()
}

fn sorted(collation: &Collation, list: &str) -> String {
    let mut words: Vec<&str> = list.split(' ').collect();
    words.sort_by(|left, right| collation.compare(left, right));
    words.join(" ")
}

#[test]
fn strength_selects_comparison_levels() {
    for (left, right, equal_up_to) in
        [("a", "A", 2), ("a", "á", 1), ("cote", "CÔTÉ", 1), ("ae", "æ", 1), ("a", "b", 0)]
    {
        for strength in 1..=3 {
            let equal = english(strength).compare(left, right).is_eq();
            assert_eq!(equal, strength <= equal_up_to, "{left} {right} at {strength}");
        }
    }
}

#[test]
fn letters_precede_accents_and_accents_precede_case() {
    let order = "_ - 1 10 2 a A á Á ab Ab z þ";
    let shuffled = "z 10 Á ab - a þ 2 A Ab _ 1 á";
    assert_eq!(sorted(&english(3), shuffled), order);
    assert_eq!(sorted(&Collation::simple(), "b A a B"), "A B a b");
}

#[test]
fn numeric_ordering_compares_numbers() {
    let options = doc! { "locale": "en_US", "numericOrdering": true };
    let collation = Collation::parse(&options).unwrap();
    assert_eq!(sorted(&collation, "a10 a9 a09b a1 b"), "a1 a9 a09b a10 b");
}

#[test]
fn case_first_and_case_level_apply() {
    let upper = Collation::parse(&doc! { "locale": "en", "caseFirst": "upper" }).unwrap();
    assert_eq!(sorted(&upper, "a A b B"), "A a B b");
    let options = doc! { "locale": "en", "strength": 1, "caseLevel": true };
    let collation = Collation::parse(&options).unwrap();
    assert_eq!(collation.compare("a", "á"), Ordering::Equal);
    assert_eq!(collation.compare("a", "A"), Ordering::Less);
}

#[test]
fn sort_keys_compare_like_values() {
    let words = ["", "a", "A", "á", "ab", "b", "-", "é1", "E"];
    let simple = Collation::simple();
    for collation in [english(1), english(2), english(3)] {
        for left in words {
            for right in words {
                let (left, right) = (bson!([left]), bson!([right]));
                let keys = compare(&collation.key(&left), &collation.key(&right), &simple);
                assert_eq!(keys, compare(&left, &right, &collation), "{left} {right}");
            }
        }
    }
}

#[test]
fn only_values_without_strings_are_exact() {
    assert!(english(2).is_exact_for(&bson!({ "a": [1, null] })));
    assert!(!english(2).is_exact_for(&bson!({ "a": [1, "x"] })));
    assert!(Collation::simple().is_exact_for(&bson!("x")));
}

#[test]
fn invalid_collations_fail() {
    for (options, code) in [
        (doc! { "strength": 1 }, 40414),
        (doc! { "locale": 5 }, 14),
        (doc! { "locale": "en", "foo": 1 }, 40415),
        (doc! { "locale": "en", "strength": 0 }, 2),
        (doc! { "locale": "en", "strength": 6 }, 51024),
        (doc! { "locale": "en", "strength": 5 }, 238),
        (doc! { "locale": "en", "alternate": "shifted" }, 238),
        (doc! { "locale": "en", "caseFirst": "upper", "strength": 1 }, 2),
        (doc! { "locale": "en", "version": "1" }, 161),
        (doc! { "locale": "de" }, 238),
        (doc! { "locale": "en_GB" }, 2),
    ] {
        let fault = Collation::parse(&options).unwrap_err();
        assert_eq!(fault.code.number, code, "{options}: {fault}");
    }
    assert!(Collation::parse(&doc! {}).unwrap().is_simple());
    assert!(Collation::parse(&doc! { "locale": "simple", "strength": 1 }).unwrap().is_simple());
    let listed = english(2).to_document().unwrap();
    assert_eq!(listed.get("version"), Some(&Bson::from("57.1")));
    assert_eq!(Collation::parse(&listed).unwrap(), english(2));
}
