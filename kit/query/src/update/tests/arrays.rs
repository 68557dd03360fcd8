//! Array update operators.

use bson::{Bson, Regex, doc};

use super::{assert_each, assert_fails, assert_none_changes};

#[test]
fn push_applies_position_sort_and_slice() {
    for (before, argument, after) in [
        (doc! { "a": [1] }, Bson::Int32(2), doc! { "a": [1, 2] }),
        (doc! {}, Bson::Int32(2), doc! { "a": [2] }),
        (doc! {}, doc! { "$each": [] }.into(), doc! { "a": [] }),
        (doc! { "a": [1] }, doc! { "$slice": 1 }.into(), doc! { "a": [1, { "$slice": 1 }] }),
        (
            doc! { "a": [1, 2, 3] },
            doc! { "$each": [8, 9], "$position": 1, "$slice": -3 }.into(),
            doc! { "a": [9, 2, 3] },
        ),
        (
            doc! { "a": [1, 2, 3] },
            doc! { "$each": [9], "$position": -1 }.into(),
            doc! { "a": [1, 2, 9, 3] },
        ),
        (
            doc! { "a": [1, 2, 3] },
            doc! { "$each": [9], "$position": i64::MIN }.into(),
            doc! { "a": [9, 1, 2, 3] },
        ),
        (doc! { "a": [1, 2] }, doc! { "$each": [3], "$slice": 2 }.into(), doc! { "a": [1, 2] }),
        (doc! { "a": [1] }, doc! { "$each": [], "$sort": 1 }.into(), doc! { "a": [1] }),
        (
            doc! { "a": [3, "a", null, { "x": 1 }, [2]] },
            doc! { "$each": [1], "$sort": -1 }.into(),
            doc! { "a": [[2], { "x": 1 }, "a", 3, 1, null] },
        ),
        (
            doc! { "a": [{ "x": 2 }, { "x": 1 }, { "y": 3 }, 5, "s", [{ "x": 0 }]] },
            doc! { "$each": [], "$sort": { "x": 1 } }.into(),
            doc! { "a": [{ "y": 3 }, 5, "s", [{ "x": 0 }], { "x": 1 }, { "x": 2 }] },
        ),
        (
            doc! { "a": [{ "x": [3, 1] }, { "x": 2 }] },
            doc! { "$each": [], "$sort": { "x": 1 } }.into(),
            doc! { "a": [{ "x": 2 }, { "x": [3, 1] }] },
        ),
        (
            doc! { "a": [{ "x": 1, "y": 2 }, { "x": 1, "y": 1 }] },
            doc! { "$each": [], "$sort": { "x": 1, "y": 1 } }.into(),
            doc! { "a": [{ "x": 1, "y": 1 }, { "x": 1, "y": 2 }] },
        ),
    ] {
        assert_each(vec![(before, doc! { "$push": { "a": argument } }, after)]);
    }
    assert_none_changes(vec![
        (doc! { "a": [1] }, doc! { "$push": { "a": { "$each": [] } } }),
        (doc! { "a": [1] }, doc! { "$push": { "a": { "$each": [], "$slice": 5 } } }),
        (doc! { "a": [] }, doc! { "$push": { "a": { "$each": [], "$sort": 1 } } }),
    ]);
}

#[test]
fn add_to_set_adds_each_element_once() {
    assert_each(vec![
        (doc! { "a": [1, 1] }, doc! { "$addToSet": { "a": 2 } }, doc! { "a": [1, 1, 2] }),
        (
            doc! { "a": [1] },
            doc! { "$addToSet": { "a": { "$each": [1, 2, 2.0] } } },
            doc! { "a": [1, 2] },
        ),
        (
            doc! { "a": [{ "x": 1, "y": 2 }] },
            doc! { "$addToSet": { "a": { "y": 2, "x": 1 } } },
            doc! { "a": [{ "x": 1, "y": 2 }, { "y": 2, "x": 1 }] },
        ),
        (doc! {}, doc! { "$addToSet": { "a": { "$each": [5, 5, 1] } } }, doc! { "a": [5, 1] }),
    ]);
    assert_none_changes(vec![
        (doc! { "a": [1] }, doc! { "$addToSet": { "a": 1.0 } }),
        (doc! { "a": [[1]] }, doc! { "$addToSet": { "a": [1] } }),
    ]);
}

#[test]
fn pop_removes_first_or_last_element() {
    assert_each(vec![
        (doc! { "a": [1, 2, 3] }, doc! { "$pop": { "a": 1.0 } }, doc! { "a": [1, 2] }),
        (doc! { "a": [1, 2, 3] }, doc! { "$pop": { "a": -1 } }, doc! { "a": [2, 3] }),
    ]);
    assert_none_changes(vec![
        (doc! { "a": [] }, doc! { "$pop": { "a": 1 } }),
        (doc! { "a": [] }, doc! { "$pop": { "b.c": 1 } }),
    ]);
}

