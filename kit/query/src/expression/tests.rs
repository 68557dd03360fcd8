//! Expressions, in tables. Expected values and error codes are those of servers.

use bson::{Bson, DateTime, Document, Timestamp, bson, doc, oid::ObjectId};

use super::Expression;
use crate::{Environment, Fault};

fn environment() -> Environment {
    Environment::new(
        DateTime::from_millis(1_700_000_000_000),
        Timestamp { time: 5, increment: 1 },
        7,
    )
}

/// 2024-02-29T23:59:58.123Z, a Thursday.
fn leap_day() -> DateTime {
    DateTime::from_millis(1_709_251_198_123)
}

fn root() -> Document {
    doc! {
        "_id": 1, "a": 1, "s": "x", "arr": [1, 2], "null": null, "date": leap_day(),
        "objs": [{ "x": 1 }, { "x": 2 }, 5, [{ "x": 3 }]], "in": { "y": { "z": 7 } },
    }
}

fn evaluate(expression: &Bson) -> Result<Option<Bson>, Fault> {
    let env = environment();
    Expression::parse(expression, &env)?.evaluate(&root(), &env)
}

/// Asserts values with their types.
fn gives(table: Vec<(Bson, Bson)>) {
    for (expression, value) in table {
        assert_eq!(evaluate(&expression), Ok(Some(value)), "{expression}");
    }
}

/// Asserts error codes.
fn fails_with(table: Vec<(Bson, i32)>) {
    for (expression, code) in table {
        let outcome = evaluate(&expression);
        assert_eq!(outcome.as_ref().map_err(|it| it.code.number), Err(code), "{expression}");
    }
}

fn date(text: &str) -> Bson {
    DateTime::parse_rfc3339_str(text).expect("a date").into()
}

#[test]
fn path_enters_documents_and_documents_of_arrays() {
    gives(vec![
        (bson!("$a"), bson!(1)),
        (bson!("$in.y.z"), bson!(7)),
        (bson!("$objs.x"), bson!([1, 2])),
        (bson!("$arr.x"), bson!([])),
        (bson!("$$ROOT.a"), bson!(1)),
        (bson!("$$CURRENT.a"), bson!(1)),
        (bson!("$$NOW"), Bson::DateTime(environment().now)),
        (bson!(["$missing", 1]), bson!([null, 1])),
        (bson!({ "x": "$missing", "y": "$a" }), bson!({ "y": 1 })),
    ]);
    for missing in ["$missing", "$a.b", "$$REMOVE", "$in.y.z.q"] {
        assert_eq!(evaluate(&missing.into()), Ok(None), "{missing}");
    }
}

#[test]
fn invalid_expressions_fail_with_server_codes() {
    fails_with(vec![
        (bson!("$"), 16872),
        (bson!("$a."), 40353),
        (bson!("$a..b"), 15998),
        (bson!("$a.$b"), 16410),
        (bson!("$$unknown"), 17276),
        (bson!("$$DESCEND"), 17276),
        (bson!({ "$foo": 1 }), 168),
        (bson!({ "$add": 1, "b": 2 }), 15983),
        (bson!({ "a.b": 1 }), 16412),
        (bson!({ "$subtract": [1] }), 16020),
        (bson!({ "$slice": ["$arr"] }), 28667),
        (bson!({ "$cond": { "if": 1, "then": 2 } }), 17082),
        (bson!({ "$map": { "input": "$arr", "as": "Big", "in": 1 } }), 9),
        (bson!({ "$dateToString": { "date": "$date", "zone": 1 } }), 18534),
    ]);
}

