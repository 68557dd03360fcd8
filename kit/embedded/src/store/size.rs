//! Size of a document in bytes, computed without encoding it.

use bson::{Bson, Document};

/// Size of a document in bytes.
pub(crate) fn size_of_document(document: &Document) -> usize {
    5 + document.iter().map(|(name, value)| 2 + name.len() + size_of(value)).sum::<usize>()
}

fn size_of(value: &Bson) -> usize {
    match value {
        Bson::Double(_) | Bson::Int64(_) | Bson::DateTime(_) | Bson::Timestamp(_) => 8,
        Bson::Int32(_) => 4,
        Bson::Boolean(_) => 1,
        Bson::Null | Bson::Undefined | Bson::MinKey | Bson::MaxKey => 0,
        Bson::ObjectId(_) => 12,
        Bson::Decimal128(_) => 16,
        Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text) => 5 + text.len(),
        Bson::JavaScriptCodeWithScope(code) => 9 + code.code.len() + size_of_document(&code.scope),
        Bson::RegularExpression(regex) => {
            2 + regex.pattern.as_str().len() + regex.options.as_str().len()
        }
        Bson::Binary(binary) => {
            let length_again =
                if binary.subtype == bson::spec::BinarySubtype::BinaryOld { 4 } else { 0 };
            5 + length_again + binary.bytes.len()
        }
        Bson::Document(document) => size_of_document(document),
        Bson::Array(elements) => {
            5 + elements
                .iter()
                .enumerate()
                .map(|(at, element)| 2 + digits(at) + size_of(element))
                .sum::<usize>()
        }
        // Its parts are not public. Encoded in a document, it adds five bytes of framing and an
        // empty name.
        Bson::DbPointer(_) => bson::document_to_vec(&bson::doc! { "": value.clone() })
            .map_or(0, |bytes| bytes.len() - 7),
    }
}

/// Length of an array index, which is the field name of the element.
fn digits(number: usize) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}
