//! Rules for stored documents: `_id`, field names, depth, size.

use bson::{Bson, Document, Timestamp};

use crate::{
    Code, Environment, Fault,
    value::{self, type_name},
};

/// Maximum size of a document in bytes.
pub(crate) const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// Maximum nesting depth of a document.
const MAX_DEPTH: usize = 180;

/// Checks a document for an insert and returns it in stored form: `_id` first, generated if
/// missing, empty timestamps replaced.
///
/// # Errors
///
/// Fails if the document is too large or too deep, or its `_id` is invalid.
pub fn stored(document: Document, env: &Environment) -> Result<Document, Fault> {
    let size = size(&document);
    if size > MAX_DOCUMENT_BYTES {
        return Err(Fault::bad_value(format!(
            "object to insert too large. size in bytes: {size}, max size: {MAX_DOCUMENT_BYTES}"
        )));
    }
    if !document.values().all(|value| fits(value, MAX_DEPTH - 1)) {
        let message =
            format!("cannot insert document because it exceeds {MAX_DEPTH} levels of nesting");
        return Err(Fault::new(Code::OVERFLOW, message));
    }
    if let Some(id) = document.get("_id") {
        check_id(id)?;
    }
    Ok(with_id_first(with_timestamps(document, env), || env.object_id().into()))
}

/// Moves `_id` to the front. `make` creates a missing one.
pub(super) fn with_id_first(mut document: Document, make: impl FnOnce() -> Bson) -> Document {
    if document.keys().next().is_some_and(|name| name == "_id") {
        return document;
    }
    let id = document.remove("_id").unwrap_or_else(make);
    let mut ordered = Document::new();
    ordered.insert("_id", id);
    ordered.extend(document);
    ordered
}

/// Replaces empty timestamps in top-level fields except `_id`.
pub(super) fn with_timestamps(mut document: Document, env: &Environment) -> Document {
    for (name, value) in document.iter_mut() {
        if name != "_id" && *value == Bson::Timestamp(Timestamp { time: 0, increment: 0 }) {
            *value = Bson::Timestamp(env.cluster_time);
        }
    }
    document
}

/// Fails for an invalid `_id`.
pub(super) fn check_id(id: &Bson) -> Result<(), Fault> {
    match id {
        Bson::Array(_) | Bson::RegularExpression(_) | Bson::Undefined => {
            let message = format!("The '_id' value cannot be of type {}", type_name(id));
            Err(Fault::new(Code::INVALID_ID_FIELD, message))
        }
        other => check_names_in_id(other),
    }
}

fn check_names_in_id(value: &Bson) -> Result<(), Fault> {
    match value {
        Bson::Document(document) => {
            for (name, inner) in document {
                if !name.starts_with('$') {
                    check_names_in_id(inner)?;
                } else if reference_problem(name, document).is_some() {
                    let message = format!(
                        "_id fields may not contain '$'-prefixed fields: {name} is not valid for \
                         storage."
                    );
                    return Err(Fault::new(Code::DOLLAR_PREFIXED_FIELD_NAME, message));
                }
            }
            Ok(())
        }
        Bson::Array(elements) => elements.iter().try_for_each(check_names_in_id),
        _ => Ok(()),
    }
}

/// Fails for a top-level field name with `$`, except in a DBRef.
pub(super) fn check_top_level_name(name: &str, document: &Document) -> Result<(), Fault> {
    if !name.starts_with('$') {
        return Ok(());
    }
    match reference_problem(name, document) {
        None => Ok(()),
        Some(DollarFieldProblem::Reference(message)) => {
            Err(Fault::new(Code::named(55, "InvalidDBRef"), message))
        }
        Some(DollarFieldProblem::Dollar) => {
            let message = format!(
                "The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the context \
                 of an update's replacement document. Consider using an aggregation pipeline with \
                 $replaceWith."
            );
            Err(Fault::new(Code::DOLLAR_PREFIXED_FIELD_NAME, message))
        }
    }
}

/// Reason for an invalid field name with `$`.
enum DollarFieldProblem {
    Reference(String),
    Dollar,
}

