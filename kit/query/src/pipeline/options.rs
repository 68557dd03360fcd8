//! Parsing of stage options.

use bson::{Bson, Document};

use crate::{Code, Fault, value::type_name};

/// Returns a specification that must be a document.
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

/// Returns an option that must be a string.
pub(super) fn string<'a>(what: &str, value: &'a Bson, code: i32) -> Result<&'a str, Fault> {
    match value {
        Bson::String(text) => Ok(text),
        other => {
            let message = format!("{what} must be a string, but found {}", type_name(other));
            Err(Fault::new(Code::numbered(code), message))
        }
    }
}

/// Returns an option that must be a list of stages.
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

/// Error for an unknown option.
pub(super) fn unknown(stage: &str, option: &str) -> Fault {
    Fault::location(40415, format!("BSON field '{stage}.{option}' is an unknown field."))
}

/// Returns `true` for a path or an operator, as group keys must be.
pub(super) fn is_expression(value: &Bson) -> bool {
    match value {
        Bson::String(text) => text.starts_with('$'),
        Bson::Document(document) => {
            document.keys().next().is_some_and(|name| name.starts_with('$'))
        }
        _ => false,
    }
}

/// Sets a field at a path. Other values on the path become documents.
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

/// Returns the field at a path through documents only.
pub(super) fn get<'a>(document: &'a Document, path: &[String]) -> Option<&'a Bson> {
    let (first, rest) = path.split_first()?;
    let value = document.get(first)?;
    match value {
        _ if rest.is_empty() => Some(value),
        Bson::Document(inner) => get(inner, rest),
        _ => None,
    }
}

/// Removes the field at a path through documents only.
pub(super) fn unset(document: &mut Document, path: &[String]) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        document.remove(first);
    } else if let Some(Bson::Document(inner)) = document.get_mut(first) {
        unset(inner, rest);
    }
}
