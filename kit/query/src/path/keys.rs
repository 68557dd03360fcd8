//! Index and sort keys: one value per path, or several keys if a path contains an array.

use bson::{Bson, Document};

use super::{Path, PathComponent};
use crate::{Code, Fault};

static NULL: Bson = Bson::Null;
static UNDEFINED: Bson = Bson::Undefined;

/// Calls `take` with each key of a document.
pub(crate) fn each<'d>(
    document: &'d Document,
    paths: &'d [Path],
    take: &mut dyn FnMut(&[&'d Bson]),
) -> Result<(), Fault> {
    let fields = paths.iter().map(|path| PathCursor { rest: path.parts(), value: &NULL, at: None });
    expand(Some(document), fields.collect(), take)
}

/// Progress along a path.
#[derive(Clone)]
struct PathCursor<'d> {
    /// Remaining components.
    rest: &'d [PathComponent],
    /// Value at the end of the path.
    value: &'d Bson,
    /// Value of the next component as an index of the current array.
    at: Option<IndexStep<'d>>,
}

/// Value of a path from an array element on.
#[derive(Clone)]
struct IndexStep<'d> {
    /// `true` if the element is an array, which is not expanded.
    nested: bool,
    /// First array after the element, or the value at the end.
    value: Option<&'d Bson>,
    rest: &'d [PathComponent],
}

/// Follows the paths to their ends or to the one array on them, and continues with each element.
fn expand<'d>(
    object: Option<&'d Document>,
    mut fields: Vec<PathCursor<'d>>,
    take: &mut dyn FnMut(&[&'d Bson]),
) -> Result<(), Fault> {
    let mut array: Option<&'d Vec<Bson>> = None;
    let mut through = Vec::new();
    let mut whole = false;
    for (place, field) in fields.iter_mut().enumerate() {
        if field.rest.is_empty() {
            continue;
        }
        let (found, nested) = next(object, field)?;
        match found {
            None => {
                field.rest = &[];
                field.value = &NULL;
            }
            Some(Bson::Array(elements)) => {
                if array.is_some_and(|other| !std::ptr::eq(other, elements)) {
                    return Err(parallel());
                }
                array = Some(elements);
                whole |= nested && field.rest.is_empty();
                field.value = found.unwrap_or(&NULL);
                through.push(place);
            }
            Some(value) => field.value = value,
        }
    }
    let Some(elements) = array else {
        let values: Vec<&Bson> = fields.iter().map(|it| it.value).collect();
        take(&values);
        return Ok(());
    };
    for place in &through {
        by_index(elements, &mut fields[*place])?;
    }
    if elements.is_empty() {
        return expand_element(&UNDEFINED, &fields, &through, false, take);
    }
    for element in elements {
        expand_element(element, &fields, &through, whole, take)?;
    }
    Ok(())
}

fn expand_element<'d>(
    element: &'d Bson,
    fields: &[PathCursor<'d>],
    through: &[usize],
    whole: bool,
    take: &mut dyn FnMut(&[&'d Bson]),
) -> Result<(), Fault> {
    let mut fields = fields.to_vec();
    for place in through {
        let field = &mut fields[*place];
        if field.rest.is_empty() && !whole {
            field.value = element;
        }
    }
    expand(element.as_document(), fields, take)
}

/// Returns the value at the end of a path or the first array on it. The flag is `true` if that
/// array is an element of another.
fn next<'d>(
    object: Option<&'d Document>,
    field: &mut PathCursor<'d>,
) -> Result<(Option<&'d Bson>, bool), Fault> {
    let own = object.and_then(|it| it.get(&field.rest[0].name));
    match (own, field.at.take()) {
        (Some(_), Some(_)) => Err(ambiguous(field.rest)),
        (Some(value), None) => Ok((follow(value, &mut field.rest), false)),
        (None, Some(indexed)) => {
            field.rest = indexed.rest;
            Ok((indexed.value, indexed.nested))
        }
        (None, None) => Ok((None, false)),
    }
}

/// Follows a path to its end or the first array.
fn follow<'d>(mut value: &'d Bson, rest: &mut &'d [PathComponent]) -> Option<&'d Bson> {
    loop {
        *rest = &rest[1..];
        match value {
            Bson::Array(_) => return Some(value),
            _ if rest.is_empty() => return Some(value),
            Bson::Document(document) => value = document.get(&rest[0].name)?,
            _ => return None,
        }
    }
}

/// Stores the value of the next component as an index of this array.
fn by_index<'d>(elements: &'d [Bson], field: &mut PathCursor<'d>) -> Result<(), Fault> {
    let Some(element) = field.rest.first().and_then(|it| elements.get(it.index?)) else {
        return Ok(());
    };
    let name = &field.rest[0].name;
    if elements.iter().any(|it| it.as_document().is_some_and(|it| it.contains_key(name))) {
        return Err(ambiguous(field.rest));
    }
    let mut rest = field.rest;
    let value = follow(element, &mut rest);
    field.at = Some(IndexStep { nested: matches!(element, Bson::Array(_)), value, rest });
    Ok(())
}

fn parallel() -> Fault {
    Fault::new(Code::named(171, "CannotIndexParallelArrays"), "cannot index parallel arrays")
}

fn ambiguous(rest: &[PathComponent]) -> Fault {
    let name = rest.first().map_or("", |it| it.name.as_str());
    Fault::location(
        16746,
        format!(
            "Ambiguous field name found in array (do not use numeric field names in embedded elements \
             in an array), field: '{name}' for array"
        ),
    )
}
