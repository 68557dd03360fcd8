//! Comparison order, sums and decimals.

use std::{cmp::Ordering, str::FromStr};

use bson::{Bson, Decimal128, bson, doc};
use proptest::prelude::*;

use super::*;

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(Decimal128::from_str(text).unwrap())
}

fn order(left: &Bson, right: &Bson) -> Ordering {
    compare(left, right, &BinaryOrder)
}

#[test]
fn types_sort_in_server_order() {
    let ladder = [
        Bson::MinKey,
        Bson::Undefined,
        Bson::Null,
        Bson::Double(f64::NAN),
        decimal("-Infinity"),
        Bson::Int64(i64::MIN),
        bson!(-1),
        decimal("-0.5"),
        bson!(0),
        Bson::Double(f64::MIN_POSITIVE),
        bson!(1),
        Bson::Double(9_007_199_254_740_992.0),
        Bson::Int64(9_007_199_254_740_993),
        Bson::Int64(i64::MAX),
        Bson::Double(9_223_372_036_854_775_808.0),
        Bson::Double(f64::INFINITY),
        bson!("a"),
        Bson::Symbol("b".into()),
        bson!({}),
        bson!({ "b": 1 }),
        bson!({ "a": "x" }),
        bson!([]),
        bson!([1]),
        bson!([1, 1]),
        bson!([2]),
        Bson::Binary(Binary { subtype: BinarySubtype::Uuid, bytes: vec![9] }),
        Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: vec![1, 2] }),
        Bson::Binary(Binary { subtype: BinarySubtype::Md5, bytes: vec![0, 0] }),
        Bson::ObjectId(bson::oid::ObjectId::from_bytes([0; 12])),
        bson!(false),
        bson!(true),
        Bson::DateTime(bson::DateTime::from_millis(-5)),
        Bson::DateTime(bson::DateTime::from_millis(5)),
        Bson::Timestamp(bson::Timestamp { time: 1, increment: 9 }),
        Bson::Timestamp(bson::Timestamp { time: 2, increment: 0 }),
        Bson::JavaScriptCode("a".into()),
        Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope {
            code: "a".into(),
            scope: doc! {},
        }),
        Bson::MaxKey,
    ];
    for (i, left) in ladder.iter().enumerate() {
        for (j, right) in ladder.iter().enumerate() {
            assert_eq!(order(left, right), i.cmp(&j), "{left} and {right}");
        }
    }
}

#[test]
fn numbers_compare_across_types() {
    for (left, right) in [
        (bson!(1), Bson::Int64(1)),
        (bson!(1), bson!(1.0)),
        (bson!(0.0), bson!(-0.0)),
        (decimal("1.00"), bson!(1)),
        (decimal("0.5"), bson!(0.5)),
        (decimal("-0E+3"), bson!(0)),
        (decimal("NaN"), bson!(f64::NAN)),
        (decimal("9223372036854775808"), bson!(9_223_372_036_854_775_808.0)),
    ] {
        assert_eq!(order(&left, &right), Ordering::Equal, "{left} and {right}");
    }
    // No double equals a tenth.
    assert_eq!(order(&decimal("0.1"), &bson!(0.1)), Ordering::Less);
    assert_eq!(order(&decimal("0.3"), &bson!(0.3)), Ordering::Greater);
}

#[test]
fn documents_compare_by_type_then_name_then_value() {
    assert_eq!(order(&bson!({ "b": 1 }), &bson!({ "a": "x" })), Ordering::Less);
    assert_eq!(order(&bson!({ "b": 1 }), &bson!({ "a": 2 })), Ordering::Greater);
    assert_eq!(order(&bson!({ "a": 1 }), &bson!({ "a": 1, "b": 1 })), Ordering::Less);
    assert_eq!(order(&bson!({ "a": 1 }), &bson!({ "a": 1.0 })), Ordering::Equal);
}