#[test]
fn arithmetic_widens_the_result_type() {
    gives(vec![
        (bson!({ "$add": [2_147_483_647, 1] }), bson!(2_147_483_648_i64)),
        (bson!({ "$add": [2_147_483_647, 1, -1] }), bson!(2_147_483_647)),
        (bson!({ "$add": [i64::MAX, 1] }), bson!(9_223_372_036_854_775_807_f64)),
        (bson!({ "$add": [1, 2.5] }), bson!(3.5)),
        (bson!({ "$add": ["$date", 1000] }), date("2024-02-29T23:59:59.123Z")),
        (bson!({ "$add": ["$a", null] }), Bson::Null),
        (bson!({ "$subtract": ["$date", "$date"] }), bson!(0_i64)),
        (bson!({ "$multiply": [100_000, 100_000] }), bson!(10_000_000_000_i64)),
        (bson!({ "$divide": [4, 2] }), bson!(2.0)),
        (bson!({ "$mod": [5, 3.0] }), bson!(2)),
        (bson!({ "$mod": [-5.5, 3] }), bson!(-2.5)),
        (bson!({ "$abs": i32::MIN }), bson!(2_147_483_648_i64)),
        (bson!({ "$pow": [2, 40] }), bson!(1_099_511_627_776_i64)),
        (bson!({ "$pow": [2, -1] }), bson!(0.5)),
        (bson!({ "$sum": ["$arr", 5] }), bson!(5)),
        (bson!({ "$sum": "$arr" }), bson!(3)),
        (bson!({ "$sum": [0.1, 0.2, 0.3] }), bson!(0.6)),
        (bson!({ "$avg": "$arr" }), bson!(1.5)),
    ]);
    fails_with(vec![
        (bson!({ "$add": ["$a", "$s"] }), 16554),
        (bson!({ "$add": ["$date", "$date"] }), 16612),
        (bson!({ "$divide": ["$a", 0] }), 2),
        (bson!({ "$mod": ["$a", 0] }), 16610),
        (bson!({ "$subtract": ["$a", "$date"] }), 14),
        (bson!({ "$abs": i64::MIN }), 28680),
        (bson!({ "$sqrt": -1 }), 28714),
    ]);
}

#[test]
fn rounding_uses_the_exact_double() {
    gives(vec![
        (bson!({ "$round": 2.5 }), bson!(2.0)),
        (bson!({ "$round": 3.5 }), bson!(4.0)),
        (bson!({ "$round": [1.005, 2] }), bson!(1.0)),
        (bson!({ "$round": [2.675, 2] }), bson!(2.67)),
        (bson!({ "$round": [12345, -2] }), bson!(12300)),
        (bson!({ "$round": [i32::MAX, -1] }), bson!(2_147_483_650_i64)),
        (bson!({ "$round": [4, -1] }), bson!(0)),
        (bson!({ "$trunc": [0.29, 2] }), bson!(0.28)),
        (bson!({ "$trunc": [-1.57, 1] }), bson!(-1.5)),
        (bson!({ "$ceil": 1.2 }), bson!(2.0)),
        (bson!({ "$floor": 7 }), bson!(7)),
    ]);
    fails_with(vec![
        (bson!({ "$round": [1.5, 101] }), 51083),
        (bson!({ "$round": [1, 1.5] }), 51082),
        (bson!({ "$round": [i64::MAX, -1] }), 51080),
    ]);
}

#[test]
fn missing_sorts_below_null() {
    gives(vec![
        (bson!({ "$eq": ["$missing", null] }), bson!(false)),
        (bson!({ "$cmp": ["$missing", null] }), bson!(-1)),
        (bson!({ "$gt": [null, "$missing"] }), bson!(true)),
        (bson!({ "$eq": [1, 1.0] }), bson!(true)),
        (bson!({ "$ifNull": ["$missing", null, 3] }), bson!(3)),
        (bson!({ "$and": [1, "$missing"] }), bson!(false)),
        (bson!({ "$not": [["anything"]] }), bson!(false)),
        (bson!({ "$type": "$missing" }), bson!("missing")),
        (bson!({ "$cond": ["$missing", 1, 2] }), bson!(2)),
    ]);
    assert_eq!(evaluate(&bson!({ "$ifNull": [null, "$missing"] })), Ok(None));
}

#[test]
fn only_the_selected_branch_is_evaluated() {
    let fails = bson!({ "$divide": [1, { "$subtract": ["$a", 1] }] });
    gives(vec![
        (bson!({ "$cond": ["$a", 5, fails.clone()] }), bson!(5)),
        (bson!({ "$or": ["$a", fails.clone()] }), bson!(true)),
        (
            bson!({ "$switch": { "branches": [
                { "case": { "$eq": ["$a", 1] }, "then": "one" },
                { "case": fails.clone(), "then": 0 },
            ] } }),
            bson!("one"),
        ),
    ]);
    fails_with(vec![
        (fails, 2),
        (bson!({ "$switch": { "branches": [{ "case": "$missing", "then": 1 }] } }), 40066),
    ]);
}

#[test]
fn constant_folding_errors_are_reported_while_parsing() {
    let env = environment();
    let fails_with = |it: Bson| Expression::parse(&it, &env).map_err(|it| it.code.number).err();
    assert_eq!(fails_with(bson!({ "$cond": [true, 1, { "$divide": [1, 0] }] })), Some(2));
    // Parse errors take precedence.
    assert_eq!(fails_with(bson!([{ "$divide": [1, 0] }, { "$foo": 1 }])), Some(168));
    assert_eq!(fails_with(bson!({ "$divide": ["$a", 0] })), None);
}

