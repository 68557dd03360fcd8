//! Documents as relaxed extended JSON, truncated for log messages.
//!
//! Serialization stops at the limit, so that a large document costs no more than its shown part.

use std::fmt::{self, Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use bson::{Bson, DateTime, Document};

/// Default limit of a document in a log message, in bytes.
const DEFAULT_MAX_BYTES: usize = 1000;
/// Last millisecond of the year 9999. Later dates have no text form.
const LAST_DATE_AS_TEXT: i64 = 253_402_300_799_999;

/// Returns the document, truncated after `max_bytes`, or before a character there.
pub(super) fn to_extended_json(document: &Document, max_bytes: Option<usize>) -> String {
    let mut output =
        TruncatedText { text: String::new(), max_bytes: max_bytes.unwrap_or(DEFAULT_MAX_BYTES) };
    if output.document(document).is_err() {
        output.text.push_str("...");
    }
    output.text
}

/// Text of limited size. Writing returns an error once the limit is exceeded.
struct TruncatedText {
    text: String,
    max_bytes: usize,
}

impl Write for TruncatedText {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let left = self.left();
        if piece.len() <= left {
            self.text.push_str(piece);
            return Ok(());
        }
        let end = (0..=left).rev().find(|&end| piece.is_char_boundary(end)).unwrap_or(0);
        self.text.push_str(&piece[..end]);
        self.max_bytes = self.text.len();
        Err(fmt::Error)
    }
}

impl TruncatedText {
    fn left(&self) -> usize {
        self.max_bytes.saturating_sub(self.text.len())
    }

    fn document(&mut self, document: &Document) -> fmt::Result {
        self.write_str("{")?;
        for (position, (key, value)) in document.iter().enumerate() {
            self.separator(position)?;
            self.string(key)?;
            self.write_str(": ")?;
            self.value(value)?;
        }
        self.write_str("}")
    }

    fn array(&mut self, values: &[Bson]) -> fmt::Result {
        self.write_str("[")?;
        for (position, value) in values.iter().enumerate() {
            self.separator(position)?;
            self.value(value)?;
        }
        self.write_str("]")
    }

    fn separator(&mut self, position: usize) -> fmt::Result {
        self.write_str(if position > 0 { ", " } else { "" })
    }

    fn value(&mut self, value: &Bson) -> fmt::Result {
        match value {
            Bson::Double(number) => self.double(*number),
            Bson::String(text) => self.string(text),
            Bson::Array(values) => self.array(values),
            Bson::Document(document) => self.document(document),
            Bson::Boolean(value) => write!(self, "{value}"),
            Bson::Null => self.write_str("null"),
            Bson::RegularExpression(regex) => {
                self.write_str("{\"$regularExpression\": {\"pattern\": ")?;
                self.string(regex.pattern.as_str())?;
                self.write_str(", \"options\": ")?;
                self.string(regex.options.as_str())?;
                self.write_str("}}")
            }
            Bson::JavaScriptCode(code) => self.wrapped("$code", code),
            Bson::JavaScriptCodeWithScope(scoped) => {
                self.write_str("{\"$code\": ")?;
                self.string(&scoped.code)?;
                self.write_str(", \"$scope\": ")?;
                self.document(&scoped.scope)?;
                self.write_str("}")
            }
            Bson::Int32(number) => write!(self, "{number}"),
            Bson::Int64(number) => write!(self, "{number}"),
            Bson::Timestamp(time) => {
                let (t, i) = (time.time, time.increment);
                write!(self, "{{\"$timestamp\": {{\"t\": {t}, \"i\": {i}}}}}")
            }
            Bson::Binary(binary) => self.binary(&binary.bytes, binary.subtype.into()),
            Bson::ObjectId(id) => self.wrapped("$oid", &id.to_hex()),
            Bson::DateTime(time) => self.date(*time),
            Bson::Symbol(text) => self.wrapped("$symbol", text),
            Bson::Decimal128(number) => self.wrapped("$numberDecimal", &number.to_string()),
            Bson::Undefined => self.write_str("{\"$undefined\": true}"),
            Bson::MaxKey => self.write_str("{\"$maxKey\": 1}"),
            Bson::MinKey => self.write_str("{\"$minKey\": 1}"),
            // The bson crate has no accessors for this deprecated type.
            Bson::DbPointer(_) => self.wrapped("$dbPointer", &value.to_string()),
        }
    }

    /// Writes a document of one field, whose key is the type of the text.
    fn wrapped(&mut self, kind: &str, text: &str) -> fmt::Result {
        write!(self, "{{\"{kind}\": ")?;
        self.string(text)?;
        self.write_str("}")
    }

    fn double(&mut self, number: f64) -> fmt::Result {
        if number.is_finite() {
            return write!(self, "{number:?}");
        }
        let name = match number {
            _ if number.is_nan() => "NaN",
            _ if number > 0.0 => "Infinity",
            _ => "-Infinity",
        };
        self.wrapped("$numberDouble", name)
    }

    fn date(&mut self, time: DateTime) -> fmt::Result {
        let millis = time.timestamp_millis();
        match time.try_to_rfc3339_string() {
            Ok(text) if (0..=LAST_DATE_AS_TEXT).contains(&millis) => self.wrapped("$date", &text),
            _ => write!(self, "{{\"$date\": {{\"$numberLong\": \"{millis}\"}}}}"),
        }
    }

