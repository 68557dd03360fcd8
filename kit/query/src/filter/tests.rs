//! Filters and the documents that they match.

use bson::{Binary, Bson, DateTime, Document, Regex, Timestamp, bson, doc, spec::BinarySubtype};

use super::Filter;
use crate::{Collation, Environment};

fn environment() -> Environment {
    Environment::new(DateTime::from_millis(0), Timestamp { time: 1, increment: 1 }, 1)
}

fn matches(filter: &Document, document: &Document) -> bool {
    let env = environment();
    Filter::parse(filter, &env).unwrap().matches(document, &env).unwrap()
}

fn regex(pattern: &str, options: &str) -> Bson {
    Bson::RegularExpression(Regex {
        pattern: pattern.to_owned().try_into().unwrap(),
        options: options.to_owned().try_into().unwrap(),
    })
}

/// Asserts for each filter a document that it matches and one that it does not.
fn check(cases: impl IntoIterator<Item = (Document, Document, Document)>) {
    for (filter, yes, no) in cases {
        assert!(matches(&filter, &yes), "{filter} matches {yes}");
        assert!(!matches(&filter, &no), "{filter} does not match {no}");
    }
}

#[test]
fn equality_compares_number_types_and_elements() {
    check([
        (doc! { "a": 1 }, doc! { "a": 1.0 }, doc! { "a": "1" }),
        (doc! { "a": 1 }, doc! { "a": [0, 1_i64] }, doc! { "a": [[1]] }),
        (doc! { "a": [1, 2] }, doc! { "a": [1, 2] }, doc! { "a": [2, 1] }),
        (doc! { "a": [1, 2] }, doc! { "a": [[1, 2]] }, doc! { "a": [1, 2, 3] }),
        (doc! { "a": { "b": 1 } }, doc! { "a": { "b": 1 } }, doc! { "a": { "b": 1, "c": 2 } }),
        (doc! { "a": {} }, doc! { "a": {} }, doc! { "a": { "b": 1 } }),
        (doc! { "a": { "$eq": { "$x": 1 } } }, doc! { "a": { "$x": 1 } }, doc! {}),
        (doc! { "a": f64::NAN }, doc! { "a": f64::NAN }, doc! { "a": 1 }),
    ]);
}

#[test]
fn null_matches_missing_fields() {
    check([
        (doc! { "a": null }, doc! {}, doc! { "a": 1 }),
        (doc! { "a": null }, doc! { "a": Bson::Undefined }, doc! { "a": [] }),
        (doc! { "a.b": null }, doc! { "a": 5 }, doc! { "a": [] }),
        (doc! { "a.b": null }, doc! { "a": [{}] }, doc! { "a": [1] }),
        (doc! { "a": { "$in": [null] } }, doc! {}, doc! { "a": 0 }),
        (doc! { "a": { "$gte": null } }, doc! {}, doc! { "a": 0 }),
        (doc! { "a": { "$ne": null } }, doc! { "a": 0 }, doc! {}),
        (doc! { "a": { "$exists": false } }, doc! {}, doc! { "a": null }),
        (doc! { "a.b": { "$exists": false } }, doc! { "a": [] }, doc! { "a": [{ "b": 1 }] }),
    ]);
}

#[test]
fn comparisons_apply_within_a_type_bracket() {
    check([
        (doc! { "a": { "$gt": 1 } }, doc! { "a": 2.5 }, doc! { "a": "2" }),
        (doc! { "a": { "$lt": "b" } }, doc! { "a": "a" }, doc! { "a": 1 }),
        (doc! { "a": { "$gt": false } }, doc! { "a": true }, doc! { "a": 1 }),
        (doc! { "a": { "$gt": [1] } }, doc! { "a": [1, 0] }, doc! { "a": [0, 5] }),
        (doc! { "a": { "$gt": { "b": 0 } } }, doc! { "a": { "b": 1 } }, doc! { "a": 1 }),
        (doc! { "a": { "$gte": f64::NAN } }, doc! { "a": f64::NAN }, doc! { "a": 1 }),
        (doc! { "a": { "$gt": Bson::MinKey } }, doc! {}, doc! { "a": Bson::MinKey }),
        (doc! { "a": { "$lt": Bson::MaxKey } }, doc! { "a": "x" }, doc! { "a": Bson::MaxKey }),
        // Different elements may satisfy the conditions.
        (doc! { "a": { "$gt": 2, "$lt": 2 } }, doc! { "a": [1, 3] }, doc! { "a": [2] }),
    ]);
}

