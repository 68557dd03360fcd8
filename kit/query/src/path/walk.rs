//! Filter semantics of paths: all values, through arrays.

use bson::{Bson, Document};

use super::{Path, PathComponent};

/// Treatment of an array at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrailingArray {
    /// Visits the elements, then the array.
    Elements,
    /// Visits only the array.
    Whole,
}

/// A value at a path.
#[derive(Clone, Copy, Debug)]
pub struct PathValue<'d> {
    /// The value. `None` for a missing field.
    pub value: Option<&'d Bson>,
    /// Index in the outermost array on the path, unless the path names it.
    pub position: Option<usize>,
}

type Visit<'v, 'd> = &'v mut dyn FnMut(PathValue<'d>) -> bool;

impl Path {
    /// Visits each value of the path until `visit` returns `true`. Returns `true` in that case.
    pub fn visit<'d>(
        &self,
        document: &'d Document,
        leaf: TrailingArray,
        visit: Visit<'_, 'd>,
    ) -> bool {
        in_document(document, self.parts(), leaf, None, visit)
    }
}

fn in_document<'d>(
    document: &'d Document,
    parts: &[PathComponent],
    leaf: TrailingArray,
    position: Option<usize>,
    visit: Visit<'_, 'd>,
) -> bool {
    let (mut document, mut parts) = (document, parts);
    loop {
        let value = field(document, &parts[0].name);
        parts = &parts[1..];
        match value {
            Some(Bson::Array(elements)) if parts.is_empty() => {
                return at_leaf(value, elements, leaf, position, visit);
            }
            Some(Bson::Array(elements)) => {
                return in_array(elements, parts, leaf, position, visit);
            }
            Some(Bson::Document(inner)) if !parts.is_empty() => document = inner,
            _ if parts.is_empty() => return visit(PathValue { value, position }),
            _ => return visit(PathValue { value: None, position }),
        }
    }
}

/// Finds a field by name. A linear search is faster than hashing in small documents.
fn field<'d>(document: &'d Document, name: &str) -> Option<&'d Bson> {
    if document.len() > 8 {
        return document.get(name);
    }
    document.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
}

/// Visits an array at the end of the path.
fn at_leaf<'d>(
    array: Option<&'d Bson>,
    elements: &'d [Bson],
    leaf: TrailingArray,
    position: Option<usize>,
    visit: Visit<'_, 'd>,
) -> bool {
    leaf == TrailingArray::Elements
        && elements.iter().enumerate().any(|(index, element)| {
            visit(PathValue { value: Some(element), position: position.or(Some(index)) })
        })
        || visit(PathValue { value: array, position })
}

/// Visits an array inside the path: its documents, and the element that the next component names.
fn in_array<'d>(
    elements: &'d [Bson],
    parts: &[PathComponent],
    leaf: TrailingArray,
    position: Option<usize>,
    visit: Visit<'_, 'd>,
) -> bool {
    elements.iter().enumerate().any(|(index, element)| {
        let here = position.or(Some(index));
        if let Bson::Document(document) = element
            && in_document(document, parts, leaf, here, visit)
        {
            return true;
        }
        if parts[0].index != Some(index) {
            return false;
        }
        let rest = &parts[1..];
        match element {
            // An element named by the path is not expanded and sets no position.
            _ if rest.is_empty() => visit(PathValue { value: Some(element), position }),
            Bson::Document(document) => in_document(document, rest, leaf, position, visit),
            Bson::Array(elements) => in_array(elements, rest, leaf, position, visit),
            _ => false,
        }
    })
}
