//! Field update operators.

use bson::{Bson, DateTime, Timestamp, doc};

use super::{assert_each, assert_fails, assert_none_changes};

#[test]
fn field_operators_update_fields() {
    let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
    assert_each(vec![
        (doc! { "a": 1 }, doc! { "$set": { "a": 1.0 } }, doc! { "a": 1.0 }),
        (doc! { "a": 0.0 }, doc! { "$set": { "a": -0.0 } }, doc! { "a": -0.0 }),
        (
            doc! { "a": { "x": 1, "y": 2 } },
            doc! { "$set": { "a": { "y": 2, "x": 1 } } },
            doc! { "a": { "y": 2, "x": 1 } },
        ),
        (doc! { "a": { "b": 1 } }, doc! { "$unset": { "a.b": "" } }, doc! { "a": {} }),
        (doc! { "a": [1, 2] }, doc! { "$unset": { "a.0": "" } }, doc! { "a": [null, 2] }),
        (doc! { "a": [null, 2] }, doc! { "$unset": { "a.0": "" } }, doc! { "a": [null, 2] }),
        (doc! { "a": i32::MAX }, doc! { "$inc": { "a": 1 } }, doc! { "a": 2_147_483_648_i64 }),
        (doc! { "a": 1 }, doc! { "$inc": { "a": 0.0 } }, doc! { "a": 1.0 }),
        (doc! { "a": 1 }, doc! { "$inc": { "a": decimal("0.1") } }, doc! { "a": decimal("1.1") }),
        (doc! {}, doc! { "$inc": { "a.b": 2_i64 } }, doc! { "a": { "b": 2_i64 } }),
        (doc! {}, doc! { "$mul": { "a": 5_i64 } }, doc! { "a": 0_i64 }),
        (doc! {}, doc! { "$mul": { "a": -5.5 } }, doc! { "a": -0.0 }),
        (doc! { "a": 3 }, doc! { "$mul": { "a": 2.5 } }, doc! { "a": 7.5 }),
        (doc! { "a": null }, doc! { "$max": { "a": 1 } }, doc! { "a": 1 }),
        (doc! { "a": [1, 2] }, doc! { "$min": { "a": 1 } }, doc! { "a": 1 }),
        (doc! {}, doc! { "$min": { "a": null } }, doc! { "a": null }),
        (doc! { "a": 5 }, doc! { "$bit": { "a": { "and": 5, "or": 8 } } }, doc! { "a": 13 }),
        (doc! { "a": 5 }, doc! { "$bit": { "a": { "and": 5_i64 } } }, doc! { "a": 5_i64 }),
        (doc! {}, doc! { "$bit": { "a": { "or": 5 } } }, doc! { "a": 5 }),
        (
            doc! {},
            doc! { "$currentDate": {
                "a": false, "b": { "$type": "date" }, "c": { "$type": "timestamp" },
            } },
            doc! {
                "a": DateTime::from_millis(5000),
                "b": DateTime::from_millis(5000),
                "c": Timestamp { time: 7, increment: 8 },
            },
        ),
    ]);
}

#[test]
fn rename_appends_or_replaces() {
    assert_each(vec![
        (doc! { "a": 1, "b": 2 }, doc! { "$rename": { "a": "c" } }, doc! { "b": 2, "c": 1 }),
        (doc! { "a": 1, "b": 2 }, doc! { "$rename": { "b": "a" } }, doc! { "a": 2 }),
        (doc! { "a": 1, "b": 1 }, doc! { "$rename": { "a": "b" } }, doc! { "b": 1 }),
        (doc! { "a": 1 }, doc! { "$rename": { "a": "x.y" } }, doc! { "x": { "y": 1 } }),
        (
            doc! { "a": { "0": 5 }, "b": [1] },
            doc! { "$rename": { "a.0": "b" } },
            doc! { "a": {}, "b": 5 },
        ),
    ]);
}

