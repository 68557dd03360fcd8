//! Conversion of Extended JSON to BSON without an intermediate tree of values.

use std::{fmt, ops::Range};

use serde::{
    Deserialize,
    de::{
        DeserializeSeed, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
        value::MapAccessDeserializer,
    },
};
use steadfast::bson::{Bson, RawBson, RawDocumentBuf, cstr, spec::ElementType};

/// Parses a document.
pub(super) fn document(text: &str) -> Result<RawDocumentBuf, String> {
    let mut bytes = BsonWriter { out: Vec::with_capacity(text.len() + 64), names: Vec::new() };
    let mut parser = serde_json::Deserializer::from_str(text);
    let kind = ValueSeed(&mut bytes).deserialize(&mut parser).map_err(|error| not_json(&error))?;
    parser.end().map_err(|error| not_json(&error))?;
    match kind {
        ElementType::EmbeddedDocument => {
            RawDocumentBuf::from_bytes(bytes.out).map_err(|error| error.to_string())
        }
        ElementType::Array => Err("expected a document, found an array".to_owned()),
        _ => Err("expected a document, found a value".to_owned()),
    }
}

fn not_json(error: &serde_json::Error) -> String {
    // The line number within the record is not that within the file.
    let why = error.to_string().replace(" at line 1 column ", " at column ");
    match error.classify() {
        serde_json::error::Category::Data => format!("not Extended JSON: {why}"),
        serde_json::error::Category::Eof => {
            format!("not JSON: {why}; each line must be a whole document")
        }
        _ => format!("not JSON: {why}"),
    }
}

/// BSON output.
struct BsonWriter {
    out: Vec<u8>,
    /// Positions of the field names of all open documents.
    names: Vec<Range<usize>>,
}

impl BsonWriter {
    /// Reserves space for the length, and returns its position.
    fn open(&mut self) -> usize {
        let start = self.out.len();
        self.out.extend([0; 4]);
        start
    }

    fn close(&mut self, start: usize) {
        self.out.push(0);
        // Longer documents are rejected later.
        let length = i32::try_from(self.out.len() - start).unwrap_or(i32::MAX);
        self.out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Returns a field name that occurs duplicate_field from `first` on. Programs differ in which of the two values they use.
    fn duplicate_field(&mut self, first: usize) -> Option<String> {
        let (out, names) = (&self.out, &mut self.names[first..]);
        names.sort_unstable_by(|a, b| out[a.clone()].cmp(&out[b.clone()]));
        let duplicate_field =
            names.windows(2).find(|two| out[two[0].clone()] == out[two[1].clone()])?;
        Some(String::from_utf8_lossy(&out[duplicate_field[0].clone()]).into_owned())
    }

    fn text(&mut self, text: &str) {
        let length = i32::try_from(text.len() + 1).unwrap_or(i32::MAX);
        self.out.extend(length.to_le_bytes());
        self.out.extend(text.as_bytes());
        self.out.push(0);
    }

    fn value(&mut self, value: Bson) -> Result<ElementType, String> {
        let kind = value.element_type();
        match value {
            Bson::DateTime(at) => self.out.extend(at.timestamp_millis().to_le_bytes()),
            Bson::ObjectId(id) => self.out.extend(id.bytes()),
            Bson::Int64(number) => self.out.extend(number.to_le_bytes()),
            other => {
                let raw = RawBson::try_from(other).map_err(|error| error.to_string())?;
                let mut one = RawDocumentBuf::new();
                one.append(cstr!(""), raw);
                // Before it are the length, the type and an empty name, after it is a null byte.
                let bytes = one.as_bytes();
                self.out.extend(&bytes[6..bytes.len() - 1]);
            }
        }
        Ok(kind)
    }
}

/// Writes a value and returns its type, which is stored before it.
struct ValueSeed<'a>(&'a mut BsonWriter);

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = ElementType;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<ElementType, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = ElementType;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<ElementType, E> {
        Ok(ElementType::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<ElementType, E> {
        self.0.out.push(value.into());
        Ok(ElementType::Boolean)
    }

    /// Writes the shortest integer type.
    fn visit_i64<E>(self, value: i64) -> Result<ElementType, E> {
        match i32::try_from(value) {
            Ok(short) => {
                self.0.out.extend(short.to_le_bytes());
                Ok(ElementType::Int32)
            }
            Err(_) => {
                self.0.out.extend(value.to_le_bytes());
                Ok(ElementType::Int64)
            }
        }
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<ElementType, E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => Err(E::custom(format_args!("{value} is larger than a 64-bit integer"))),
        }
    }

    fn visit_f64<E>(self, value: f64) -> Result<ElementType, E> {
        self.0.out.extend(value.to_le_bytes());
        Ok(ElementType::Double)
    }

    fn visit_str<E>(self, value: &str) -> Result<ElementType, E> {
        self.0.text(value);
        Ok(ElementType::String)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<ElementType, A::Error> {
        let start = self.0.open();
        for index in 0_usize.. {
            let at = self.0.out.len();
            self.0.out.push(0);
            self.0.out.extend(index.to_string().as_bytes());
            self.0.out.push(0);
            match values.next_element_seed(ValueSeed(self.0))? {
                Some(kind) => self.0.out[at] = kind as u8,
                None => {
                    self.0.out.truncate(at);
                    break;
                }
            }
        }
        self.0.close(start);
        Ok(ElementType::Array)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<ElementType, A::Error> {
        let (start, first) = (self.0.open(), self.0.names.len());
        loop {
            let at = self.0.out.len();
            self.0.out.push(0);
            if fields.next_key_seed(NameSeed(self.0))?.is_none() {
                self.0.out.truncate(at);
                break;
            }
            let name = at + 1..self.0.out.len() - 1;
            if self.0.names.len() == first && self.0.out[name.start] == b'$' {
                let name = String::from_utf8_lossy(&self.0.out[name]).into_owned();
                self.0.out.truncate(start);
                let fields = WithFirstName { name: Some(name), fields };
                let value = Bson::deserialize(MapAccessDeserializer::new(fields))?;
                return self.0.value(value).map_err(A::Error::custom);
            }
            self.0.names.push(name);
            let kind = fields.next_value_seed(ValueSeed(self.0))?;
            self.0.out[at] = kind as u8;
        }
        if let Some(name) = self.0.duplicate_field(first) {
            return Err(A::Error::custom(format_args!("the field {name:?} occurs twice")));
        }
        self.0.names.truncate(first);
        self.0.close(start);
        Ok(ElementType::EmbeddedDocument)
    }
}

/// Writes the name of a field.
struct NameSeed<'a>(&'a mut BsonWriter);

impl<'de> DeserializeSeed<'de> for NameSeed<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for NameSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<(), E> {
        if name.contains('\0') {
            return Err(E::custom("a field name contains a null character"));
        }
        self.0.out.extend(name.as_bytes());
        self.0.out.push(0);
        Ok(())
    }
}

