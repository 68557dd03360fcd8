//! BSON values as MongoDB compares them and computes with them: comparison order across types,
//! exact numbers, and the text of values in error messages.
//!
//! The crate does no I/O, reads no clock and uses no randomness. Strings compare by a
//! [`StringOrder`]: [`BinaryOrder`], or that of a collation.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod arithmetic;
mod decimal;
mod format;
mod number;

use std::{borrow::Borrow, cmp::Ordering};

use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};

pub use arithmetic::{ArithmeticError, add, double_on_overflow, multiply, subtract};
pub use decimal::Decimal;
pub use format::{format_document, format_value};
pub use number::{Number, compare_numbers};

/// Comparison of strings. A collation implements it.
pub trait StringOrder {
    /// Compares two strings.
    fn compare(&self, left: &str, right: &str) -> Ordering;
}

/// Simple binary comparison of strings, used without a collation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BinaryOrder;

impl StringOrder for BinaryOrder {
    fn compare(&self, left: &str, right: &str) -> Ordering {
        left.cmp(right)
    }
}

/// Compares two values in the order of sorts and indexes: by type, then by value.
///
/// ```
/// use bson::bson;
/// use steadfast_value::{BinaryOrder, compare};
///
/// assert!(compare(&bson!(1), &bson!(1.0), &BinaryOrder).is_eq());
/// assert!(compare(&bson!(1_000), &bson!("1"), &BinaryOrder).is_lt());
/// ```
pub fn compare<S: StringOrder>(left: &Bson, right: &Bson, strings: &S) -> Ordering {
    type_order(left).cmp(&type_order(right)).then_with(|| compare_alike(left, right, strings))
}

/// Compares two documents field by field: type, name, value. A prefix is less.
pub fn compare_documents<S: StringOrder>(
    left: &Document,
    right: &Document,
    strings: &S,
) -> Ordering {
    let mut others = right.iter();
    for (name, value) in left {
        let Some((other_name, other)) = others.next() else { return Ordering::Greater };
        let order = type_order(value)
            .cmp(&type_order(other))
            .then_with(|| name.cmp(other_name))
            .then_with(|| compare_alike(value, other, strings));
        if order.is_ne() {
            return order;
        }
    }
    if others.next().is_some() { Ordering::Less } else { Ordering::Equal }
}

/// Compares two arrays element by element. A prefix is less.
pub fn compare_arrays<S: StringOrder>(left: &[Bson], right: &[Bson], strings: &S) -> Ordering {
    left.iter()
        .zip(right)
        .map(|(left, right)| compare(left, right, strings))
        .find(|order| order.is_ne())
        .unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// Returns the position of a value's type in the comparison order. Types of one position compare by
/// value, such as all numbers.
pub fn type_order(value: &Bson) -> u8 {
    match value {
        Bson::MinKey => 0,
        Bson::Undefined => 1,
        Bson::Null => 5,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => 10,
        Bson::String(_) | Bson::Symbol(_) => 15,
        Bson::Document(_) => 20,
        Bson::Array(_) => 25,
        Bson::Binary(_) => 30,
        Bson::ObjectId(_) => 35,
        Bson::Boolean(_) => 40,
        Bson::DateTime(_) => 45,
        Bson::Timestamp(_) => 47,
        Bson::RegularExpression(_) => 50,
        Bson::DbPointer(_) => 55,
        Bson::JavaScriptCode(_) => 60,
        Bson::JavaScriptCodeWithScope(_) => 65,
        Bson::MaxKey => 127,
    }
}

/// Compares two values of types with the same position.
fn compare_alike<S: StringOrder>(left: &Bson, right: &Bson, strings: &S) -> Ordering {
    match (left, right) {
        (Bson::Int32(left), Bson::Int32(right)) => left.cmp(right),
        (Bson::String(left) | Bson::Symbol(left), Bson::String(right) | Bson::Symbol(right)) => {
            strings.compare(left, right)
        }
        (Bson::Document(left), Bson::Document(right)) => compare_documents(left, right, strings),
        (Bson::Array(left), Bson::Array(right)) => compare_arrays(left, right, strings),
        (Bson::Binary(left), Bson::Binary(right)) => compare_binaries(left, right),
        (Bson::ObjectId(left), Bson::ObjectId(right)) => left.bytes().cmp(&right.bytes()),
        (Bson::Boolean(left), Bson::Boolean(right)) => left.cmp(right),
        (Bson::DateTime(left), Bson::DateTime(right)) => left.cmp(right),
        (Bson::Timestamp(left), Bson::Timestamp(right)) => {
            (left.time, left.increment).cmp(&(right.time, right.increment))
        }
        (Bson::RegularExpression(left), Bson::RegularExpression(right)) => {
            (left.pattern.as_str(), left.options.as_str())
                .cmp(&(right.pattern.as_str(), right.options.as_str()))
        }
        (Bson::DbPointer(_), Bson::DbPointer(_)) => {
            // The parts of a DBPointer are not public. Servers compare the stored bytes, too; the
            // longer one is greater.
            let bytes =
                |it: &Bson| bson::document_to_vec(&doc! { "": it.clone() }).unwrap_or_default();
            let (left, right) = (bytes(left), bytes(right));
            left.len().cmp(&right.len()).then_with(|| left.cmp(&right))
        }
        (Bson::JavaScriptCode(left), Bson::JavaScriptCode(right)) => left.cmp(right),
        (Bson::JavaScriptCodeWithScope(left), Bson::JavaScriptCodeWithScope(right)) => left
            .code
            .cmp(&right.code)
            .then_with(|| compare_documents(&left.scope, &right.scope, &BinaryOrder)),
        // MinKey, MaxKey, null and undefined equal themselves.
        _ => compare_numbers(left, right).unwrap_or(Ordering::Equal),
    }
}

/// Compares by length, then by subtype, then by bytes.
fn compare_binaries(left: &Binary, right: &Binary) -> Ordering {
    // The old binary subtype stores its length a second time.
    let length =
        |it: &Binary| it.bytes.len() + if it.subtype == BinarySubtype::BinaryOld { 4 } else { 0 };
    length(left)
        .cmp(&length(right))
        .then_with(|| u8::from(left.subtype).cmp(&u8::from(right.subtype)))
        .then_with(|| left.bytes.cmp(&right.bytes))
}

/// A value with the order of [`compare`] and binary string comparison; a key of sorted maps.
#[derive(Clone, Debug)]
pub struct OrderedValue(pub Bson);

impl Ord for OrderedValue {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0, &BinaryOrder)
    }
}