#[test]
fn sum_has_the_wider_type() {
    let long = |it: i64| Bson::Int64(it);
    for (left, right, sum) in [
        (bson!(1), bson!(2), bson!(3)),
        (bson!(i32::MAX), bson!(1), long(1 << 31)),
        (bson!(1), long(2), long(3)),
        (long(1), bson!(0.5), bson!(1.5)),
        (bson!(1), decimal("0.10"), decimal("1.10")),
    ] {
        assert_eq!(add(&left, &right), Ok(sum.clone()), "{left} + {right}");
        assert_eq!(add(&right, &left), Ok(sum), "{right} + {left}");
    }
    assert_eq!(add(&long(i64::MAX), &bson!(1)), Err(ArithmeticError::Overflow));
    assert_eq!(add(&bson!("a"), &bson!(1)), Err(ArithmeticError::NotANumber));
    assert_eq!(
        double_on_overflow(add, &long(i64::MAX), &bson!(1)),
        Some(bson!(9_223_372_036_854_775_807.0))
    );
    assert_eq!(multiply(&bson!(i32::MAX), &bson!(2)), Ok(long(4_294_967_294)));
    assert_eq!(subtract(&bson!(i32::MIN), &bson!(1)), Ok(long(-2_147_483_649)));
}

#[test]
fn decimal_arithmetic_rounds_to_34_digits() {
    let nines = "9999999999999999999999999999999999";
    for (left, operation, right, result) in [
        ("1", '+', "1E-40", "1.000000000000000000000000000000000"),
        ("1", '+', "0E-3", "1.000"),
        (nines, '+', "1", "1.000000000000000000000000000000000E+34"),
        (nines, '+', "0.5", "1.000000000000000000000000000000000E+34"),
        (nines, '+', "0.4", nines),
        ("1000000000000000000000000000000000", '-', "0.09", "999999999999999999999999999999999.9"),
        ("5", '-', "5.00", "0.00"),
        ("1", '-', "3", "-2"),
        ("Infinity", '-', "Infinity", "NaN"),
        ("1.5", '*', "-2.0", "-3.00"),
        (nines, '*', nines, "9.999999999999999999999999999999998E+67"),
        ("9E+6144", '*', "10", "Infinity"),
        ("1E-6176", '*', "0.1", "0E-6176"),
        ("3E-6176", '*', "0.5", "2E-6176"),
        ("1", '/', "3", "0.3333333333333333333333333333333333"),
        ("2", '/', "3", "0.6666666666666666666666666666666667"),
        ("10", '/', "4", "2.5"),
        ("100", '/', "10", "10"),
        ("1E+3", '/', "10", "1E+2"),
        ("1", '/', "0", "Infinity"),
    ] {
        let number = |text: &str| Decimal::from(Decimal128::from_str(text).unwrap());
        let (a, b) = (number(left), number(right));
        let computed = match operation {
            '+' => a.plus(b),
            '-' => a.minus(b),
            '*' => a.times(b),
            _ => a.divided_by(b),
        };
        assert_eq!(Decimal128::from(computed).to_string(), result, "{left} {operation} {right}");
    }
}

#[test]
fn double_converts_to_decimal_with_15_or_34_digits() {
    for (double, short, long) in [
        (0.5, "0.500000000000000", "0.5"),
        (272.0, "272.000000000000", "272"),
        (0.1, "0.100000000000000", "0.1000000000000000055511151231257827"),
        (1e20, "1.00000000000000E+20", "100000000000000000000"),
        (-0.0, "-0", "-0"),
        (f64::INFINITY, "Infinity", "Infinity"),
    ] {
        assert_eq!(Decimal128::from(Decimal::from_double(double)).to_string(), short);
        assert_eq!(Decimal128::from(Decimal::from_double_exact(double)).to_string(), long);
    }
}

