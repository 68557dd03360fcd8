//! Differences of updates, as the oplog of a server stores them: removed, updated and inserted
//! fields, recursively.
//!
//! A difference is a document. That of a document is `{ d: removed, u: updated, i: inserted,
//! s<field>: difference … }`. That of an array is `{ a: true, l: new length, u<index>: element,
//! s<index>: difference … }`. Empty parts are omitted.

use bson::{Bson, Document, doc};

use crate::{
    change::{UpdateForm, UpdatedPath},
    store::size_of_document,
};

/// Overhead in bytes of an oplog entry with a difference.
const ENTRY_OVERHEAD: usize = 15;

/// Difference between a document and its update. `None` if a server stores the whole document.
pub(super) fn difference(before: &Document, after: &Document, by: &UpdateForm) -> Option<Document> {
    match by {
        UpdateForm::Replacement => None,
        UpdateForm::Operators(touched) => {
            let touched: Vec<PathSuffix<'_>> = touched.iter().map(PathSuffix::new).collect();
            Some(operator_difference_of_document(before, after, &touched))
        }
        UpdateForm::Pipeline => {
            let found = of_documents(before, after)?;
            (size_of_document(&found) + ENTRY_OVERHEAD < size_of_document(after)).then_some(found)
        }
    }
}

/// Returns `true` if two values are bitwise equal, including the order of fields.
pub(super) fn identical(one: &Bson, other: &Bson) -> bool {
    match (one, other) {
        (Bson::Document(one), Bson::Document(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|((name, one), (also, other))| name == also && identical(one, other))
        }
        (Bson::Array(one), Bson::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| identical(one, other))
        }
        (Bson::Double(one), Bson::Double(other)) => one.to_bits() == other.to_bits(),
        (one, other) => one == other,
    }
}

/// Parts of a difference of documents.
#[derive(Default)]
struct DocumentDifference {
    removed: Document,
    updated: Document,
    inserted: Document,
    inside: Document,
}

impl DocumentDifference {
    fn into_document(self) -> Document {
        let mut found = Document::new();
        for (name, part) in [("d", self.removed), ("u", self.updated), ("i", self.inserted)] {
            if !part.is_empty() {
                found.insert(name, part);
            }
        }
        found.extend(self.inside);
        found
    }
}

/// Remaining path of an updated field.
#[derive(Clone, Copy)]
struct PathSuffix<'a> {
    path: &'a [String],
    appends: bool,
}

impl<'a> PathSuffix<'a> {
    fn new(touched: &'a UpdatedPath) -> Self {
        Self { path: &touched.path, appends: touched.appends }
    }

    /// Remaining path inside a field.
    fn inside(self, name: &str) -> Option<Self> {
        let (first, path) = self.path.split_first()?;
        let is_it = first == name || first.starts_with('$');
        is_it.then_some(Self { path, ..self })
    }
}

fn inside<'a>(touched: &[PathSuffix<'a>], name: &str) -> Vec<PathSuffix<'a>> {
    touched.iter().filter_map(|rest| rest.inside(name)).collect()
}