/// Fields whose first name was read already.
struct WithFirstName<A> {
    name: Option<String>,
    fields: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithFirstName<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        match self.name.take() {
            Some(name) => seed.deserialize(name.into_deserializer()).map(Some),
            None => self.fields.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.fields.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use steadfast::bson::Document;

    use super::*;

    /// Parses by way of a tree of values, for comparison.
    fn parsed_as_tree(text: &str) -> Document {
        match serde_json::from_str::<Bson>(text).unwrap() {
            Bson::Document(document) => document,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn result_equals_that_of_a_tree_of_values() {
        for text in [
            "{}",
            r#"{"a": 1, "b": [], "c": {}, "d": [[1, {"x": null}], true, "é\n\u0000"], "": 2.5}"#,
            r#"{"i": 2147483647, "l": 2147483648, "m": -2147483649, "d": 1e300, "z": 0.0}"#,
            r#"{"o": {"$oid": "010101010101010101010101"}, "t": {"$timestamp": {"t": 1, "i": 2}}}"#,
            r#"{"d": {"$date": "2026-01-01T00:00:00Z"}, "e": {"$date": {"$numberLong": "-5"}}}"#,
            r#"{"i": {"$numberInt": "-5"}, "l": {"$numberLong": "5"}, "d": {"$numberDouble": "NaN"}}"#,
            r#"{"d": {"$numberDecimal": "1.50"}, "b": {"$binary": {"base64": "AQID", "subType": "00"}}}"#,
            r#"{"r": {"$regularExpression": {"pattern": "a", "options": "i"}}, "s": {"$symbol": "x"}}"#,
            r#"{"c": {"$code": "x"}, "w": {"$code": "x", "$scope": {"a": 1}}, "u": {"$undefined": true}}"#,
            r#"{"n": {"$minKey": 1}, "x": {"$maxKey": 1}, "r": {"$ref": "c", "$id": 5}, "f": {"$foo": 1}}"#,
            r#"{"u": {"$uuid": "c8edabc3-f738-4ca3-b68d-ab92a91478a3"}, "a": [{"$numberLong": "1"}]}"#,
        ] {
            let raw = document(text).expect(text);
            let read = Document::try_from(raw.clone()).expect(text);
            // NaN is not equal to itself.
            assert_eq!(format!("{read:?}"), format!("{:?}", parsed_as_tree(text)));
            let written = RawDocumentBuf::try_from(&read).unwrap();
            assert_eq!(raw.as_bytes(), written.as_bytes(), "{text}");
        }
    }

    #[test]
    fn negative_integers_get_the_shortest_type() {
        let read =
            Document::try_from(document("{\"a\": -1, \"b\": -3000000000}").unwrap()).unwrap();
        assert_eq!(read.get("a"), Some(&Bson::Int32(-1)));
        assert_eq!(read.get("b"), Some(&Bson::Int64(-3_000_000_000)));
    }

    #[test]
    fn ambiguous_documents_are_rejected() {
        for (text, said) in [
            ("{\"a\": 1, \"b\": 2, \"a\": 3}", "\"a\" occurs twice"),
            ("{\"x\": [{\"a\": 1, \"a\": 1}]}", "\"a\" occurs twice"),
            ("{\"a\\u0000b\": 1}", "null character"),
            ("{\"a\": 18446744073709551615}", "larger than a 64-bit integer"),
        ] {
            let error = document(text).expect_err(text);
            assert!(error.contains(said) && error.contains("not Extended JSON"), "{error}");
        }
        document("{\"a\": {\"a\": 1, \"b\": {\"a\": 1}}, \"b\": 1}")
            .expect("the fields belong to different documents");
        let deep = format!("{}1{}", "{\"a\": ".repeat(500), "}".repeat(500));
        assert!(document(&deep).unwrap_err().contains("recursion"), "nesting is limited");
    }
}