#[test]
fn filter_paths_enter_arrays_and_indexes() {
    check([
        (doc! { "a.b": 1 }, doc! { "a": [{ "b": 0 }, { "b": 1 }] }, doc! { "a": [[{ "b": 1 }]] }),
        (doc! { "a.0": 1 }, doc! { "a": [1] }, doc! { "a": [0, 1] }),
        (doc! { "a.0": 1 }, doc! { "a": { "0": 1 } }, doc! { "a": [[1]] }),
        (doc! { "a.0": 1 }, doc! { "a": [2, { "0": 1 }] }, doc! { "a": [2, [1]] }),
        (doc! { "a.0.b": 1 }, doc! { "a": [{ "b": 1 }] }, doc! { "a": [{}, { "b": 1 }] }),
        (doc! { "a.0.0": 1 }, doc! { "a": [[1]] }, doc! { "a": [[0, 1]] }),
        (doc! { "a.00": 1 }, doc! { "a": { "00": 1 } }, doc! { "a": [1] }),
        (doc! { "": 1 }, doc! { "": 1 }, doc! { "a": 1 }),
    ]);
}

#[test]
fn logical_operators_and_negations_match() {
    check([
        (doc! { "$or": [{ "a": 1 }, { "b": 1 }] }, doc! { "b": 1 }, doc! { "a": 2 }),
        (doc! { "$or": [{ "a": 1 }, { "a": 2 }] }, doc! { "a": [3, 2] }, doc! { "a": 3 }),
        (doc! { "$and": [{ "a": 1 }, { "b": 1 }] }, doc! { "a": 1, "b": 1 }, doc! { "b": 1 }),
        (doc! { "$nor": [{ "a": 1 }, { "b": 1 }] }, doc! {}, doc! { "b": 1 }),
        (doc! { "a": { "$ne": 1 } }, doc! { "a": [2] }, doc! { "a": [2, 1] }),
        (doc! { "a": { "$not": { "$gt": 1 } } }, doc! { "a": "x" }, doc! { "a": [0, 2] }),
        (doc! { "a": { "$not": regex("^x", "") } }, doc! { "a": 5 }, doc! { "a": "xy" }),
        (doc! { "a": { "$nin": [1, regex("x", "")] } }, doc! { "a": "y" }, doc! { "a": "ax" }),
        (doc! { "$comment": "why", "a": 1 }, doc! { "a": 1 }, doc! {}),
        (doc! { "a": { "$not": { "$not": { "$eq": 1 } } } }, doc! { "a": 1 }, doc! { "a": 2 }),
    ]);
    assert!(matches(&doc! {}, &doc! { "a": 1 }));
    assert!(!matches(&doc! { "$alwaysFalse": 1 }, &doc! {}));
}

#[test]
fn array_filter_operators_match() {
    check([
        (doc! { "a": { "$size": 2 } }, doc! { "a": [1, 2] }, doc! { "a": [[1, 2]] }),
        (doc! { "a": { "$all": [1, 2] } }, doc! { "a": [2, 1, 0] }, doc! { "a": [1] }),
        (doc! { "a": { "$all": [1] } }, doc! { "a": 1 }, doc! { "a": 2 }),
        (
            doc! { "a": { "$all": [{ "$elemMatch": { "b": 1 } }, { "$elemMatch": { "b": 2 } }] } },
            doc! { "a": [{ "b": 2 }, { "b": 1 }] },
            doc! { "a": [{ "b": 2 }] },
        ),
        (
            doc! { "a": { "$elemMatch": { "b": 1, "c": 2 } } },
            doc! { "a": [{ "b": 1, "c": 2 }] },
            doc! { "a": [{ "b": 1 }, { "c": 2 }] },
        ),
        (
            doc! { "a": { "$elemMatch": { "$gt": 1, "$lt": 3 } } },
            doc! { "a": [0, 2] },
            doc! { "a": [1, 3] },
        ),
        (doc! { "a": { "$elemMatch": { "0": 5 } } }, doc! { "a": [[5]] }, doc! { "a": [5] }),
    ]);
    assert!(!matches(&doc! { "a": { "$all": [] } }, &doc! { "a": [] }));
}

#[test]
fn type_mod_and_bit_operators_match() {
    let bytes = Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: vec![0b101] });
    check([
        (doc! { "a": { "$type": "number" } }, doc! { "a": 1_i64 }, doc! { "a": "1" }),
        (doc! { "a": { "$type": ["string", 10] } }, doc! { "a": null }, doc! { "a": 1 }),
        (doc! { "a": { "$type": "array" } }, doc! { "a": [] }, doc! { "a": {} }),
        (doc! { "a": { "$type": -1 } }, doc! { "a": Bson::MinKey }, doc! { "a": Bson::MaxKey }),
        (doc! { "a": { "$mod": [3, 1] } }, doc! { "a": 4.9 }, doc! { "a": f64::NAN }),
        (doc! { "a": { "$mod": [3, -1] } }, doc! { "a": -4 }, doc! { "a": 2 }),
        (doc! { "a": { "$bitsAllSet": 5 } }, doc! { "a": 7 }, doc! { "a": 4 }),
        (doc! { "a": { "$bitsAnySet": [1, 2] } }, doc! { "a": bytes.clone() }, doc! { "a": 1 }),
        (doc! { "a": { "$bitsAllClear": [1] } }, doc! { "a": bytes }, doc! { "a": 2 }),
        (doc! { "a": { "$bitsAnyClear": [0, 99] } }, doc! { "a": 1 }, doc! { "a": -1 }),
    ]);
}

