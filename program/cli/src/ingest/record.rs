//! Conversion of a record to a document with its key, or the reason of its rejection.

use steadfast::bson::{RawBson, RawDocument, RawDocumentBuf, cstr, raw::CString};

use super::{csv, json, source::Format};

/// Maximum size of a document in bytes.
const LARGEST: usize = 16 << 20;

/// Options for the conversion of records to documents.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) is_typed: bool,
    /// Field whose value is the key.
    pub(super) id: Option<String>,
    /// Field that gets the key; `None` for `_id`.
    pub(super) key_field: Option<String>,
}

/// Origin of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    pub(super) source: &'a str,
    pub(super) format: Format,
    /// Field names of CSV.
    pub(super) header: &'a [String],
    pub(super) offset: u64,
}

impl Shape {
    /// Returns the document of a record, or `None` for an empty record.
    pub(super) fn document(
        &self,
        record: &[u8],
        origin: Origin<'_>,
    ) -> Result<Option<RawDocumentBuf>, String> {
        let text = std::str::from_utf8(record)
            .map_err(|error| format!("not UTF-8 from byte {} on", error.valid_up_to()))?;
        let text = without_mark(text, origin.offset);
        if text.trim().is_empty() {
            return Ok(None);
        }
        let document = match origin.format {
            Format::Ndjson => json::document(text)?,
            Format::Csv => {
                let document = csv::document(origin.header, text, self.is_typed)?;
                RawDocumentBuf::try_from(&document).map_err(|error| error.to_string())?
            }
        };
        let document = self.keyed(document, origin)?;
        let size = document.as_bytes().len();
        if size > LARGEST {
            return Err(format!("the document has {size} bytes; the maximum is {LARGEST}"));
        }
        Ok(Some(document))
    }

    /// Returns the document with its key, as the first field if it is the `_id`.
    fn keyed(
        &self,
        document: RawDocumentBuf,
        origin: Origin<'_>,
    ) -> Result<RawDocumentBuf, String> {
        let of = |field: &str| document.get(field).map_err(|error| error.to_string());
        let own = of("_id")?;
        let key = match (&self.id, own) {
            (None, Some(own)) => RawBson::from(own),
            (None, None) => RawBson::String(derived(origin.source, origin.offset)),
            (Some(field), own) => {
                let key = of(field)?
                    .ok_or_else(|| format!("the field {field:?} for the _id is missing"))?;
                if own.is_some_and(|own| own != key) {
                    return Err(format!("its _id differs from its field {field:?}"));
                }
                RawBson::from(key)
            }
        };
        let Some(key_field) = &self.key_field else {
            let is_in_front =
                matches!(document.iter().next(), Some(Ok((name, _))) if name == "_id");
            return match own {
                Some(_) if is_in_front => Ok(document),
                Some(_) => with_id(key, &without_id(&document)?),
                None => with_id(key, &document),
            };
        };
        let other = of(key_field)?.map(RawBson::from);
        if other.as_ref().is_some_and(|other| *other != key) {
            return Err(format!(
                "the field {key_field:?} has another value; choose another field with --key-field"
            ));
        }
        let mut document = without_id(&document)?;
        if other.is_none() {
            let name = CString::try_from(key_field.as_str()).map_err(|error| error.to_string())?;
            document.append(name, key);
        }
        Ok(document)
    }
}

/// Returns a document without an `_id` with the key as its first field, `_id`.
fn with_id(key: RawBson, document: &RawDocument) -> Result<RawDocumentBuf, String> {
    let mut keyed = RawDocumentBuf::new();
    keyed.append(cstr!("_id"), key);
    let mut bytes = keyed.into_bytes();
    // The fields follow, with their own null byte at the end.
    bytes.pop();
    bytes.extend(&document.as_bytes()[4..]);
    let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    RawDocumentBuf::from_bytes(bytes).map_err(|error| error.to_string())
}

fn without_id(document: &RawDocument) -> Result<RawDocumentBuf, String> {
    let mut rest = RawDocumentBuf::new();
    for field in document.iter() {
        let (name, value) = field.map_err(|error| error.to_string())?;
        if name != "_id" {
            rest.append(name, value);
        }
    }
    Ok(rest)
}

/// Returns the key of a record without one: its source and offset. With padded digits, keys sort in the order of the
/// records, and an index grows at its end.
pub(super) fn derived(source: &str, offset: u64) -> String {
    format!("{source}:{offset:012}")
}

/// Removes the byte order mark at the beginning of a file.
pub(super) fn without_mark(text: &str, offset: u64) -> &str {
    if offset == 0 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text }
}

#[cfg(test)]
mod tests {
    use steadfast::bson::{DateTime, Document, doc, oid::ObjectId};

