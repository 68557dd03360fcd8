//! Random values and documents: few names and few values, so that they collide.

use bson::{
    Binary, Bson, DateTime, Decimal128, Document, Regex, Timestamp, doc, oid::ObjectId,
    spec::BinarySubtype,
};

use crate::generator::Generator;

/// Field names of documents.
pub(crate) const FIELDS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Paths through documents and arrays, to fields that may be missing.
pub(crate) const PATHS: [&str; 12] =
    ["a", "b", "c", "d", "e", "a.b", "b.c", "c.0", "a.0.b", "d.e.a", "b.1", "c.b"];

impl Generator {
    pub(crate) fn field(&mut self) -> &'static str {
        FIELDS[self.below(FIELDS.len())]
    }

    pub(crate) fn path(&mut self) -> &'static str {
        if self.once_in(2) { self.field() } else { PATHS[self.below(PATHS.len())] }
    }

    /// One of eighty `_id`s.
    pub(crate) fn id(&mut self) -> Bson {
        match self.below(80) {
            0 => "x".into(),
            1 => Bson::Null,
            2 => doc! { "k": self.small() }.into(),
            id => i32::try_from(id).expect("small").into(),
        }
    }

    pub(crate) fn number(&mut self) -> Bson {
        match self.below(10) {
            0..=4 => self.small().into(),
            5 => i64::from(self.small()).into(),
            6 => (f64::from(self.small()) / 2.0).into(),
            7 => f64::from(self.small()).into(),
            8 => {
                Bson::from(*self.pick(&[2_147_483_647_i64, 9_007_199_254_740_993, -4_294_967_296]))
            }
            _ => self.strange_number(),
        }
    }

    fn strange_number(&mut self) -> Bson {
        match self.below(8) {
            0 => f64::NAN.into(),
            1 => f64::INFINITY.into(),
            2 => (-0.0).into(),
            3 => i64::MAX.into(),
            4 => i32::MAX.into(),
            5 => i64::MIN.into(),
            6 => 1e300.into(),
            _ => "2.5".parse::<Decimal128>().expect("a decimal").into(),
        }
    }

    pub(crate) fn scalar(&mut self) -> Bson {
        match self.below(16) {
            0..=7 => self.number(),
            8..=10 => (*self.pick(&["", "x", "xy", "X", "Abc", "aBC", "z9", "a.b"])).into(),
            11 => Bson::Null,
            12 => self.once_in(2).into(),
            13 => DateTime::from_millis(i64::from(self.small()) * 86_400_000 + 1).into(),
            14 => ObjectId::from_bytes([u8::try_from(self.below(3)).expect("small"); 12]).into(),
            _ => self.strange(),
        }
    }

    fn strange(&mut self) -> Bson {
        match self.below(6) {
            0 => Bson::MinKey,
            1 => Bson::MaxKey,
            2 => Timestamp { time: 5, increment: u32::try_from(self.below(3)).expect("small") }
                .into(),
            3 => Regex {
                pattern: "^x".try_into().expect("a pattern"),
                options: "i".try_into().expect("options"),
            }
            .into(),
            4 => Binary { subtype: BinarySubtype::Generic, bytes: vec![1; self.below(3)] }.into(),
            _ => Bson::JavaScriptCode("f()".to_owned()),
        }
    }

    /// A value, nested at most `depth` levels.
    pub(crate) fn value(&mut self, depth: usize) -> Bson {
        match self.below(if depth == 0 { 6 } else { 10 }) {
            0..=5 => self.scalar(),
            6..=7 => Bson::Array((0..self.below(4)).map(|_| self.value(depth - 1)).collect()),
            _ => self.document(depth - 1).into(),
        }
    }

    /// A document without `_id`.
    pub(crate) fn document(&mut self, depth: usize) -> Document {
        (0..self.below(4)).map(|_| (self.field().to_owned(), self.value(depth))).collect()
    }

    /// A document to store. Numbers and arrays of numbers are frequent, as operands for operators.
    pub(crate) fn stored(&mut self) -> Document {
        let mut document = doc! { "_id": self.id() };
        for field in FIELDS {
            let value = match self.below(8) {
                0 | 1 => continue,
                2 => self.number(),
                3 => Bson::Array((0..self.below(5)).map(|_| self.number()).collect()),
                4 => Bson::Array((0..self.below(3)).map(|_| self.document(1).into()).collect()),
                _ => self.value(2),
            };
            document.insert(field, value);
        }
        document
    }
}