    fn binary(&mut self, bytes: &[u8], subtype: u8) -> fmt::Result {
        self.write_str("{\"$binary\": {\"base64\": \"")?;
        // Slightly more than fits, in groups of three bytes, so that the text is truncated.
        let enough = self.left() / 4 * 3 + 3;
        let encoded = STANDARD.encode(&bytes[..bytes.len().min(enough)]);
        write!(self, "{encoded}\", \"subType\": \"{subtype:02x}\"}}}}")
    }

    fn string(&mut self, text: &str) -> fmt::Result {
        self.write_str("\"")?;
        let mut plain_from = 0;
        let special = |c: char| c == '"' || c == '\\' || c.is_ascii_control();
        for (at, found) in text.match_indices(special) {
            self.write_str(&text[plain_from..at])?;
            plain_from = at + found.len();
            match found {
                "\"" => self.write_str("\\\"")?,
                "\\" => self.write_str("\\\\")?,
                "\n" => self.write_str("\\n")?,
                "\r" => self.write_str("\\r")?,
                "\t" => self.write_str("\\t")?,
                other => write!(self, "\\u{:04x}", other.as_bytes()[0])?,
            }
        }
        self.write_str(&text[plain_from..])?;
        self.write_str("\"")
    }
}

#[cfg(test)]
mod tests {
    use bson::{Binary, Regex, Timestamp, doc, oid::ObjectId, raw::cstr, spec::BinarySubtype};

    use super::*;

    fn whole(document: &Document) -> String {
        to_extended_json(document, Some(usize::MAX))
    }

    #[test]
    fn every_type_is_formatted_as_relaxed_extended_json() {
        let id = ObjectId::from_bytes([7; 12]);
        let binary = Binary { subtype: BinarySubtype::Uuid, bytes: vec![1, 2, 3, 4] };
        let regex = Regex { pattern: cstr!("^a\"").to_owned(), options: cstr!("i").to_owned() };
        for (value, text) in [
            (Bson::Int32(-1), "-1"),
            (Bson::Int64(1 << 40), "1099511627776"),
            (Bson::Double(1.0), "1.0"),
            (Bson::Double(-2.5e300), "-2.5e300"),
            (Bson::Double(f64::NAN), r#"{"$numberDouble": "NaN"}"#),
            (Bson::Double(f64::NEG_INFINITY), r#"{"$numberDouble": "-Infinity"}"#),
            (Bson::Boolean(true), "true"),
            (Bson::Null, "null"),
            (Bson::String("a\"\\\n\u{1}é".to_owned()), r#""a\"\\\n\u0001é""#),
            (Bson::Array(vec![Bson::Int32(1), Bson::Null]), "[1, null]"),
            (Bson::Document(doc! {}), "{}"),
            (Bson::ObjectId(id), r#"{"$oid": "070707070707070707070707"}"#),
            (Bson::DateTime(DateTime::from_millis(1500)), r#"{"$date": "1970-01-01T00:00:01.5Z"}"#),
            (Bson::DateTime(DateTime::from_millis(-1)), r#"{"$date": {"$numberLong": "-1"}}"#),
            (Bson::DateTime(DateTime::MAX), r#"{"$date": {"$numberLong": "9223372036854775807"}}"#),
            (Bson::Binary(binary), r#"{"$binary": {"base64": "AQIDBA==", "subType": "04"}}"#),
            (
                Bson::RegularExpression(regex),
                r#"{"$regularExpression": {"pattern": "^a\"", "options": "i"}}"#,
            ),
            (
                Bson::Timestamp(Timestamp { time: 5, increment: 6 }),
                r#"{"$timestamp": {"t": 5, "i": 6}}"#,
            ),
            (Bson::MinKey, r#"{"$minKey": 1}"#),
            (Bson::MaxKey, r#"{"$maxKey": 1}"#),
            (Bson::Undefined, r#"{"$undefined": true}"#),
            (Bson::Symbol("s".to_owned()), r#"{"$symbol": "s"}"#),
            (Bson::JavaScriptCode("f()".to_owned()), r#"{"$code": "f()"}"#),
        ] {
            assert_eq!(
                whole(&doc! { "x": value.clone() }),
                format!("{{\"x\": {text}}}"),
                "{value:?}"
            );
        }
    }

    #[test]
    fn long_document_is_truncated_before_the_ellipsis() {
        let document = doc! { "x": "a".repeat(5000) };
        let text = to_extended_json(&document, None);
        assert_eq!(text.len(), 1003);
        assert!(text.ends_with("a..."));
        assert_eq!(to_extended_json(&document, Some(5)), "{\"x\":...");
        assert_eq!(to_extended_json(&document, Some(0)), "...");
        assert_eq!(to_extended_json(&doc! { "x": 1 }, Some(8)), "{\"x\": 1}");
        assert_eq!(to_extended_json(&doc! { "x": 1 }, Some(7)), "{\"x\": 1...");
    }

    #[test]
    fn document_is_truncated_at_a_character_boundary() {
        let document = doc! { "x": "🤔".repeat(50) };
        let whole = whole(&document);
        for max_bytes in 0..whole.len() {
            let text = to_extended_json(&document, Some(max_bytes));
            let kept = text.strip_suffix("...").unwrap();
            assert!(whole.starts_with(kept));
            assert!(kept.len() <= max_bytes && max_bytes < kept.len() + 4);
        }
    }

    #[test]
    fn long_binary_data_is_truncated() {
        let bytes = vec![0; 1 << 20];
        let document = doc! { "x": Binary { subtype: BinarySubtype::Generic, bytes } };
        for max_bytes in [40, 41, 42, 43, 1000] {
            let text = to_extended_json(&document, Some(max_bytes));
            assert_eq!(text.len(), max_bytes + 3);
            assert!(text.ends_with("AAA..."));
        }
    }
}
