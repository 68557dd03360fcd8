//! Differences of the query language between MongoDB 6.0 and 8.2. Expected results are those of
//! servers.

#![allow(missing_docs)]

use bson::{Binary, Bson, DateTime, Document, Timestamp, bson, doc, spec::BinarySubtype};
use steadfast_query::{Dialect, Environment, Expression, Filter, Update};

const BOTH: [Dialect; 2] = [Dialect::V6_0, Dialect::V8_2];

fn environment(dialect: Dialect) -> Environment {
    let mut env =
        Environment::new(DateTime::from_millis(0), Timestamp { time: 1, increment: 1 }, 1);
    env.dialect = dialect;
    env
}

/// Evaluates an expression. Fails with the error code.
fn evaluate(expression: &Bson, dialect: Dialect) -> Result<Bson, i32> {
    let env = environment(dialect);
    let root = doc! { "text": "t", "bytes": bytes(b"\x01\x01", BinarySubtype::Generic) };
    Expression::parse(expression, &env)
        .and_then(|it| it.evaluate(&root, &env))
        .map(|value| value.unwrap_or(Bson::Undefined))
        .map_err(|fault| fault.code.number)
}

fn bytes(bytes: &[u8], subtype: BinarySubtype) -> Binary {
    Binary { subtype, bytes: bytes.to_vec() }
}

#[test]
fn double_converts_to_shortest_string_since_8_2() {
    let cases = [
        (-2_147_483_649.0, "-2.14748e+09", "-2147483649"),
        (123_456.5, "123456", "123456.5"),
        (1e15, "1e+15", "1000000000000000"),
        (1e16, "1e+16", "1e+16"),
        (0.1 + 0.2, "0.3", "0.30000000000000004"),
        (1e-4, "0.0001", "0.0001"),
        (1e-5, "1e-05", "1e-05"),
        (5e-324, "4.94066e-324", "5e-324"),
        (-0.0, "-0", "-0"),
        (f64::NEG_INFINITY, "-Infinity", "-Infinity"),
    ];
    for (number, six, eight) in cases {
        let found = BOTH.map(|dialect| evaluate(&bson!({ "$toString": number }), dialect));
        assert_eq!(found, [Ok(six.into()), Ok(eight.into())], "{number}");
    }
}

#[test]
fn binary_converts_to_string_since_8_2() {
    let uuid = bytes(b"aaaaaaaaaaaaaaaa", BinarySubtype::Uuid);
    let old = bytes(b"ab", BinarySubtype::BinaryOld);
    let cases = [
        (bson!("$bytes"), "AQE="),
        (uuid.into(), "61616161-6161-6161-6161-616161616161"),
        (old.into(), "AgAAAGFi"),
    ];
    for (input, text) in cases {
        let found = BOTH.map(|dialect| evaluate(&bson!({ "$toString": input.clone() }), dialect));
        assert_eq!(found, [Err(241), Ok(text.into())]);
        let convert = bson!({ "$convert": { "input": input, "to": "string", "onError": "no" } });
        let found = BOTH.map(|dialect| evaluate(&convert, dialect));
        assert_eq!(found, [Ok("no".into()), Err(4_341_115)]);
    }
}

#[test]
fn operands_are_evaluated_in_written_order_since_8_2() {
    let constant = bson!({ "$literal": "text" });
    for operator in ["$add", "$multiply"] {
        let first = bson!({ operator: [constant.clone(), "$missing"] });
        let found = BOTH.map(|dialect| evaluate(&first, dialect));
        assert_eq!(found, [Ok(Bson::Null), Err(14)], "{operator}");
        let last = bson!({ operator: ["$missing", constant.clone()] });
        let found = BOTH.map(|dialect| evaluate(&last, dialect));
        assert_eq!(found, [Ok(Bson::Null), Ok(Bson::Null)], "{operator}");
    }
    let found = BOTH.map(|dialect| evaluate(&bson!({ "$add": ["$text", 1] }), dialect));
    assert_eq!(found, [Err(16554), Err(14)]);
}

#[test]
fn fractional_decimals_have_no_bits_since_8_2() {
    let cases = [("2.5", true, false), ("2.0", true, true), ("1E20", true, false)];
    for (number, six, eight) in cases {
        let document = doc! { "a": number.parse::<bson::Decimal128>().unwrap() };
        let found = BOTH.map(|dialect| {
            let env = environment(dialect);
            let filter = Filter::parse(&doc! { "a": { "$bitsAllSet": 0 } }, &env).unwrap();
            filter.matches(&document, &env).unwrap()
        });
        assert_eq!(found, [six, eight], "{number}");
    }
}

#[test]
fn empty_replacement_of_an_id_only_document_is_no_change_since_8_2() {
    let changes = |document: &Document, update: &Bson, dialect| {
        let env = environment(dialect);
        let filter = Filter::parse(&doc! {}, &env).unwrap();
        let update = Update::parse(update, &[], &env).unwrap();
        update.apply(document, &filter, &env).unwrap().is_some()
    };
    for update in [bson!({}), bson!([{ "$replaceWith": {} }])] {
        let found = BOTH.map(|dialect| changes(&doc! { "_id": 1 }, &update, dialect));
        assert_eq!(found, [true, false], "{update}");
        let found = BOTH.map(|dialect| changes(&doc! { "_id": 1, "a": 1 }, &update, dialect));
        assert_eq!(found, [true, true], "{update}");
    }
}
