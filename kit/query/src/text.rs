//! Text of stored values in error messages. Like [`format_value`](crate::value), with long values
//! truncated.

use std::borrow::Cow;

use bson::{Binary, Bson, Document};

use crate::value::format_value;

/// Strings with more bytes are truncated.
const LONG_STRING: usize = 159;

/// Bytes of a truncated string.
const CUT_STRING: usize = 150;

/// Binaries with more bytes are truncated.
const LONG_BINARY: usize = 80;

/// Bytes of a truncated binary.
const CUT_BINARY: usize = 70;

/// Formats a document: `{ a: 1, b: "x" }`.
pub(crate) fn document(document: &Document) -> String {
    let mut text = String::new();
    write_document(document, &mut text);
    text
}

/// Formats a field: `a: 1`.
pub(crate) fn field(name: &str, value: &Bson) -> String {
    let mut text = format!("{name}: ");
    write_value(value, &mut text);
    text
}

/// Formats a value: `1`, `"x"`, `new Date(0)`.
pub(crate) fn value(value: &Bson) -> String {
    let mut text = String::new();
    write_value(value, &mut text);
    text
}

fn write_document(document: &Document, text: &mut String) {
    let fields = document.iter().map(|(name, value)| (Some(name.as_str()), value));
    write_fields(fields, "{", "}", text);
}

fn write_fields<'v>(
    fields: impl Iterator<Item = (Option<&'v str>, &'v Bson)>,
    open: &str,
    close: &str,
    text: &mut String,
) {
    text.push_str(open);
    let mut separator = " ";
    for (name, value) in fields {
        text.push_str(separator);
        if let Some(name) = name {
            text.push_str(name);
            text.push_str(": ");
        }
        write_value(value, text);
        separator = ", ";
    }
    if separator == ", " {
        text.push(' ');
    }
    text.push_str(close);
}

fn write_value(value: &Bson, text: &mut String) {
    match value {
        Bson::Array(elements) => {
            write_fields(elements.iter().map(|it| (None, it)), "[", "]", text);
        }
        Bson::Document(document) => write_document(document, text),
        Bson::String(string) | Bson::Symbol(string) => {
            text.push('"');
            text.push_str(&cut(string));
            text.push('"');
        }
        Bson::JavaScriptCode(code) => text.push_str(&cut(code)),
        Bson::Binary(binary) if binary.bytes.len() > LONG_BINARY => {
            let bytes = binary.bytes[..CUT_BINARY].to_vec();
            let shown = format_value(&Bson::Binary(Binary { subtype: binary.subtype, bytes }));
            text.push_str(shown.trim_end_matches(')'));
            text.push_str("...)");
        }
        other => text.push_str(&format_value(other)),
    }
}

fn cut(string: &str) -> Cow<'_, str> {
    if string.len() <= LONG_STRING {
        return string.into();
    }
    let end = (0..=CUT_STRING).rev().find(|end| string.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &string[..end]).into()
}

/// Formats the `_id` of a document: `{_id: 1}`.
pub(crate) fn id(document: &Document) -> String {
    match document.get("_id") {
        Some(id) => format!("{{{}}}", field("_id", id)),
        None => "{no id}".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use bson::{doc, spec::BinarySubtype};

    use super::*;

    #[test]
    fn values_format_like_server_messages() {
        let cases: [(Bson, &str); 17] = [
            (Bson::Int64(5), "5"),
            (Bson::Double(5.0), "5.0"),
            (Bson::Double(-0.0), "-0.0"),
            (Bson::Double(0.1), "0.1"),
            (Bson::Double(123_456_789.125), "123456789.125"),
            (Bson::Double(1e16), "1e+16.0"),
            (Bson::Double(1e-7), "1e-07.0"),
            (Bson::Double(1e300), "1e+300.0"),
            (Bson::Double(f64::NAN), "nan.0"),
            (Bson::Double(f64::INFINITY), "inf.0"),
            ("a\"b".into(), "\"a\"b\""),
            (Bson::Null, "null"),
            (doc! {}.into(), "{}"),
            (doc! { "a": 1, "b": { "c": [1, [2]] } }.into(), "{ a: 1, b: { c: [ 1, [ 2 ] ] } }"),
            (Bson::DateTime(bson::DateTime::from_millis(-5)), "new Date(-5)"),
            (Bson::Timestamp(bson::Timestamp { time: 5, increment: 6 }), "Timestamp(5, 6)"),
            (
                Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: vec![0x61, 0xff] }),
                "BinData(0, 61FF)",
            ),
        ];
        for (value, expected) in cases {
            assert_eq!(self::value(&value), expected);
        }
    }

    #[test]
    fn long_strings_are_truncated_between_characters() {
        assert_eq!(value(&"y".repeat(200).into()), format!("\"{}...\"", "y".repeat(150)));
        let text = value(&"\u{20ac}".repeat(100).into());
        assert_eq!(text, format!("\"{}...\"", "\u{20ac}".repeat(50)));
    }
}
