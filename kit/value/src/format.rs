//! Text of values in error messages.

use std::fmt::Write;

use bson::{Binary, Bson, Document, Uuid, spec::BinarySubtype};

/// Formats a value as error messages of servers do: `"text"`, `{ a: 1 }`, `[ 1, 2 ]`, `1.0`.
pub fn format_value(value: &Bson) -> String {
    let mut text = String::new();
    write_value(&mut text, value);
    text
}

/// Formats a document as error messages of servers do: `{ a: 1, b: "x" }`.
pub fn format_document(document: &Document) -> String {
    let mut text = String::new();
    write_document(&mut text, document);
    text
}

fn write_value(text: &mut String, value: &Bson) {
    // Writing to a string cannot fail.
    let _ = match value {
        Bson::Double(number) => write!(text, "{}", format_double(*number)),
        Bson::String(string) | Bson::Symbol(string) => write!(text, "\"{string}\""),
        Bson::Array(elements) => return write_array(text, elements),
        Bson::Document(document) => return write_document(text, document),
        Bson::Boolean(value) => write!(text, "{value}"),
        Bson::Null => write!(text, "null"),
        Bson::RegularExpression(regex) => {
            write!(text, "/{}/{}", regex.pattern.as_str(), regex.options.as_str())
        }
        Bson::JavaScriptCode(code) => write!(text, "{code}"),
        Bson::JavaScriptCodeWithScope(code) => {
            write!(text, "CodeWScope( {}, {})", code.code, format_document(&code.scope))
        }
        Bson::Int32(number) => write!(text, "{number}"),
        Bson::Int64(number) => write!(text, "{number}"),
        Bson::Timestamp(time) => write!(text, "Timestamp({}, {})", time.time, time.increment),
        Bson::Binary(binary) => return write_binary(text, binary),
        Bson::ObjectId(id) => write!(text, "ObjectId('{id}')"),
        Bson::DateTime(date) => write!(text, "new Date({})", date.timestamp_millis()),
        Bson::Decimal128(number) => write!(text, "{number}"),
        Bson::Undefined => write!(text, "undefined"),
        Bson::MaxKey => write!(text, "MaxKey"),
        Bson::MinKey => write!(text, "MinKey"),
        Bson::DbPointer(pointer) => write!(text, "{pointer:?}"),
    };
}

fn write_binary(text: &mut String, binary: &Binary) {
    if let (BinarySubtype::Uuid, Ok(bytes)) = (binary.subtype, binary.bytes.as_slice().try_into()) {
        return text.push_str(&format!("UUID(\"{}\")", Uuid::from_bytes(bytes)));
    }
    text.push_str(&format!("BinData({}, ", u8::from(binary.subtype)));
    for byte in &binary.bytes {
        text.push_str(&format!("{byte:02X}"));
    }
    text.push(')');
}

fn write_array(text: &mut String, elements: &[Bson]) {
    if elements.is_empty() {
        return text.push_str("[]");
    }
    for (index, element) in elements.iter().enumerate() {
        text.push_str(if index == 0 { "[ " } else { ", " });
        write_value(text, element);
    }
    text.push_str(" ]");
}

fn write_document(text: &mut String, document: &Document) {
    if document.is_empty() {
        return text.push_str("{}");
    }
    for (index, (name, value)) in document.iter().enumerate() {
        text.push_str(if index == 0 { "{ " } else { ", " });
        text.push_str(name);
        text.push_str(": ");
        write_value(text, value);
    }
    text.push_str(" }");
}

/// Formats a double like `%.16g` in C and appends `.0` if there is no decimal point.
fn format_double(number: f64) -> String {
    if !number.is_finite() {
        let name = if number.is_nan() { "nan" } else { "inf" };
        return format!("{}{name}.0", if number < 0.0 { "-" } else { "" });
    }
    let scientific = format!("{number:.15e}");
    let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let mut text = if (-4..16).contains(&power) {
        let decimals = usize::try_from(15 - power).unwrap_or(0);
        trimmed(&format!("{number:.decimals$}")).to_owned()
    } else {
        let sign = if power < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trimmed(digits), power.abs())
    };
    if !text.contains('.') {
        text.push_str(".0");
    }
    text
}

fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}
