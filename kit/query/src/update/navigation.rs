//! Navigation in a document by path, and creation of missing parts.

use bson::{Bson, Document};

use crate::{Code, Fault, text};

/// Maximum number of nulls added to an array to reach an index.
const MAX_BACKFILLED_ELEMENTS: usize = 1_500_000;

/// Returns the number of path components that exist.
pub(super) fn reached(root: &Bson, path: &[String]) -> usize {
    let mut at = root;
    for (depth, part) in path.iter().enumerate() {
        match child(at, part) {
            Some(found) => at = found,
            None => return depth,
        }
    }
    path.len()
}

/// Returns the value at an existing path.
pub(super) fn existing<'r>(root: &'r Bson, path: &[String]) -> &'r Bson {
    path.iter().fold(root, |at, part| child(at, part).unwrap_or(at))
}

/// Returns the value at an existing path for modification.
pub(super) fn existing_mut<'r>(root: &'r mut Bson, path: &[String]) -> &'r mut Bson {
    let mut at = root;
    for part in path {
        // The path exists, so this does not occur.
        if child(at, part).is_none() {
            break;
        }
        at = match at {
            Bson::Document(document) => document.entry(part.to_owned()).or_insert(Bson::Null),
            Bson::Array(elements) => &mut elements[index(part).unwrap_or(0)],
            other => other,
        };
    }
    at
}

fn child<'r>(parent: &'r Bson, part: &str) -> Option<&'r Bson> {
    match parent {
        Bson::Document(document) => document.get(part),
        Bson::Array(elements) => elements.get(index(part)?),
        _ => None,
    }
}

/// Returns the array index of a path component in an update: digits, leading zeros permitted.
pub(super) fn index(part: &str) -> Option<usize> {
    let digits = !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let number: u32 = digits.then(|| part.parse().ok()).flatten()?;
    usize::try_from(number).ok()
}

/// Returns `true` if a child can be created below this value.
pub(super) fn can_have_child(value: &Bson, part: &str) -> bool {
    match value {
        Bson::Document(_) => true,
        Bson::Array(_) => index(part).is_some(),
        _ => false,
    }
}

/// Creates the missing part of a path with a value at its end.
pub(super) fn create(
    root: &mut Bson,
    path: &[String],
    reached: usize,
    value: Bson,
) -> Result<(), Fault> {
    let (there, missing) = path.split_at(reached);
    let parent = existing_mut(root, there);
    let Some((part, rest)) = missing.split_first() else { return Ok(()) };
    if !can_have_child(parent, part) {
        return Err(not_viable(part, &named(there, parent)));
    }
    let value = rest.iter().rev().fold(value, |inner, part| {
        let mut outer = Document::new();
        outer.insert(part.clone(), inner);
        Bson::Document(outer)
    });
    match parent {
        Bson::Document(document) => {
            document.insert(part.clone(), value);
        }
        Bson::Array(elements) => fill(elements, index(part).unwrap_or(0), value)?,
        _ => {}
    }
    Ok(())
}

fn not_viable(part: &str, element: &str) -> Fault {
    let message = format!("Cannot create field '{part}' in element {element}");
    Fault::new(Code::PATH_NOT_VIABLE, message)
}

/// Formats an element in error messages: `{a: 1}`.
pub(super) fn named(path: &[String], value: &Bson) -> String {
    format!("{{{}}}", text::field(path.last().map_or("", String::as_str), value))
}

fn fill(elements: &mut Vec<Bson>, index: usize, value: Bson) -> Result<(), Fault> {
    if index.saturating_sub(elements.len()) > MAX_BACKFILLED_ELEMENTS {
        let message = format!("can't backfill more than {MAX_BACKFILLED_ELEMENTS} elements");
        return Err(Fault::new(Code::named(34, "CannotBackfillArray"), message));
    }
    elements.resize(index, Bson::Null);
    elements.push(value);
    Ok(())
}

/// Removes the value at an existing path. An array element becomes null, so that the others keep
/// their positions.
pub(super) fn remove(root: &mut Bson, path: &[String]) {
    let Some((last, parents)) = path.split_last() else { return };
    match existing_mut(root, parents) {
        Bson::Document(document) => {
            document.remove(last);
        }
        Bson::Array(elements) => {
            if let Some(element) = index(last).and_then(|it| elements.get_mut(it)) {
                *element = Bson::Null;
            }
        }
        _ => {}
    }
}

/// Returns `true` if two values have the same bytes: `1` is not `1.0`, and the order of fields
/// counts.
pub(super) fn identical(left: &Bson, right: &Bson) -> bool {
    match (left, right) {
        (Bson::Double(left), Bson::Double(right)) => left.to_bits() == right.to_bits(),
        (Bson::Document(left), Bson::Document(right)) => identical_documents(left, right),
        (Bson::Array(left), Bson::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| identical(left, right))
        }
        (left, right) => left == right,
    }
}

/// Returns `true` if two documents have the same bytes: `1` is not `1.0`, and the order of fields
/// counts.
pub fn identical_documents(left: &Document, right: &Document) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .all(|((left_name, left), (name, right))| left_name == name && identical(left, right))
}