#[test]
fn variables_are_scoped() {
    gives(vec![
        (bson!({ "$let": { "vars": { "v": "$a" }, "in": { "$add": ["$$v", 1] } } }), bson!(2)),
        (bson!({ "$let": { "vars": { "CURRENT": { "q": 7 } }, "in": "$q" } }), bson!(7)),
        (bson!({ "$map": { "input": "$arr", "in": { "$add": ["$$this", "$a"] } } }), bson!([2, 3])),
        (
            bson!({ "$map": { "input": "$objs", "as": "o", "in": "$$o.x" } }),
            bson!([1, 2, null, [3]]),
        ),
        (
            bson!({ "$filter": { "input": "$arr", "as": "e", "cond": { "$gt": ["$$e", 1] } } }),
            bson!([2]),
        ),
        (bson!({ "$filter": { "input": "$arr", "cond": true, "limit": 1 } }), bson!([1])),
        (
            bson!({ "$reduce": {
                "input": "$arr", "initialValue": "", "in": { "$concat": ["$$value", { "$toString": "$$this" }] },
            } }),
            bson!("12"),
        ),
    ]);
    fails_with(vec![
        (bson!({ "$let": { "vars": { "v": 1, "w": "$$v" }, "in": 1 } }), 17276),
        (bson!({ "$filter": { "input": "$a", "cond": true } }), 28651),
        (bson!({ "$filter": { "input": "$arr", "cond": true, "limit": 0 } }), 327_392),
    ]);
    let mut env = environment();
    env.define(&doc! { "limit": { "$add": [1, 1] } }).expect("a variable");
    let expression = Expression::parse(&bson!({ "$gt": ["$$limit", "$a"] }), &env).expect("known");
    assert_eq!(expression.evaluate(&root(), &env), Ok(Some(true.into())));
}

#[test]
fn array_operators_return_elements_and_arrays() {
    gives(vec![
        (bson!({ "$arrayElemAt": ["$arr", -1] }), bson!(2)),
        (bson!({ "$slice": ["$arr", -5, 1] }), bson!([1])),
        (bson!({ "$range": [5, 0, -2] }), bson!([5, 3, 1])),
        (bson!({ "$indexOfArray": ["$arr", 2] }), bson!(1)),
        (bson!({ "$concatArrays": ["$arr", ["$a"]] }), bson!([1, 2, 1])),
        (bson!({ "$concatArrays": ["$arr", null] }), Bson::Null),
        (bson!({ "$setUnion": [[3, 1], [2, 1.0]] }), bson!([1, 2, 3])),
        (bson!({ "$setDifference": [[3, 1, 3], [1]] }), bson!([3])),
        (bson!({ "$setIsSubset": [[1], "$arr"] }), bson!(true)),
        (bson!({ "$maxN": { "n": 2, "input": [3, null, 1, 5] } }), bson!([5, 3])),
        (bson!({ "$sortArray": { "input": [3, 1, 2], "sortBy": -1 } }), bson!([3, 2, 1])),
        (
            bson!({ "$sortArray": { "input": [{ "a": 3 }, { "b": 1 }, { "a": 1 }], "sortBy": { "a": 1 } } }),
            bson!([{ "b": 1 }, { "a": 1 }, { "a": 3 }]),
        ),
        (
            bson!({ "$zip": { "inputs": ["$arr", [9]], "useLongestLength": true, "defaults": [0, "$s"] } }),
            bson!([[1, 9], [2, "x"]]),
        ),
        (bson!({ "$arrayToObject": [[["k", 1], ["l", 2]]] }), bson!({ "k": 1, "l": 2 })),
        (bson!({ "$objectToArray": { "k": "$a" } }), bson!([{ "k": "k", "v": 1 }])),
        (
            bson!({ "$mergeObjects": [{ "a": 1 }, null, { "a": 2, "b": 3 }] }),
            bson!({ "a": 2, "b": 3 }),
        ),
        (bson!({ "$getField": { "field": "y", "input": "$in" } }), bson!({ "z": 7 })),
        (bson!({ "$setField": { "field": "a.b", "input": {}, "value": 1 } }), bson!({ "a.b": 1 })),
    ]);
    assert_eq!(evaluate(&bson!({ "$arrayElemAt": ["$arr", 5] })), Ok(None));
    fails_with(vec![
        (bson!({ "$size": "$missing" }), 17124),
        (bson!({ "$in": [1, "$a"] }), 40081),
        (bson!({ "$slice": ["$arr", 0, 0] }), 28729),
        (bson!({ "$range": [0, 5, 0] }), 34449),
        (bson!({ "$range": [0, 2_000_000_000] }), 146),
        (bson!({ "$getField": { "field": { "$concat": ["a", "b"] }, "input": {} } }), 5_654_601),
    ]);
}

