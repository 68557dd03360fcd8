//! Iteration over the fields of a document without decoding their values.

use bson::{RawDocument, Timestamp};

use crate::terminator::find_nul;

/// Iterates over the fields of a document in their order.
///
/// The iteration ends at the first malformed field; documents from [`decode`](crate::decode) have
/// none. Finding two or three keys this way is much faster than decoding every value on the way.
///
/// ```
/// let reply = bson::rawdoc! { "n": 1, "opTime": { "t": 1_i64 }, "ok": 1.0 };
/// let n = steadfast_wire::fields(&reply).find(|field| field.key == b"n").unwrap();
/// assert_eq!(n.as_i32(), Some(1));
/// assert_eq!(steadfast_wire::fields(&reply).count(), 3);
/// ```
#[inline]
pub fn fields(document: &RawDocument) -> Fields<'_> {
    let bytes = document.as_bytes();
    Fields { rest: bytes.get(4..bytes.len().saturating_sub(1)).unwrap_or_default() }
}

/// Returns the first field with this key.
#[inline]
pub fn field<'a>(document: &'a RawDocument, key: &str) -> Option<Field<'a>> {
    fields(document).find(|field| field.key == key.as_bytes())
}

/// Iterator over the fields of a document, created by [`fields`].
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

/// A field of a document, not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Field<'a> {
    /// The key, without its NUL.
    pub key: &'a [u8],
    /// The BSON element type.
    pub element_type: u8,
    /// The bytes of the value.
    pub value: &'a [u8],
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    #[inline]
    fn next(&mut self) -> Option<Field<'a>> {
        let (&element_type, rest) = self.rest.split_first()?;
        let (key, rest) = split_cstring(rest)?;
        let (value, rest) = rest.split_at_checked(value_length(element_type, rest)?)?;
        self.rest = rest;
        Some(Field { key, element_type, value })
    }
}

impl Fields<'_> {
    /// Returns `true` if the iteration reached the end of the document, and `false` after a
    /// malformed field.
    #[inline]
    pub fn reached_end(&self) -> bool {
        self.rest.is_empty()
    }
}

#[inline]
fn split_cstring(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = find_nul(bytes)?;
    Some((&bytes[..length], &bytes[length + 1..]))
}

/// Returns the number of bytes of a value, from its type and its own length.
#[inline]
fn value_length(element_type: u8, value: &[u8]) -> Option<usize> {
    let declared_length = || usize::try_from(i32::from_le_bytes(*value.first_chunk()?)).ok();
    match element_type {
        0x06 | 0x0a | 0x7f | 0xff => Some(0),
        0x08 => Some(1),
        0x10 => Some(4),
        0x01 | 0x09 | 0x11 | 0x12 => Some(8),
        0x07 => Some(12),
        0x13 => Some(16),
        0x02 | 0x0d | 0x0e => declared_length()?.checked_add(4),
        0x03 | 0x04 | 0x0f => declared_length(),
        0x05 => declared_length()?.checked_add(5),
        0x0b => {
            let (pattern, rest) = split_cstring(value)?;
            let (options, _) = split_cstring(rest)?;
            Some(pattern.len() + options.len() + 2)
        }
        0x0c => declared_length()?.checked_add(4 + 12),
        _ => None,
    }
}

impl<'a> Field<'a> {
    /// Returns the value if it is an int32.
    pub fn as_i32(&self) -> Option<i32> {
        self.value_of(0x10).map(i32::from_le_bytes)
    }

    /// Returns the value if it is an int64.
    pub fn as_i64(&self) -> Option<i64> {
        self.value_of(0x12).map(i64::from_le_bytes)
    }

    /// Returns the value if it is a double.
    pub fn as_f64(&self) -> Option<f64> {
        self.value_of(0x01).map(f64::from_le_bytes)
    }

    /// Returns the value if it is a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        self.value_of(0x08).map(|[byte]| byte != 0)
    }

    /// Returns the value if it is a timestamp.
    pub fn as_timestamp(&self) -> Option<Timestamp> {
        let [i0, i1, i2, i3, t0, t1, t2, t3] = self.value_of(0x11)?;
        let increment = u32::from_le_bytes([i0, i1, i2, i3]);
        Some(Timestamp { time: u32::from_le_bytes([t0, t1, t2, t3]), increment })
    }

    /// Returns the value if it is a document.
    pub fn as_document(&self) -> Option<&'a RawDocument> {
        let document = (self.element_type == 0x03).then_some(self.value)?;
        RawDocument::from_bytes(document).ok()
    }

    fn value_of<const N: usize>(&self, element_type: u8) -> Option<[u8; N]> {
        (self.element_type == element_type).then(|| self.value.first_chunk().copied()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use bson::{Binary, DateTime, Decimal128, ToStr, oid::ObjectId, rawdoc, spec::BinarySubtype};

    use super::*;

    #[test]
    fn fields_of_every_type_are_walked() {
        let time = Timestamp { time: 7, increment: 9 };
        let document = rawdoc! {
            "double": 1.5, "text": "words", "document": { "x": 1 }, "array": [1, 2],
            "binary": Binary { subtype: BinarySubtype::Generic, bytes: vec![1, 2, 3] },
            "id": ObjectId::from_bytes([1; 12]), "boolean": true, "date": DateTime::from_millis(1),
            "null": bson::RawBson::Null,
            "regex": bson::Regex { pattern: bson::raw::cstr!("a+").into(), options: bson::raw::cstr!("i").into() },
            "code": bson::RawBson::JavaScriptCode("f()".to_owned()),
            "symbol": bson::RawBson::Symbol("s".to_owned()),
            "scoped": bson::RawJavaScriptCodeWithScope { code: "g()".to_owned(), scope: rawdoc! { "y": 2 } },
            "int32": 3, "timestamp": time, "int64": 4_i64,
            "decimal": Decimal128::from_bytes([0; 16]), "min": bson::RawBson::MinKey, "max": bson::RawBson::MaxKey,
            "last": 5,
        };
        let keys: Vec<_> = fields(&document).map(|field| field.key.to_owned()).collect();
        let expected: Vec<_> = document
            .iter()
            .map(|element| element.unwrap().0.to_str().as_bytes().to_owned())
            .collect();
        assert_eq!(keys, expected);
        let mut walk = fields(&document);
        assert!(!walk.reached_end());
        walk.by_ref().for_each(drop);
        assert!(walk.reached_end());
        let of = |key| field(&document, key).unwrap();
        assert_eq!(of("double").as_f64(), Some(1.5));
        assert_eq!(of("document").as_document(), Some(&*rawdoc! { "x": 1 }));
        assert_eq!(of("boolean").as_bool(), Some(true));
        assert_eq!(of("timestamp").as_timestamp(), Some(time));
        assert_eq!(of("int64").as_i64(), Some(4));
        assert_eq!((of("last").as_i32(), of("last").as_i64()), (Some(5), None));
        assert_eq!(field(&document, "missing"), None);
    }

    #[test]
    fn malformed_field_ends_the_walk() {
        let unknown_type = b"\x09\0\0\0\x42a\0\0\0";
        let negative_length = b"\x0c\0\0\0\x02a\0\xff\xff\xff\xff\0";
        let no_value = b"\x08\0\0\0\x10a\0\0";
        for bytes in [&unknown_type[..], negative_length, no_value] {
            let mut walk = fields(RawDocument::from_bytes(bytes).unwrap());
            assert_eq!(walk.next(), None);
            assert!(!walk.reached_end());
        }
    }
}
