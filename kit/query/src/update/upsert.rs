//! Initial document of an upsert, from the equality conditions of the filter.

use std::collections::BTreeMap;

use bson::{Bson, Document};

use super::storage::check_depth;
use crate::{Code, Fault};

/// Creates a document with these values, in the order of their paths.
pub(super) fn initial(equalities: Vec<(String, Bson)>) -> Result<Document, Fault> {
    let mut sorted: BTreeMap<String, Bson> = BTreeMap::new();
    for (path, value) in equalities {
        if let Some(other) = sorted.keys().find(|other| overlaps(other, &path)) {
            return Err(matched_twice(other, &path));
        }
        sorted.insert(path, value);
    }
    let mut document = Document::new();
    for (path, value) in sorted {
        if path.is_empty() {
            return Err(Fault::new(
                Code::ILLEGAL_OPERATION,
                "Cannot call setValue on the root object",
            ));
        }
        check_depth(path.split('.').count() - 1, &value)?;
        put(&mut document, &path, value);
    }
    Ok(document)
}

/// Creates the initial document of a replacement: only `_id`, which must be given whole.
pub(super) fn initial_id(equalities: Vec<(String, Bson)>) -> Result<Document, Fault> {
    let of_id = |path: &str| path == "_id" || path.starts_with("_id.");
    let equalities: Vec<_> = equalities.into_iter().filter(|(path, _)| of_id(path)).collect();
    if let Some((path, _)) = equalities.iter().find(|(path, _)| path != "_id") {
        let message =
            format!("field at '_id' must be exactly specified, field at sub-path '{path}'found");
        return Err(Fault::new(Code::named(111, "NotExactValueField"), message));
    }
    initial(equalities)
}

fn overlaps(one: &str, other: &str) -> bool {
    let within = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'))
    };
    one == other || within(one, other) || within(other, one)
}

fn matched_twice(one: &str, other: &str) -> Fault {
    let message = if one == other {
        format!("cannot infer query fields to set, path '{one}' is matched twice")
    } else {
        let (shorter, longer) = if one.len() < other.len() { (one, other) } else { (other, one) };
        format!(
            "cannot infer query fields to set, both paths '{longer}' and '{shorter}' are matched"
        )
    };
    Fault::new(Code::named(54, "NotSingleValueField"), message)
}

fn put(document: &mut Document, path: &str, value: Bson) {
    match path.split_once('.') {
        None => {
            document.insert(path, value);
        }
        Some((name, rest)) => {
            let inner = document.entry(name.to_owned()).or_insert(Bson::Document(Document::new()));
            if let Bson::Document(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}