#[test]
fn string_operators_count_bytes_or_code_points() {
    gives(vec![
        (bson!({ "$strLenBytes": "é€" }), bson!(5)),
        (bson!({ "$strLenCP": "é€" }), bson!(2)),
        (bson!({ "$indexOfBytes": ["é€c", "c"] }), bson!(5)),
        (bson!({ "$indexOfCP": ["é€c", "c"] }), bson!(2)),
        (bson!({ "$substrCP": ["héllo", 1, 2] }), bson!("él")),
        (bson!({ "$substrBytes": ["hello", 1, -1] }), bson!("ello")),
        (bson!({ "$toUpper": "éb" }), bson!("éB")),
        (bson!({ "$toUpper": null }), bson!("")),
        (bson!({ "$split": ["--a--", "--"] }), bson!(["", "a", ""])),
        (bson!({ "$trim": { "input": "\u{2003}\0 a\u{a0}" } }), bson!("a")),
        (bson!({ "$ltrim": { "input": "xxaxx", "chars": "x" } }), bson!("axx")),
        (
            bson!({ "$replaceAll": { "input": "abab", "find": "a", "replacement": "x" } }),
            bson!("xbxb"),
        ),
        (bson!({ "$strcasecmp": ["A", "a"] }), bson!(0)),
        (bson!({ "$regexMatch": { "input": "abc", "regex": "B", "options": "i" } }), bson!(true)),
        (bson!({ "$regexMatch": { "input": "١", "regex": "\\d" } }), bson!(false)),
        (
            bson!({ "$regexFind": { "input": "éab", "regex": "(a)(z)?" } }),
            bson!({ "match": "a", "idx": 1, "captures": ["a", null] }),
        ),
        (bson!({ "$regexFindAll": { "input": null, "regex": "a" } }), bson!([])),
    ]);
    fails_with(vec![
        (bson!({ "$substrBytes": ["é", 1, 1] }), 28656),
        (bson!({ "$concat": ["$s", "$a"] }), 16702),
        (bson!({ "$regexMatch": { "input": "a", "regex": "(" } }), 51111),
        (bson!({ "$regexMatch": { "input": "a", "regex": "a", "options": "z" } }), 51108),
    ]);
}

#[test]
fn conversions_succeed_or_fail_with_server_codes() {
    let id = ObjectId::parse_str("507f1f77bcf86cd799439011").expect("an id");
    gives(vec![
        (bson!({ "$toInt": "-12" }), bson!(-12)),
        (bson!({ "$toInt": 1.9 }), bson!(1)),
        (bson!({ "$toLong": "$date" }), bson!(1_709_251_198_123_i64)),
        (bson!({ "$toDouble": "-Infinity" }), bson!(f64::NEG_INFINITY)),
        (bson!({ "$toString": 123_456_789.123 }), bson!("1.23457e+08")),
        (bson!({ "$toString": 1e-7 }), bson!("1e-07")),
        (bson!({ "$toString": "$date" }), bson!("2024-02-29T23:59:58.123Z")),
        (bson!({ "$toObjectId": "507f1f77bcf86cd799439011" }), id.into()),
        (bson!({ "$toDate": id }), date("2012-10-17T21:13:27Z")),
        (bson!({ "$toDate": "2024-01-02T03:04:05.6+02:00" }), date("2024-01-02T01:04:05.6Z")),
        (bson!({ "$toBool": "false" }), bson!(true)),
        (bson!({ "$convert": { "input": "x", "to": "int", "onError": "$s" } }), bson!("x")),
        (bson!({ "$convert": { "input": null, "to": "int", "onNull": 0 } }), bson!(0)),
        (bson!({ "$convert": { "input": "1", "to": 16 } }), bson!(1)),
    ]);
    fails_with(vec![
        (bson!({ "$toInt": "1.5" }), 241),
        (bson!({ "$toInt": 3e9 }), 241),
        (bson!({ "$toDate": 1 }), 241),
        (bson!({ "$toDate": "2024-02-30" }), 241),
        (bson!({ "$toDecimal": "" }), 241),
        (bson!({ "$convert": { "input": "1", "to": "foo" } }), 2),
        (bson!({ "$toInt": ["1", "2"] }), 50723),
    ]);
}

