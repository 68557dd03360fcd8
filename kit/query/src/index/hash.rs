//! Hash of values, for hashed indexes and hashed sharding.

use bson::{Bson, Document};
use md5::{Digest, Md5};

use crate::value::{Number, type_order};

/// Hashes a value as servers do, so that documents belong to the same chunks. Numbers that are
/// equal as integers have the same hash.
///
/// Arrays have a hash, too, although hashed indexes reject them.
pub fn hashed(value: &Bson) -> i64 {
    let mut digest = Md5::new();
    // Seed.
    digest.update(0_i32.to_le_bytes());
    add(value, None, &mut digest);
    let bytes = digest.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&bytes[..8]);
    i64::from_le_bytes(first)
}

fn add(value: &Bson, name: Option<&str>, digest: &mut Md5) {
    digest.update(kind(value).to_le_bytes());
    if let Some(name) = name {
        digest.update(name);
        digest.update([0]);
    }
    match value {
        Bson::Document(document) => add_fields(document, digest),
        Bson::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                add(element, Some(&index.to_string()), digest);
            }
            digest.update(0_i32.to_le_bytes());
        }
        Bson::JavaScriptCodeWithScope(code) => {
            digest.update(&code.code);
            digest.update([0]);
            add_fields(&code.scope, digest);
        }
        other => match Number::of(other) {
            Some(number) => digest.update(integer(number).to_le_bytes()),
            None => digest.update(bytes(other)),
        },
    }
}

fn add_fields(document: &Document, digest: &mut Md5) {
    for (name, value) in document {
        add(value, Some(name), digest);
    }
    // The end of a document counts as an unnamed field.
    digest.update(0_i32.to_le_bytes());
}

/// Number of a value's canonical type in servers.
fn kind(value: &Bson) -> i32 {
    match value {
        Bson::MinKey => -1,
        Bson::Undefined => 0,
        other => type_order(other).into(),
    }
}

/// Converts a number to the hashed integer: truncated and saturating. Decimals are rounded to
/// nearest, ties to even.
fn integer(number: Number) -> i64 {
    match number {
        Number::Int(number) => number.into(),
        Number::Long(number) => number,
        #[allow(clippy::cast_possible_truncation)]
        Number::Double(number) => number as i64,
        Number::Decimal(decimal) => {
            let double = decimal.to_f64();
            let Some(whole) = decimal.to_integer() else {
                #[allow(clippy::cast_possible_truncation)]
                return double as i64;
            };
            let (up, half) = (whole.saturating_add(if double < 0.0 { -1 } else { 1 }), 0.5);
            #[allow(clippy::cast_precision_loss)]
            let rest = (double - whole as f64).abs();
            if rest > half || (rest == half && whole % 2 != 0) { up } else { whole }
        }
    }
}

/// Stored bytes of a value, without type and name.
fn bytes(value: &Bson) -> Vec<u8> {
    let mut alone = Document::new();
    alone.insert("", value.clone());
    let stored = bson::document_to_vec(&alone).unwrap_or_default();
    stored.get(6..stored.len().saturating_sub(1)).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use bson::{Binary, Timestamp, doc, spec::BinarySubtype};

    use super::*;

    #[test]
    fn hashes_match_the_server() {
        let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
        let cases: Vec<(Bson, i64)> = vec![
            (1.into(), 5_902_408_780_260_971_510),
            (1_i64.into(), 5_902_408_780_260_971_510),
            (1.5.into(), 5_902_408_780_260_971_510),
            ((-1.5).into(), 1_140_205_862_565_771_219),
            (decimal("1"), 5_902_408_780_260_971_510),
            (decimal("1.5"), 848_411_777_775_835_583),
            (decimal("NaN"), 4_854_801_880_128_277_513),
            (f64::NAN.into(), 4_854_801_880_128_277_513),
            (f64::INFINITY.into(), 921_523_596_458_303_250),
            (i64::MIN.into(), 4_532_067_210_535_695_462),
            (Bson::Null, 2_338_878_944_348_059_895),
            ("x".into(), -5_169_800_095_944_007_213),
            ("".into(), 2_049_396_243_249_673_340),
            (true.into(), 6_405_873_908_747_105_701),
            (Bson::MinKey, 7_961_148_599_568_647_290),
            (Bson::MaxKey, 5_504_842_513_779_440_750),
            (Bson::Timestamp(Timestamp { time: 5, increment: 6 }), -6_832_991_088_748_649_283),
            (
                Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: b"ab".to_vec() }),
                -5_211_738_885_555_603_998,
            ),
            (Bson::JavaScriptCode("f()".into()), 4_802_594_429_104_294_857),
            (doc! { "a": 1 }.into(), -8_705_610_352_600_103_477),
            (doc! { "a": 1.0 }.into(), -8_705_610_352_600_103_477),
            (doc! {}.into(), 7_980_500_913_326_740_417),
            (doc! { "b": "x", "a": [1] }.into(), 8_271_038_637_224_708_411),
        ];
        for (value, expected) in cases {
            assert_eq!(hashed(&value), expected, "{value}");
        }
    }
}