#[test]
fn updates_without_effect_are_not_changes() {
    assert_none_changes(vec![
        (doc! { "a": 1 }, doc! { "$set": {} }),
        (doc! { "a": 1 }, doc! { "$set": { "a": 1 } }),
        (doc! { "a": f64::NAN }, doc! { "$set": { "a": f64::NAN } }),
        (doc! { "a": 1 }, doc! { "$inc": { "a": 0 } }),
        (doc! { "a": 1.5 }, doc! { "$mul": { "a": 1 } }),
        (doc! { "a": -0.0 }, doc! { "$inc": { "a": 0.0 } }),
        (doc! { "a": 1 }, doc! { "$min": { "a": 1.0 } }),
        (doc! { "a": 5 }, doc! { "$max": { "a": 3.5 } }),
        (doc! { "a": 5 }, doc! { "$bit": { "a": { "or": 4 } } }),
        (doc! { "a": 5 }, doc! { "$unset": { "a.b.c": "" } }),
        (doc! { "a": [1] }, doc! { "$unset": { "a.x": "" } }),
        (doc! { "a": 1 }, doc! { "$rename": { "b": "c" } }),
        (doc! { "a": 1 }, doc! { "$setOnInsert": { "a.b": 1, "_id": 7 } }),
        (doc! { "_id": 1 }, doc! { "$set": { "_id": 1 } }),
        (doc! { "_id": 1 }, doc! { "$inc": { "_id": 0 } }),
    ]);
}

#[test]
fn new_fields_are_sorted_by_name() {
    assert_each(vec![
        (
            doc! { "o": 1 },
            doc! { "$set": { "b": 1, "a": 1, "c.z": 1, "c.a": 1, "10": 1, "9": 1, "1a": 1, "01": 1 } },
            doc! {
                "o": 1, "01": 1, "9": 1, "10": 1, "1a": 1, "a": 1, "b": 1, "c": { "a": 1, "z": 1 },
            },
        ),
        (
            doc! { "o": 1 },
            doc! { "$set": { "z": 1 }, "$inc": { "y": 1 }, "$push": { "w": 1 }, "$rename": { "o": "x" } },
            doc! { "w": [1], "x": 1, "y": 1, "z": 1 },
        ),
    ]);
}

#[test]
fn numeric_path_components_index_and_backfill_arrays() {
    assert_each(vec![
        (doc! { "a": [1] }, doc! { "$set": { "a.3": 1 } }, doc! { "a": [1, null, null, 1] }),
        (doc! { "a": [1] }, doc! { "$set": { "a.1.b": 1 } }, doc! { "a": [1, { "b": 1 }] }),
        (doc! { "a": [1, 2] }, doc! { "$set": { "a.01": 5 } }, doc! { "a": [1, 5] }),
        (doc! {}, doc! { "$set": { "a.1": 5 } }, doc! { "a": { "1": 5 } }),
    ]);
    assert_fails(vec![
        (
            doc! { "a": [1] },
            doc! { "$set": { "a.1500002": 1 } },
            34,
            "can't backfill more than 1500000 elements",
        ),
        (
            doc! { "a": [1] },
            doc! { "$set": { "a.4294967296": 1 } },
            28,
            "Cannot create field '4294967296' in element {a: [ 1 ]}",
        ),
    ]);
}

#[test]
fn invalid_update_paths_fail() {
    assert_fails(vec![
        (doc! {}, doc! { "$set": { "": 1 } }, 56, "An empty update path is not valid."),
        (
            doc! {},
            doc! { "$set": { "a..b": 1 } },
            56,
            "The update path 'a..b' contains an empty field name, which is not allowed.",
        ),
        (
            doc! { "a": "x" },
            doc! { "$set": { "a.b.c": 1 } },
            28,
            "Cannot create field 'b' in element {a: \"x\"}",
        ),
        (
            doc! { "a": [5] },
            doc! { "$set": { "a.0.x": 1 } },
            28,
            "Cannot create field 'x' in element {0: 5}",
        ),
        (
            doc! { "a": 1 },
            doc! { "$pull": { "a.b": 1 } },
            28,
            "Cannot use the part (b) of (a.b) to traverse the element ({a: 1})",
        ),
        (
            doc! { "a": 1 },
            doc! { "$rename": { "a.b": "c" } },
            28,
            "cannot use the part (a of a.b) to traverse the element ({a: 1})",
        ),
        (
            doc! { "_id": 1, "a": [{ "x": 1 }] },
            doc! { "$rename": { "a.0.x": "c" } },
            2,
            "The source field cannot be an array element, 'a.0.x' in doc with _id: 1 has an array \
             field called 'a'",
        ),
        (
            doc! { "_id": 1, "a": [1], "b": 1 },
            doc! { "$rename": { "b": "a.0" } },
            2,
            "The destination field cannot be an array element, 'a.0' in doc with _id: 1 has an array \
             field called 'a'",
        ),
        (
            doc! { "a": 1 },
            doc! { "$set": { "$b": 1 } },
            52,
            "The dollar ($) prefixed field '$b' in '$b' is not allowed in the context of an update's \
             replacement document. Consider using an aggregation pipeline with $replaceWith.",
        ),
        (
            doc! { "a": 1 },
            doc! { "$set": { "$id": 1 } },
            55,
            "Found $id field without a $ref before it, which is invalid.",
        ),
    ]);
}