#[test]
fn date_parts_apply_the_time_zone() {
    gives(vec![
        (bson!({ "$dayOfYear": "$date" }), bson!(60)),
        (bson!({ "$dayOfWeek": "$date" }), bson!(5)),
        (bson!({ "$isoWeekYear": "$date" }), bson!(2024_i64)),
        (bson!({ "$hour": { "date": "$date", "timezone": "+05:30" } }), bson!(5)),
        (bson!({ "$dayOfMonth": { "date": "$date", "timezone": "+0530" } }), bson!(1)),
        (bson!({ "$hour": { "date": "$date", "timezone": null } }), Bson::Null),
        (
            bson!({ "$dateToString": { "date": "$date", "format": "%Y-%j %G-W%V-%u %U %z" } }),
            bson!("2024-060 2024-W09-4 08 +0000"),
        ),
        (
            bson!({ "$dateFromParts": { "year": 2024, "month": 14, "day": -3 } }),
            date("2025-01-28T00:00:00Z"),
        ),
        (
            bson!({ "$dateFromParts": { "isoWeekYear": 2024, "isoWeek": 9, "isoDayOfWeek": 4 } }),
            date("2024-02-29T00:00:00Z"),
        ),
        (
            bson!({ "$dateFromString": { "dateString": "01/02/2024", "format": "%d/%m/%Y" } }),
            date("2024-02-01T00:00:00Z"),
        ),
        (
            bson!({ "$dateFromString": { "dateString": "2024-01-02", "timezone": "+02:00" } }),
            date("2024-01-01T22:00:00Z"),
        ),
    ]);
    fails_with(vec![
        (bson!({ "$hour": { "date": "$date", "timezone": "Mars/Olympus" } }), 40485),
        (bson!({ "$year": "$a" }), 16006),
        (bson!({ "$dateToString": { "date": "$date", "format": "%q" } }), 18536),
        (bson!({ "$dateFromParts": { "year": 2024, "isoWeek": 1 } }), 40489),
    ]);
}

#[test]
fn date_add_diff_and_trunc_match_the_server() {
    let add = |unit: &str, amount: i32| bson!({ "$dateAdd": { "startDate": "$date", "unit": unit, "amount": amount } });
    let difference = |unit: &str| {
        let end = date("2025-05-01T00:00:00Z");
        bson!({ "$dateDiff": { "startDate": "$date", "endDate": end, "unit": unit } })
    };
    let cut = |unit: &str, size: i32| bson!({ "$dateTrunc": { "date": "$date", "unit": unit, "binSize": size } });
    gives(vec![
        (add("year", 1), date("2025-02-28T23:59:58.123Z")),
        (add("month", -12), date("2023-02-28T23:59:58.123Z")),
        (add("week", 1), date("2024-03-07T23:59:58.123Z")),
        (difference("quarter"), bson!(5_i64)),
        (difference("week"), bson!(61_i64)),
        (difference("hour"), bson!(10_225_i64)),
        (cut("month", 5), date("2023-10-01T00:00:00Z")),
        (cut("week", 1), date("2024-02-25T00:00:00Z")),
        (cut("day", 3), date("2024-02-27T00:00:00Z")),
        (cut("hour", 7), date("2024-02-29T20:00:00Z")),
        (cut("year", 7), date("2021-01-01T00:00:00Z")),
    ]);
    fails_with(vec![
        (add("years", 1), 9),
        (difference("foo"), 5_439_014),
        (cut("day", 0), 5_439_018),
    ]);
}

#[test]
fn decimal_operations_are_exact_or_fail() {
    let decimal = |text: &str| Bson::Decimal128(text.parse().expect("a decimal"));
    gives(vec![
        (bson!({ "$add": [decimal("0.1"), decimal("0.2")] }), decimal("0.3")),
        (bson!({ "$round": [decimal("1"), 1] }), decimal("1.0")),
        (bson!({ "$round": [decimal("2.345"), 2] }), decimal("2.34")),
        (bson!({ "$abs": decimal("-3.75") }), decimal("3.75")),
        (bson!({ "$toInt": decimal("1.9") }), bson!(1)),
        (bson!({ "$mod": [decimal("-7"), decimal("2.5")] }), decimal("-2.0")),
        (bson!({ "$mod": [decimal("1E+20"), 7] }), decimal("2")),
        (bson!({ "$mod": [decimal("0.5"), decimal("1E+40")] }), decimal("0.5")),
    ]);
    fails_with(vec![(bson!({ "$sqrt": decimal("2") }), 238)]);
}