#[test]
fn pull_removes_by_value_operator_and_filter() {
    let regex = || {
        let pattern = "a".try_into().unwrap();
        Bson::RegularExpression(Regex { pattern, options: "".try_into().unwrap() })
    };
    for (before, condition, after) in [
        (doc! { "a": [[1, 2], 1, 1.0] }, Bson::Int32(1), doc! { "a": [[1, 2]] }),
        (doc! { "a": [[1, 2], 1] }, vec![1, 2].into(), doc! { "a": [1] }),
        (doc! { "a": [[1, 2], [3], 1] }, doc! { "$gte": 2 }.into(), doc! { "a": [1] }),
        (doc! { "a": [1, 2, "A"] }, doc! { "$gt": 1, "$lt": 3 }.into(), doc! { "a": [1, "A"] }),
        (doc! { "a": ["abc", "b", regex()] }, regex(), doc! { "a": ["b"] }),
        (
            doc! { "a": [{ "x": 1, "y": 2 }, { "x": 1 }, 1] },
            doc! { "x": 1 }.into(),
            doc! { "a": [1] },
        ),
        (
            doc! { "a": [{ "x": null }, { "y": 1 }, 3] },
            doc! { "x": null }.into(),
            doc! { "a": [3] },
        ),
        (
            doc! { "a": [{ "x": 1, "y": 1 }, 3] },
            doc! { "$or": [{ "x": 1 }, { "y": 3 }] }.into(),
            doc! { "a": [3] },
        ),
        (doc! { "a": [{ "x": 1 }, 2] }, doc! {}.into(), doc! { "a": [2] }),
    ] {
        assert_each(vec![(before, doc! { "$pull": { "a": condition } }, after)]);
    }
    assert_none_changes(vec![
        (doc! { "a": [{ "x": 1, "y": 1 }] }, doc! { "$pull": { "a": { "$eq": { "x": 1 } } } }),
        (doc! { "a": [[{ "x": 1 }]] }, doc! { "$pull": { "a": { "x": 1 } } }),
        (doc! { "a": [[1]] }, doc! { "$pullAll": { "a": [1] } }),
    ]);
    assert_each(vec![(
        doc! { "a": ["a", regex(), 1.0, { "x": 1 }] },
        doc! { "$pullAll": { "a": [regex(), 1, { "x": 1.0 }] } },
        doc! { "a": ["a"] },
    )]);
}

#[test]
fn array_operators_on_other_types_fail() {
    let document = doc! { "_id": 1, "s": "str", "a": [1] };
    for (update, code, words) in [
        (
            doc! { "$push": { "s": 1 } },
            2,
            "The field 's' must be an array but is of type string in document {_id: 1}",
        ),
        (
            doc! { "$addToSet": { "s": 1 } },
            2,
            "Cannot apply $addToSet to non-array field. Field named 's' has non-array type string",
        ),
        (
            doc! { "$pop": { "s": 1 } },
            14,
            "Path 's' contains an element of non-array type 'string'",
        ),
        (doc! { "$pull": { "s": 1 } }, 2, "Cannot apply $pull to a non-array value"),
        (doc! { "$pullAll": { "s": [1] } }, 2, "Cannot apply $pull to a non-array value"),
        (
            doc! { "$pullAll": { "a": 1 } },
            2,
            "$pullAll requires an array argument but was given a int",
        ),
        (doc! { "$pop": { "a": 2 } }, 9, "$pop expects 1 or -1, found: 2"),
        (doc! { "$pop": { "a": "x" } }, 9, "Expected a number in: a: \"x\""),
        (doc! { "$pop": { "a": 1.5 } }, 9, "Expected an integer: a: 1.5"),
        (doc! { "$pull": { "a": { "$expr": true } } }, 224, "$expr is not allowed in this context"),
        (
            doc! { "$addToSet": { "a": { "$each": [5], "x": 1 } } },
            2,
            "Found unexpected fields after $each in $addToSet: { $each: [ 5 ], x: 1 }",
        ),
    ] {
        assert_fails(vec![(document.clone(), update, code, words)]);
    }
}

#[test]
fn invalid_push_modifiers_fail() {
    for (clauses, words) in [
        (
            doc! { "$each": 5 },
            "The argument to $each in $push must be an array but it was of type: int",
        ),
        (
            doc! { "$each": [], "$slice": 1.5 },
            "The value for $slice must be an integer value but was given type: double",
        ),
        (
            doc! { "$each": [], "$position": "x" },
            "The value for $position must be an integer value, not of type: string",
        ),
        (doc! { "$each": [], "$sort": 5 }, "The $sort element value must be either 1 or -1"),
        (
            doc! { "$each": [], "$sort": { "a": 5 } },
            "The sort element value must be either 1 or -1",
        ),
        (
            doc! { "$each": [], "$sort": {} },
            "The sort pattern is empty when it should be a set of fields.",
        ),
        (
            doc! { "$each": [], "$sort": { "a.": 1 } },
            "The sort field is a dotted field but has an empty part: a.",
        ),
        (doc! { "x": 1, "$each": [1] }, "Unrecognized clause in $push: x"),
    ] {
        assert_fails(vec![(doc! {}, doc! { "$push": { "a": clauses } }, 2, words)]);
    }
}