#[test]
fn nested_field_names_may_start_with_a_dollar() {
    assert_each(vec![
        (doc! { "a": {} }, doc! { "$set": { "a.$b": 1 } }, doc! { "a": { "$b": 1 } }),
        (doc! { "$a": {} }, doc! { "$set": { "$a.b": 1 } }, doc! { "$a": { "b": 1 } }),
        (doc! { "$a": 1 }, doc! { "$unset": { "$a": 1 } }, doc! {}),
    ]);
}

#[test]
fn conflicting_update_operators_fail() {
    let conflict = |path: &str, at: &str| {
        format!("Updating the path '{path}' would create a conflict at '{at}'")
    };
    for (update, words) in [
        (doc! { "$set": { "a": 1, "a.b": 2 } }, conflict("a.b", "a")),
        (doc! { "$set": { "a.b": 1 }, "$unset": { "a": 1 } }, conflict("a", "a")),
        (doc! { "$set": { "a": 1 }, "$inc": { "a": 1 } }, conflict("a", "a")),
        (doc! { "$rename": { "a": "b", "b": "c" } }, conflict("b", "b")),
        (doc! { "$set": { "a.$[]": 9, "a.0": 10 } }, conflict("a.0", "a")),
    ] {
        assert_fails(vec![(doc! {}, update, 40, &words)]);
    }
}

#[test]
fn updates_of_the_id_fail() {
    let performing = |path: &str| {
        format!("Performing an update on the path '{path}' would modify the immutable field '_id'")
    };
    let document = doc! { "_id": { "a": 1 }, "q": 1 };
    for (update, words) in [
        (doc! { "$set": { "_id": 2 } }, performing("_id")),
        (doc! { "$unset": { "_id.a": 2 } }, performing("_id.a")),
        (doc! { "$rename": { "q": "_id" } }, performing("_id")),
        (doc! { "$rename": { "_id.a": "x" } }, performing("_id.a")),
        (
            doc! { "$set": { "_id.b": 1 } },
            "Updating the path '_id' to _id: { a: 1, b: 1 } would modify the immutable field '_id'"
                .to_owned(),
        ),
    ] {
        assert_fails(vec![(document.clone(), update, 66, &words)]);
    }
    assert_fails(vec![(
        doc! { "_id": 1 },
        doc! { "$set": { "_id": 1.0 } },
        66,
        &performing("_id"),
    )]);
}

#[test]
fn invalid_operators_and_types_fail() {
    let document = doc! { "_id": 1, "s": "str", "l": i64::MAX, "f": 2.5 };
    for (update, code, words) in [
        (
            doc! { "$set": 5 },
            9,
            "Modifiers operate on fields but we found type int instead. For example: {$mod: {<field>: \
             ...}} not {$set: 5}",
        ),
        (
            doc! { "$foo": { "a": 1 } },
            9,
            "Unknown modifier: $foo. Expected a valid update modifier or pipeline-style update \
             specified as an array",
        ),
        (
            doc! { "$inc": { "a": "x" } },
            14,
            "Cannot increment with non-numeric argument: {a: \"x\"}",
        ),
        (
            doc! { "$inc": { "s": 1 } },
            14,
            "Cannot apply $inc to a value of non-numeric type. {_id: 1} has the field 's' of \
             non-numeric type string",
        ),
        (
            doc! { "$inc": { "l": 1 } },
            2,
            "Failed to apply $inc operations to current value ((NumberLong)9223372036854775807) for \
             document {_id: 1}",
        ),
        (
            doc! { "$bit": { "f": { "and": 1 } } },
            2,
            "Cannot apply $bit to a value of non-integral type._id: 1 has the field f of non-integer \
             type double",
        ),
        (
            doc! { "$bit": { "a": {} } },
            2,
            "You must pass in at least one bitwise operation. The format is: {$bit: {field: \
             {and/or/xor: #}}",
        ),
        (doc! { "$rename": { "a": 5 } }, 2, "The 'to' field for $rename must be a string: a: 5"),
        (
            doc! { "$rename": { "a": "a.b" } },
            2,
            "The source and target field for $rename must not be on the same path: a: \"a.b\"",
        ),
        (
            doc! { "$currentDate": { "a": { "$typo": 5 } } },
            2,
            "Unrecognized $currentDate option: $typo",
        ),
    ] {
        assert_fails(vec![(document.clone(), update, code, words)]);
    }
}
