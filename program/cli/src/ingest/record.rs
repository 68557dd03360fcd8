//! A record as a document with its key, or the reason why it is none.

use steadfast::bson::{RawBson, RawDocument, RawDocumentBuf, cstr, raw::CString};

use super::{csv, json, source::Format};

/// What a server takes.
const LARGEST: usize = 16 << 20;

/// How records become documents.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) is_typed: bool,
    /// The field that the key is taken from.
    pub(super) id: Option<String>,
    /// The field that the key is put into: `_id`, unless that is made elsewhere.
    pub(super) key_field: Option<String>,
}

/// Where a record is from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    pub(super) source: &'a str,
    pub(super) format: Format,
    /// The names of the fields, of CSV.
    pub(super) header: &'a [String],
    pub(super) offset: u64,
}

impl Shape {
    /// The document that is written for a record; none if the record is empty.
    pub(super) fn document(
        &self,
        record: &[u8],
        origin: Origin<'_>,
    ) -> Result<Option<RawDocumentBuf>, String> {
        let text = std::str::from_utf8(record)
            .map_err(|error| format!("it is not UTF-8 from byte {} on", error.valid_up_to()))?;
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
            return Err(format!("as a document it has {size} bytes, and a server takes {LARGEST}"));
        }
        Ok(Some(document))
    }

    /// The document with its key: in front if it is the `_id`.
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
                    .ok_or_else(|| format!("it has no field {field:?} to take _id from"))?;
                if own.is_some_and(|own| own != key) {
                    return Err(format!("it has an _id that is not its {field:?}"));
                }
                RawBson::from(key)
            }
        };
        let Some(key_field) = &self.key_field else {
            let is_in_front =
                matches!(document.iter().next(), Some(Ok((name, _))) if name == "_id");
            return match own {
                Some(_) if is_in_front => Ok(document),
                Some(_) => before(key, &without_id(&document)?),
                None => before(key, &document),
            };
        };
        let other = of(key_field)?.map(RawBson::from);
        if other.as_ref().is_some_and(|other| *other != key) {
            return Err(format!("it has a field {key_field:?}; choose another with --key-field"));
        }
        let mut document = without_id(&document)?;
        if other.is_none() {
            let name = CString::try_from(key_field.as_str()).map_err(|error| error.to_string())?;
            document.append(name, key);
        }
        Ok(document)
    }
}

/// The document with the key before all else. It has no `_id`.
fn before(key: RawBson, document: &RawDocument) -> Result<RawDocumentBuf, String> {
    let mut keyed = RawDocumentBuf::new();
    keyed.append(cstr!("_id"), key);
    let mut bytes = keyed.into_bytes();
    // What follows has a null byte in the end, too, and begins with its length.
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

/// The key of a record that has none: where it is. Digits are padded, so that keys come in the order of the
/// records, and an index grows at its end.
pub(super) fn derived(source: &str, offset: u64) -> String {
    format!("{source}:{offset:012}")
}

/// Some programs begin a file with a byte order mark.
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
    fn both_kinds_of_extended_json_are_read_and_fields_keep_their_order() {
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
    fn a_key_is_the_records_own_or_its_field_or_its_place() {
        assert_eq!(document(&SHAPE, "{\"a\": 1}"), Ok(doc! { "_id": "s:000000000007", "a": 1 }));
        let by_field = Shape { id: Some("a".to_owned()), ..SHAPE };
        assert_eq!(document(&by_field, "{\"a\": 1}"), Ok(doc! { "_id": 1, "a": 1 }));
        assert!(document(&by_field, "{\"b\": 1}").unwrap_err().contains("no field \"a\""));
        assert!(
            document(&by_field, "{\"_id\": 2, \"a\": 1}").unwrap_err().contains("not its \"a\"")
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
    fn keys_come_in_the_order_of_records() {
        assert!(derived("s", 99) < derived("s", 100));
        assert!(derived("s", 999_999) < derived("s", 5_000_000_000));
    }

    #[test]
    fn what_is_no_document_is_told() {
        for (record, said) in [
            ("{\"a\": }", "not JSON"),
            ("{\"a\": 1} x", "not JSON"),
            ("[1]", "an array"),
            ("7", "a value"),
            ("{\"a\": {\"$oid\": \"x\"}}", "not Extended JSON"),
            ("{\"a\": 18446744073709551615}", "not Extended JSON"),
        ] {
            let error = document(&SHAPE, record).expect_err(record);
            assert!(error.contains(said), "{record}: {error}");
        }
        assert!(SHAPE.document(b"{\"a\": \"\xff\"}", ORIGIN).unwrap_err().contains("not UTF-8"));
        assert!(SHAPE.document(b" \t", ORIGIN).unwrap().is_none());
        let large = format!("{{\"a\": \"{}\"}}", "x".repeat(LARGEST));
        assert!(document(&SHAPE, &large).unwrap_err().contains("a server takes"));
    }

    #[test]
    fn a_mark_before_the_first_record_is_no_part_of_it() {
        let first = Origin { offset: 0, ..ORIGIN };
        assert!(SHAPE.document("\u{feff}{}".as_bytes(), first).unwrap().is_some());
        assert!(SHAPE.document("\u{feff}{}".as_bytes(), ORIGIN).is_err());
    }
}