impl PartialOrd for OrderedValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedValue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedValue {}

impl From<Bson> for OrderedValue {
    fn from(value: Bson) -> Self {
        Self(value)
    }
}

impl Borrow<Bson> for OrderedValue {
    fn borrow(&self) -> &Bson {
        &self.0
    }
}

/// Returns `true` if two values are equal in a filter: `1` equals `1.0`.
pub fn equal(left: &Bson, right: &Bson) -> bool {
    compare(left, right, &BinaryOrder).is_eq()
}

/// Returns `true` for int, long, double and decimal.
pub fn is_number(value: &Bson) -> bool {
    matches!(value, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_))
}

/// Returns `true` for null and undefined. Most operators treat undefined as null.
pub fn is_nullish(value: &Bson) -> bool {
    matches!(value, Bson::Null | Bson::Undefined)
}

/// Converts a value to a boolean, as `$and` and `$cond` do. Null, undefined, `false` and zeros are
/// false; all others are true.
pub fn is_truthy(value: &Bson) -> bool {
    match value {
        Bson::Null | Bson::Undefined | Bson::Boolean(false) => false,
        Bson::Int32(number) => *number != 0,
        Bson::Int64(number) => *number != 0,
        Bson::Double(number) => *number != 0.0,
        Bson::Decimal128(number) => !Decimal::from(*number).is_zero(),
        Bson::Boolean(true)
        | Bson::String(_)
        | Bson::Array(_)
        | Bson::Document(_)
        | Bson::RegularExpression(_)
        | Bson::JavaScriptCode(_)
        | Bson::JavaScriptCodeWithScope(_)
        | Bson::Timestamp(_)
        | Bson::Binary(_)
        | Bson::ObjectId(_)
        | Bson::DateTime(_)
        | Bson::Symbol(_)
        | Bson::MaxKey
        | Bson::MinKey
        | Bson::DbPointer(_) => true,
    }
}

/// Returns the alias of a value's type, as `$type` and error messages use it.
pub fn type_name(value: &Bson) -> &'static str {
    match value {
        Bson::Double(_) => "double",
        Bson::String(_) => "string",
        Bson::Document(_) => "object",
        Bson::Array(_) => "array",
        Bson::Binary(_) => "binData",
        Bson::Undefined => "undefined",
        Bson::ObjectId(_) => "objectId",
        Bson::Boolean(_) => "bool",
        Bson::DateTime(_) => "date",
        Bson::Null => "null",
        Bson::RegularExpression(_) => "regex",
        Bson::DbPointer(_) => "dbPointer",
        Bson::JavaScriptCode(_) => "javascript",
        Bson::Symbol(_) => "symbol",
        Bson::JavaScriptCodeWithScope(_) => "javascriptWithScope",
        Bson::Int32(_) => "int",
        Bson::Timestamp(_) => "timestamp",
        Bson::Int64(_) => "long",
        Bson::Decimal128(_) => "decimal",
        Bson::MinKey => "minKey",
        Bson::MaxKey => "maxKey",
    }
}

/// Returns the number of a value's type, as `$type` uses it. MinKey is -1.
pub fn type_number(value: &Bson) -> i32 {
    match value {
        Bson::MinKey => -1,
        other => i32::from(other.element_type() as u8),
    }
}

#[cfg(test)]
mod tests;