#[test]
fn type_names_and_numbers_match_the_server() {
    for (value, name, number) in [
        (bson!(1.0), "double", 1),
        (bson!(1), "int", 16),
        (Bson::Int64(1), "long", 18),
        (decimal("1"), "decimal", 19),
        (Bson::MinKey, "minKey", -1),
        (Bson::MaxKey, "maxKey", 127),
        (bson!({}), "object", 3),
        (Bson::Undefined, "undefined", 6),
    ] {
        assert_eq!((type_name(&value), type_number(&value)), (name, number));
    }
}

#[test]
fn zero_null_and_undefined_are_falsy() {
    for value in [bson!(0), bson!(-0.0), decimal("0E+5"), Bson::Null, Bson::Undefined, bson!(false)]
    {
        assert!(!is_truthy(&value), "{value}");
    }
    for value in [bson!(0.1), bson!(f64::NAN), bson!(""), bson!([]), bson!({}), Bson::MinKey] {
        assert!(is_truthy(&value), "{value}");
    }
}

/// Numbers of all types that are close to each other.
fn numbers() -> impl Strategy<Value = Bson> {
    let edge = prop_oneof![
        Just(0i64),
        Just(1 << 53),
        Just(i64::MAX),
        Just(i64::MIN),
        -3i64..3,
        any::<i64>()
    ];
    (edge, -2i64..=2, 0..5).prop_map(|(base, step, kind)| {
        let number = base.saturating_add(step);
        #[allow(clippy::cast_precision_loss)]
        match kind {
            0 => Bson::Int64(number),
            1 => Bson::Double(number as f64),
            2 => Bson::Double(number as f64 / 3.0),
            3 => decimal(&format!("{number}.5")),
            _ => decimal(&format!("{number}E-1")),
        }
    })
}

fn any_value() -> impl Strategy<Value = Bson> {
    let leaf = prop_oneof![
        numbers(),
        Just(Bson::Null),
        Just(Bson::Undefined),
        Just(Bson::Double(f64::NAN)),
        any::<bool>().prop_map(Bson::Boolean),
        "[ab]{0,2}".prop_map(Bson::String),
        Just(Bson::MinKey),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Bson::Array),
            prop::collection::vec(("[ab]", inner), 0..3)
                .prop_map(|it| Bson::Document(it.into_iter().collect())),
        ]
    })
}

/// Ten times the number, if that is an integer of 128 bits.
fn tenfold(number: &Bson) -> Option<i128> {
    match number {
        Bson::Int64(number) => Some(i128::from(*number) * 10),
        Bson::Decimal128(number) => {
            let text = number.to_string();
            let (whole, tenth) = text.split_once('.').unwrap_or((&text, "0"));
            format!("{whole}{tenth}").parse().ok()
        }
        _ => None,
    }
}

proptest! {
    #[test]
    fn order_is_total(a in any_value(), b in any_value(), c in any_value()) {
        prop_assert_eq!(order(&a, &a), Ordering::Equal);
        prop_assert_eq!(order(&a, &b), order(&b, &a).reverse());
        if order(&a, &b).is_le() && order(&b, &c).is_le() {
            prop_assert!(order(&a, &c).is_le());
        }
    }

    #[test]
    fn integers_and_decimals_compare_exactly(a in numbers(), b in numbers()) {
        if let (Some(left), Some(right)) = (tenfold(&a), tenfold(&b)) {
            prop_assert_eq!(order(&a, &b), left.cmp(&right));
        }
    }

    #[test]
    fn decimal_sums_equal_integer_sums(a in any::<i64>(), b in any::<i64>()) {
        let number = |it: i128| Decimal128::from_str(&it.to_string()).unwrap();
        let (a, b) = (i128::from(a), i128::from(b));
        let (left, right) = (Decimal::from(number(a)), Decimal::from(number(b)));
        prop_assert_eq!(Decimal128::from(left.plus(right)), number(a + b));
        prop_assert_eq!(Decimal128::from(left.minus(right)), number(a - b));
    }
}