/// Checks a DBRef: `$ref`, `$id` and optionally `$db`, consecutive and in this order.
fn reference_problem(name: &str, document: &Document) -> Option<DollarFieldProblem> {
    let names: Vec<&str> = document.keys().map(String::as_str).collect();
    let at = names.iter().position(|it| *it == name)?;
    let before = |name: &str| names.iter().position(|it| *it == name).filter(|it| *it > 0);
    let string = |name: &str| match document.get(name) {
        Some(Bson::String(_)) | None => None,
        Some(other) => Some(DollarFieldProblem::Reference(format!(
            "The DBRef {name} field must be a String, not a {}",
            type_name(other)
        ))),
    };
    let follows = |name: &str, other: &str| {
        let follows = before(name).is_some_and(|at| names[at - 1] == other);
        (!follows).then(|| {
            let message =
                format!("Found {name} field without a {other} before it, which is invalid.");
            DollarFieldProblem::Reference(message)
        })
    };
    let of_ref = || {
        string("$ref").or_else(|| {
            let at = names.iter().position(|it| *it == "$ref")?;
            (names.get(at + 1) != Some(&"$id")).then(|| {
                DollarFieldProblem::Reference(
                    "The DBRef $ref field must be followed by a $id field".into(),
                )
            })
        })
    };
    match names[at] {
        "$db" => string("$db")
            .or_else(|| follows("$db", "$id"))
            .or_else(|| follows("$id", "$ref"))
            .or_else(of_ref),
        "$id" => follows("$id", "$ref").or_else(of_ref),
        "$ref" => of_ref(),
        _ => Some(DollarFieldProblem::Dollar),
    }
}

/// Fails if a value at this level is nested too deeply.
pub(super) fn check_depth(level: usize, value: &Bson) -> Result<(), Fault> {
    if level <= MAX_DEPTH && fits(value, MAX_DEPTH - level) {
        return Ok(());
    }
    let message = format!("Document exceeds maximum nesting depth of {MAX_DEPTH}");
    Err(Fault::new(Code::OVERFLOW, message))
}

/// Returns `true` if a value has at most this many nested levels.
fn fits(value: &Bson, levels: usize) -> bool {
    let below = |mut values: Box<dyn Iterator<Item = &Bson> + '_>| match levels.checked_sub(1) {
        Some(levels) => values.all(|it| fits(it, levels)),
        None => values.next().is_none(),
    };
    match value {
        Bson::Document(document) => below(Box::new(document.values())),
        Bson::Array(elements) => below(Box::new(elements.iter())),
        _ => true,
    }
}

/// Checks the result of a replacement or a pipeline: `_id`, depth, and field names if `names_too`
/// is `true`.
pub(super) fn check_whole(document: &Document, names_too: bool) -> Result<(), Fault> {
    for (name, value) in document {
        if names_too {
            check_top_level_name(name, document)?;
        }
        if name == "_id" {
            check_id(value)?;
        }
        check_depth(1, value)?;
    }
    Ok(())
}

/// Fails if `_id` changed. `1` and `1.0` are equal here.
pub(super) fn check_same_id(before: Option<&Bson>, after: Option<&Bson>) -> Result<(), Fault> {
    if matches!(after, Some(Bson::Array(_))) {
        let message = "After applying the update to the document, the (immutable) field '_id' was \
                       found to be an array or array descendant.";
        return Err(Fault::new(Code::named(54, "NotSingleValueField"), message));
    }
    let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
    if value::equal(before, after) {
        return Ok(());
    }
    let message = format!(
        "After applying the update, the (immutable) field '_id' was found to have been altered to {}",
        crate::text::field("_id", after)
    );
    Err(Fault::new(Code::IMMUTABLE_FIELD, message))
}

/// Returns the size of a document in bytes.
pub(crate) fn size(document: &Document) -> usize {
    // Length, fields and terminator.
    5 + document.iter().map(|(name, value)| 2 + name.len() + size_of_value(value)).sum::<usize>()
}

fn size_of_value(value: &Bson) -> usize {
    match value {
        Bson::Double(_) | Bson::Int64(_) | Bson::Timestamp(_) | Bson::DateTime(_) => 8,
        Bson::String(text) | Bson::JavaScriptCode(text) | Bson::Symbol(text) => 5 + text.len(),
        Bson::Array(elements) => {
            let digits = |index: usize| index.checked_ilog10().unwrap_or(0) as usize + 1;
            let fields = elements.iter().enumerate();
            5 + fields.map(|(at, it)| 2 + digits(at) + size_of_value(it)).sum::<usize>()
        }
        Bson::Document(document) => size(document),
        Bson::Boolean(_) => 1,
        Bson::Null | Bson::Undefined | Bson::MaxKey | Bson::MinKey => 0,
        Bson::RegularExpression(regex) => {
            2 + regex.pattern.as_str().len() + regex.options.as_str().len()
        }
        Bson::JavaScriptCodeWithScope(code) => 9 + code.code.len() + size(&code.scope),
        Bson::Int32(_) => 4,
        Bson::Binary(binary) => {
            let old = binary.subtype == bson::spec::BinarySubtype::BinaryOld;
            5 + binary.bytes.len() + if old { 4 } else { 0 }
        }
        Bson::ObjectId(_) => 12,
        Bson::Decimal128(_) => 16,
        // The parts of a DBPointer are not public; its encoded size is.
        Bson::DbPointer(_) => {
            let mut alone = Document::new();
            alone.insert("", value.clone());
            bson::document_to_vec(&alone).map_or(0, |bytes| bytes.len().saturating_sub(7))
        }
    }
}