/// Difference made by update operators, at the fields that they name.
fn operator_difference_of_document(
    before: &Document,
    after: &Document,
    touched: &[PathSuffix<'_>],
) -> Document {
    let mut parts = DocumentDifference::default();
    for name in before.keys().filter(|name| !after.contains_key(name)) {
        parts.removed.insert(name, false);
    }
    for (name, new) in after {
        match before.get(name) {
            None => drop(parts.inserted.insert(name, new.clone())),
            Some(old) if identical(old, new) => {}
            Some(old) => match operator_difference_inside(old, new, &inside(touched, name)) {
                Some(found) => drop(parts.inside.insert(format!("s{name}"), found)),
                None => drop(parts.updated.insert(name, new.clone())),
            },
        }
    }
    parts.into_document()
}

/// Difference inside a value. `None` if the whole value is stored.
fn operator_difference_inside(
    old: &Bson,
    new: &Bson,
    touched: &[PathSuffix<'_>],
) -> Option<Document> {
    let named = touched.iter().find(|rest| rest.path.is_empty());
    match (old, new, named) {
        (Bson::Document(old), Bson::Document(new), None) => {
            Some(operator_difference_of_document(old, new, touched))
        }
        (Bson::Array(old), Bson::Array(new), None) if new.len() >= old.len() => {
            operator_difference_of_array(old, new, touched)
        }
        (Bson::Array(old), Bson::Array(new), Some(rest)) if rest.appends => {
            let no_cursor_timeout =
                new.len() > old.len() && old.iter().zip(new).all(|(old, new)| identical(old, new));
            no_cursor_timeout.then(|| appended(old.len(), new))
        }
        _ => None,
    }
}

fn appended(from: usize, new: &[Bson]) -> Document {
    let mut found = doc! { "a": true };
    for (at, element) in new.iter().enumerate().skip(from) {
        found.insert(format!("u{at}"), element.clone());
    }
    found
}

/// Difference of an array with named elements. If a path matches several elements and more than one
/// changed, the whole array is stored.
fn operator_difference_of_array(
    old: &[Bson],
    new: &[Bson],
    touched: &[PathSuffix<'_>],
) -> Option<Document> {
    let many = touched.iter().any(|rest| rest.path.first().is_some_and(|it| it.starts_with("$[")));
    let mut found = doc! { "a": true };
    for (at, element) in new.iter().enumerate() {
        match old.get(at) {
            Some(old) if identical(old, element) => {}
            Some(old) => {
                match operator_difference_inside(old, element, &inside(touched, &at.to_string())) {
                    Some(deeper) => drop(found.insert(format!("s{at}"), deeper)),
                    None => drop(found.insert(format!("u{at}"), element.clone())),
                }
            }
            None => drop(found.insert(format!("u{at}"), element.clone())),
        }
    }
    (!many || found.len() <= 2).then_some(found)
}

/// Smallest difference of two documents, if it is smaller than the new document.
///
/// Both are compared field by field: a field that moved counts as new.
fn of_documents(before: &Document, after: &Document) -> Option<Document> {
    let mut parts = DocumentDifference::default();
    let mut old = before.iter().peekable();
    let mut new = after.iter().peekable();
    while let (Some((name, was)), Some((also, is))) = (old.peek(), new.peek()) {
        if name != also {
            parts.removed.insert(name.as_str(), false);
            old.next();
            continue;
        }
        if !identical(was, is) {
            match inside_values(was, is) {
                Some(found) => drop(parts.inside.insert(format!("s{name}"), found)),
                None => drop(parts.updated.insert(name.as_str(), (*is).clone())),
            }
        }
        old.next();
        new.next();
    }
    for (name, _) in old {
        parts.removed.insert(name, false);
    }
    for (name, value) in new {
        parts.removed.remove(name);
        parts.inserted.insert(name, value.clone());
    }
    let found = parts.into_document();
    (size_of_document(&found) < size_of_document(after)).then_some(found)
}

fn inside_values(old: &Bson, new: &Bson) -> Option<Document> {
    match (old, new) {
        (Bson::Document(old), Bson::Document(new)) => of_documents(old, new),
        (Bson::Array(old), Bson::Array(new)) => of_arrays(old, new),
        _ => None,
    }
}

fn of_arrays(old: &[Bson], new: &[Bson]) -> Option<Document> {
    let mut found = doc! { "a": true };
    if new.len() < old.len() {
        found.insert("l", i32::try_from(new.len()).unwrap_or(i32::MAX));
    }
    for (at, is) in new.iter().enumerate() {
        match old.get(at) {
            Some(was) if identical(was, is) => {}
            Some(was) => match inside_values(was, is) {
                Some(deeper) => drop(found.insert(format!("s{at}"), deeper)),
                None => drop(found.insert(format!("u{at}"), is.clone())),
            },
            None => drop(found.insert(format!("u{at}"), is.clone())),
        }
    }
    let whole = size_of_document(&doc! { "": new.to_vec() }) - 7;
    (size_of_document(&found) < whole).then_some(found)
}
