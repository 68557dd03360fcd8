//! What the specification of a stage says, option by option.

use bson::{Bson, Document};

use crate::{Code, Fault, value::type_name};

/// The specification of a stage, with the error for one that is no document.
pub(super) fn object<'a>(stage: &str, value: &'a Bson, code: i32) -> Result<&'a Document, Fault> {
    match value {
        Bson::Document(document) => Ok(document),
        other => {
            let found = type_name(other);
            let message = format!("the {stage} stage specification must be an object");
            Err(Fault::new(Code::numbered(code), format!("{message}, but found {found}")))
        }
    }
}

/// A string, with the error for what is none.
pub(super) fn string<'a>(what: &str, value: &'a Bson, code: i32) -> Result<&'a str, Fault> {
    match value {
        Bson::String(text) => Ok(text),
        other => {
            let message = format!("{what} must be a string, but found {}", type_name(other));
            Err(Fault::new(Code::numbered(code), message))
        }
    }
}

/// A list of stages.
pub(super) fn stages(value: &Bson) -> Result<Vec<Document>, Fault> {
    let Bson::Array(array) = value else {
        return Err(Fault::type_mismatch("'pipeline' option must be specified as an array"));
    };
    array
        .iter()
        .map(|it| match it {
            Bson::Document(stage) => Ok(stage.clone()),
            _ => {
                let message = "Each element of the 'pipeline' array must be an object";
                Err(Fault::type_mismatch(message))
            }
        })
        .collect()
}

/// An option that a stage does not have.
pub(super) fn unknown(stage: &str, option: &str) -> Fault {
    Fault::location(40415, format!("BSON field '{stage}.{option}' is an unknown field."))
}

/// Whether a value is a path or an operator, as a key to group by must be.
pub(super) fn is_expression(value: &Bson) -> bool {
    match value {
        Bson::String(text) => text.starts_with('$'),
        Bson::Document(document) => {
            document.keys().next().is_some_and(|name| name.starts_with('$'))
        }
        _ => false,
    }
}

/// Sets a field by its path: what is no document on the way becomes one.
pub(super) fn set(document: &mut Document, path: &[String], value: Bson) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        document.insert(first.as_str(), value);
        return;
    }
    if !matches!(document.get(first), Some(Bson::Document(_))) {
        document.insert(first.as_str(), Document::new());
    }
    if let Some(Bson::Document(inner)) = document.get_mut(first) {
        set(inner, rest, value);
    }
}

/// The value of a field by its path, through documents alone.
pub(super) fn get<'a>(document: &'a Document, path: &[String]) -> Option<&'a Bson> {
    let (first, rest) = path.split_first()?;
    let value = document.get(first)?;
    match value {
        _ if rest.is_empty() => Some(value),
        Bson::Document(inner) => get(inner, rest),
        _ => None,
    }
}

/// Removes a field by its path, through documents alone.
pub(super) fn unset(document: &mut Document, path: &[String]) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        document.remove(first);
    } else if let Some(Bson::Document(inner)) = document.get_mut(first) {
        unset(inner, rest);
    }
}
