//! Values and keys of paths.

use bson::{Bson, bson, doc};

use super::{Path, index, index_keys, index_values, values};

#[test]
fn index_values_are_elements_null_or_undefined() {
    let document = doc! { "a": [1, [2], 1], "e": [], "d": [{ "b": 1 }, { "b": [2, 3] }, 4] };
    for (path, expected) in [
        ("a", vec![bson!(1), bson!([2])]),
        ("x", vec![Bson::Null]),
        ("e", vec![Bson::Undefined]),
        ("e.b", vec![Bson::Null]),
        ("d.b", vec![Bson::Null, bson!(1), bson!(2), bson!(3)]),
        ("a.1", vec![bson!([2])]),
        ("d.1.b", vec![bson!(2), bson!(3)]),
        ("a.x", vec![Bson::Null]),
    ] {
        assert_eq!(index_values(&document, path), expected, "{path}");
    }
}

#[test]
fn compound_keys_come_from_one_array() {
    let document = doc! { "a": [{ "b": 1, "c": 2 }, { "b": 3 }], "d": 4, "e": [5] };
    let keys = index_keys(&document, &["a.b", "a.c", "d"].map(Path::new)).unwrap();
    let expected = [vec![bson!(1), bson!(2), bson!(4)], vec![bson!(3), Bson::Null, bson!(4)]];
    assert_eq!(keys, expected);
    let parallel = index_keys(&document, &["a.b", "e"].map(Path::new)).unwrap_err();
    assert_eq!(parallel.code.number, 171);
    let ambiguous = doc! { "a": [{ "0": 1 }] };
    assert_eq!(index_keys(&ambiguous, &[Path::new("a.0")]).unwrap_err().code.number, 16746);
}

#[test]
fn filter_visits_elements_then_the_array() {
    let document = doc! { "a": [{ "b": 1 }, {}, 5], "c": [6, 7] };
    assert_eq!(values(&document, "a.b"), [Some(&bson!(1)), None]);
    assert_eq!(values(&document, "c"), [Some(&bson!(6)), Some(&bson!(7)), Some(&bson!([6, 7]))]);
    assert_eq!(values(&document, "c.1"), [Some(&bson!(7))]);
    assert_eq!(values(&document, "x.y"), [None]);
}

#[test]
fn path_index_has_no_leading_zero() {
    assert_eq!(
        ["0", "10", "01", "", "1a", "-1"].map(index),
        [Some(0), Some(10), None, None, None, None]
    );
}