    use super::*;

    const SHAPE: Shape = Shape { is_typed: false, id: None, key_field: None };

    const ORIGIN: Origin<'static> =
        Origin { source: "s", format: Format::Ndjson, header: &[], offset: 7 };

    fn document(shape: &Shape, record: &str) -> Result<Document, String> {
        let raw = shape.document(record.as_bytes(), ORIGIN)?.expect("it is not empty");
        Ok(Document::try_from(raw).unwrap())
    }

    #[test]
    fn both_formats_of_extended_json_are_read_in_field_order() {
        let id = ObjectId::from_bytes([1; 12]);
        let expected = doc! {
            "_id": id, "z": 5_i64, "b": DateTime::from_millis(1), "a": [1, 2.5, true, null],
            "l": 5_000_000_000_i64,
        };
        for record in [
            r#"{"z": {"$numberLong": "5"}, "b": {"$date": {"$numberLong": "1"}}, "a": [{"$numberInt": "1"},
                {"$numberDouble": "2.5"}, true, null], "l": {"$numberLong": "5000000000"},
                "_id": {"$oid": "010101010101010101010101"}}"#,
            r#"{"z": {"$numberLong": "5"}, "b": {"$date": "1970-01-01T00:00:00.001Z"},
                "a": [1, 2.5, true, null], "l": 5000000000, "_id": {"$oid": "010101010101010101010101"}}"#,
        ] {
            let read = document(&SHAPE, record).unwrap();
            assert_eq!(read, expected);
            let order: Vec<_> = read.keys().collect();
            assert_eq!(order, ["_id", "z", "b", "a", "l"]);
        }
    }

    #[test]
    fn key_is_the_id_the_field_or_the_position() {
        assert_eq!(document(&SHAPE, "{\"a\": 1}"), Ok(doc! { "_id": "s:000000000007", "a": 1 }));
        let by_field = Shape { id: Some("a".to_owned()), ..SHAPE };
        assert_eq!(document(&by_field, "{\"a\": 1}"), Ok(doc! { "_id": 1, "a": 1 }));
        assert!(
            document(&by_field, "{\"b\": 1}")
                .unwrap_err()
                .contains("field \"a\" for the _id is missing")
        );
        assert!(
            document(&by_field, "{\"_id\": 2, \"a\": 1}")
                .unwrap_err()
                .contains("differs from its field \"a\"")
        );
        let by_id = Shape { id: Some("_id".to_owned()), ..SHAPE };
        assert_eq!(document(&by_id, "{\"_id\": 2}"), Ok(doc! { "_id": 2 }));
        let elsewhere = Shape { key_field: Some("k".to_owned()), ..SHAPE };
        assert_eq!(document(&elsewhere, "{\"a\": 1}"), Ok(doc! { "a": 1, "k": "s:000000000007" }));
        assert_eq!(document(&elsewhere, "{\"_id\": 2}"), Ok(doc! { "k": 2 }));
        assert_eq!(document(&SHAPE, "{\"a\": 1, \"_id\": 2}"), Ok(doc! { "_id": 2, "a": 1 }));
        assert!(document(&elsewhere, "{\"k\": 2}").unwrap_err().contains("--key-field"));
    }

    #[test]
    fn keys_sort_in_the_order_of_records() {
        assert!(derived("s", 99) < derived("s", 100));
        assert!(derived("s", 999_999) < derived("s", 5_000_000_000));
    }

    #[test]
    fn other_values_are_rejected_with_the_reason() {
        for (record, part) in [
            ("{\"a\": }", "not JSON"),
            ("{\"a\": 1} x", "not JSON"),
            ("[1]", "an array"),
            ("7", "a value"),
            ("{\"a\": {\"$oid\": \"x\"}}", "not Extended JSON"),
            ("{\"a\": 18446744073709551615}", "not Extended JSON"),
        ] {
            let error = document(&SHAPE, record).expect_err(record);
            assert!(error.contains(part), "{record}: {error}");
        }
        assert!(SHAPE.document(b"{\"a\": \"\xff\"}", ORIGIN).unwrap_err().contains("not UTF-8"));
        assert!(SHAPE.document(b" \t", ORIGIN).unwrap().is_none());
        let large = format!("{{\"a\": \"{}\"}}", "x".repeat(LARGEST));
        assert!(document(&SHAPE, &large).unwrap_err().contains("the maximum is"));
    }

    #[test]
    fn byte_order_mark_is_removed() {
        let first = Origin { offset: 0, ..ORIGIN };
        assert!(SHAPE.document("\u{feff}{}".as_bytes(), first).unwrap().is_some());
        assert!(SHAPE.document("\u{feff}{}".as_bytes(), ORIGIN).is_err());
    }
}