#[test]
fn regular_expressions_follow_pcre() {
    for (pattern, options, yes, no) in [
        ("^a", "", "ab", "ba"),
        ("A", "i", "xax", "b"),
        ("^b", "m", "a\nb", "ab"),
        ("a.b", "s", "a\nb", "ab"),
        ("a b # c\n", "x", "ab", "a b"),
        ("\\p{L}{2}", "", "éa", "1a"),
        ("a$", "", "a\n", "ab"),
        ("^\\w+$", "", "ab_1", "é"),
        ("\\d{2}", "u", "x12", "1"),
        ("a{,2}", "", "a{,2}", "aa"),
        ("[[]", "", "[", "a"),
        ("[^]a]", "", "b", "]a"),
        ("\\Qa.b\\E", "", "a.b", "axb"),
        ("[a&&b]", "", "&", "x"),
        ("(?i)A(?#c)", "", "a", "b"),
        ("[[:digit:]-]", "", "-", "x"),
        ("\\<x", "", "<x", "x"),
    ] {
        let filter = doc! { "a": { "$regex": pattern, "$options": options } };
        assert!(matches(&filter, &doc! { "a": yes }), "{pattern:?} matches {yes:?}");
        assert!(!matches(&filter, &doc! { "a": no }), "{pattern:?} does not match {no:?}");
    }
    check([
        (
            doc! { "a": regex("x", "i") },
            doc! { "a": regex("x", "i") },
            doc! { "a": regex("x", "") },
        ),
        (doc! { "a": { "$eq": regex("x", "") } }, doc! { "a": regex("x", "") }, doc! { "a": "x" }),
        (doc! { "a": { "$in": [regex("x", ""), 1] } }, doc! { "a": ["axe"] }, doc! { "a": 2 }),
    ]);
}

#[test]
fn collation_applies_to_all_comparisons() {
    let mut env = environment();
    env.collation = Collation::parse(&doc! { "locale": "en", "strength": 2 }).unwrap();
    for filter in [doc! { "a": "B" }, doc! { "a": { "$in": ["B"] } }, doc! { "a": { "$gt": "A" } }]
    {
        let filter = Filter::parse(&filter, &env).unwrap();
        assert!(filter.matches(&doc! { "a": "b" }, &env).unwrap());
        assert!(!filter.matches(&doc! { "a": "a" }, &env).unwrap());
    }
    let filter = Filter::parse(&doc! { "_id": "x" }, &env).unwrap();
    assert_eq!(filter.id_candidates(), None);
}

#[test]
fn position_is_that_of_the_last_matched_element() {
    let env = environment();
    let document = doc! { "a": [1, 2, 3], "b": [4, 5, 6], "c": [{ "d": [7, 8] }] };
    for (filter, position) in [
        (doc! { "a": 2 }, Some(1)),
        (doc! { "a": { "$elemMatch": { "$gt": 2 } } }, Some(2)),
        (doc! { "c.d": 8 }, Some(0)),
        (doc! { "c.0.d": 8 }, Some(1)),
        (doc! { "b": 6, "a": 2 }, Some(2)),
        (doc! { "b": { "$type": "int" }, "a": 2 }, Some(0)),
        (doc! { "$or": [{ "a": 9 }, { "b": 5 }] }, None),
        (doc! { "$or": [{ "a": 9 }, { "a": 3 }] }, Some(2)),
        (doc! { "a": [1, 2, 3] }, None),
        (doc! { "a": { "$ne": 9 } }, None),
    ] {
        let matched = Filter::parse(&filter, &env).unwrap().matched(&document, &env).unwrap();
        assert_eq!(matched.unwrap().position, position, "{filter}");
    }
    let filter = Filter::parse(&doc! { "a": 9 }, &env).unwrap();
    assert_eq!(filter.matched(&document, &env).unwrap(), None);
}

