//! What filters see under a path: every value that it can mean, through arrays.

use bson::{Bson, Document};

use super::{Part, Path};

/// What becomes of an array at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// Its elements are seen, then itself.
    Elements,
    /// Only itself is seen.
    Whole,
}

/// A value that a path leads to.
#[derive(Clone, Copy, Debug)]
pub struct Place<'d> {
    /// The value; `None` where the field is missing.
    pub value: Option<&'d Bson>,
    /// Which element of the first array on the way it lies in or is, unless the path itself says.
    pub position: Option<usize>,
}

type Visit<'v, 'd> = &'v mut dyn FnMut(Place<'d>) -> bool;

impl Path {
    /// Shows each place that the path leads to, until one of them is what was sought: then true.
    pub fn visit<'d>(&self, document: &'d Document, leaf: Leaf, visit: Visit<'_, 'd>) -> bool {
        in_document(document, self.parts(), leaf, None, visit)
    }
}

fn in_document<'d>(
    document: &'d Document,
    parts: &[Part],
    leaf: Leaf,
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
            _ if parts.is_empty() => return visit(Place { value, position }),
            _ => return visit(Place { value: None, position }),
        }
    }
}

/// A field by its name. In a small document, to look at each is faster than to hash.
fn field<'d>(document: &'d Document, name: &str) -> Option<&'d Bson> {
    if document.len() > 8 {
        return document.get(name);
    }
    document.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
}

/// An array at the end of the path.
fn at_leaf<'d>(
    array: Option<&'d Bson>,
    elements: &'d [Bson],
    leaf: Leaf,
    position: Option<usize>,
    visit: Visit<'_, 'd>,
) -> bool {
    leaf == Leaf::Elements
        && elements.iter().enumerate().any(|(index, element)| {
            visit(Place { value: Some(element), position: position.or(Some(index)) })
        })
        || visit(Place { value: array, position })
}

/// An array on the way: each of its documents is followed, and the element that the next component
/// names by its index.
fn in_array<'d>(
    elements: &'d [Bson],
    parts: &[Part],
    leaf: Leaf,
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
            // What the path names itself is not expanded, and not what `$` stands for.
            _ if rest.is_empty() => visit(Place { value: Some(element), position }),
            Bson::Document(document) => in_document(document, rest, leaf, position, visit),
            Bson::Array(elements) => in_array(elements, rest, leaf, position, visit),
            _ => false,
        }
    })
}