#[test]
fn equalities_are_collected_from_a_filter() {
    let env = environment();
    for (filter, expected) in [
        (doc! { "b": 1, "a": 2 }, bson!([["a", 2], ["b", 1]])),
        (doc! { "$and": [{ "a": { "$eq": 1 } }, { "b.c": [2] }] }, bson!([["a", 1], ["b.c", [2]]])),
        (doc! { "a": { "$in": [3, 3.0] } }, bson!([["a", 3]])),
        (doc! { "a": { "$in": [3, 4] } }, bson!([])),
        (doc! { "a": { "$all": [3, 4] } }, bson!([["a", 3], ["a", 4]])),
        (doc! { "$or": [{ "a": 1 }] }, bson!([["a", 1]])),
        (doc! { "$or": [{ "a": 1 }, { "a": 1 }] }, bson!([])),
        (doc! { "a": regex("x", ""), "b": { "$gt": 1 } }, bson!([])),
    ] {
        let found = Filter::parse(&filter, &env).unwrap().equalities();
        let found: Bson = found.into_iter().map(|(path, value)| bson!([path, value])).collect();
        assert_eq!(found, expected, "{filter}");
    }
}

#[test]
fn id_candidates_are_found() {
    let env = environment();
    for (filter, ids) in [
        (doc! { "_id": { "$in": [5, "x"] } }, Some(vec![bson!(5), bson!("x")])),
        (doc! { "a": 1, "$and": [{ "_id": { "$in": [5, 6] } }] }, Some(vec![bson!(5), bson!(6)])),
        (doc! { "_id": 5 }, Some(vec![bson!(5)])),
        (doc! { "a": 1, "$and": [{ "_id": { "$eq": "x" } }] }, Some(vec![bson!("x")])),
        (doc! { "_id": { "$gt": 5 } }, None),
        (doc! { "_id.a": 5 }, None),
        (doc! { "_id": regex("x", "") }, None),
        (doc! { "_id": { "$in": [5, regex("x", "")] } }, None),
        (doc! { "_id": { "$nin": [5, 6] } }, None),
        (doc! { "_id.a": { "$in": [5, 6] } }, None),
        (doc! { "$or": [{ "_id": { "$in": [5, 6] } }, { "a": 1 }] }, None),
    ] {
        let filter_ids =
            Filter::parse(&filter, &env).unwrap().id_candidates().map(<[Bson]>::to_vec);
        assert_eq!(filter_ids, ids, "{filter}");
    }
}

#[test]
fn invalid_filters_fail_with_server_messages() {
    for (filter, code, message) in [
        (doc! { "a": { "$foo": 1 } }, 2, "unknown operator: $foo"),
        (doc! { "a": { "$gt": 1, "b": 2 } }, 2, "unknown operator: b"),
        (
            doc! { "$foo": 1 },
            2,
            "unknown top level operator: $foo. If you have a field name that starts with a '$' \
             symbol, consider using $getField or $setField.",
        ),
        (doc! { "a": { "$in": 5 } }, 2, "$in needs an array"),
        (doc! { "a": { "$in": [{ "$gt": 1 }] } }, 2, "cannot nest $ under $in"),
        (doc! { "$and": [] }, 2, "$and/$or/$nor must be a nonempty array"),
        (doc! { "$or": 5 }, 2, "$or must be an array"),
        (doc! { "a": { "$not": {} } }, 2, "$not cannot be empty"),
        (doc! { "a": { "$ne": regex("x", "") } }, 2, "Can't have regex as arg to $ne."),
        (
            doc! { "a": { "$size": -1 } },
            2,
            "Failed to parse $size. Expected a non-negative number in: $size: -1",
        ),
        (doc! { "a": { "$type": "foo" } }, 2, "Unknown type name alias: foo"),
        (doc! { "a": { "$type": [] } }, 9, "a must match at least one type"),
        (doc! { "a": { "$mod": [0, 1] } }, 2, "divisor cannot be 0"),
        (doc! { "a": { "$regex": "(" } }, 51091, "Regular expression is invalid: missing )"),
        (
            doc! { "a": { "$regex": "a(?=b)" } },
            51091,
            "Regular expression is invalid: lookahead is not known",
        ),
        (
            doc! { "a": { "$regex": "(a)\\1" } },
            51091,
            "Regular expression is invalid: back references are not known",
        ),
        (
            doc! { "a": { "$regex": "a**" } },
            51091,
            "Regular expression is invalid: nothing to repeat",
        ),
        (doc! { "a": { "$options": "i" } }, 2, "$options needs a $regex"),
        (
            doc! { "a": { "$elemMatch": { "$expr": 1 } } },
            2,
            "$expr can only be applied to the top-level document",
        ),
        (
            doc! { "a": { "$bitsAllSet": -1 } },
            9,
            "Expected a non-negative number in: $bitsAllSet: -1",
        ),
        (doc! { "$text": { "$search": "x" } }, 27, "text index required for $text query"),
        (doc! { "$where": "1" }, 2, "no globalScriptEngine in $where parsing"),
        (doc! { "$jsonSchema": {} }, 238, "$jsonSchema is not implemented"),
    ] {
        let fault = Filter::parse(&filter, &environment()).unwrap_err();
        assert_eq!((fault.code.number, fault.message.as_str()), (code, message), "{filter}");
    }
}
