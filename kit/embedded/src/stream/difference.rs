//! What an update changed, as servers write it down: which fields were removed, which have other values,
//! which are new, and the same of what is inside.
//!
//! A difference is a document. That of a document is `{ d: removed, u: updated, i: inserted, s…: of the
//! field … }`, that of an array `{ a: true, l: new length, u…: element …, s…: of element … }`; what is
//! empty is left out.

use bson::{Bson, Document, doc};

use crate::{
    change::{Rewrite, Touched},
    store::size_of_document,
};

/// How much larger an entry of the log is that has a difference.
const AROUND: usize = 15;

/// The difference between a document and what became of it. `None`: a server writes down the whole
/// document instead.
pub(super) fn difference(before: &Document, after: &Document, by: &Rewrite) -> Option<Document> {
    match by {
        Rewrite::Whole => None,
        Rewrite::Operators(touched) => {
            let touched: Vec<Rest<'_>> = touched.iter().map(Rest::new).collect();
            Some(touched_in_document(before, after, &touched))
        }
        Rewrite::Pipeline => {
            let found = of_documents(before, after)?;
            (size_of_document(&found) + AROUND < size_of_document(after)).then_some(found)
        }
    }
}

/// Whether two values are the same to the bit, and in the same order.
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

/// The parts of a difference of documents.
#[derive(Default)]
struct Parts {
    removed: Document,
    updated: Document,
    inserted: Document,
    inside: Document,
}

impl Parts {
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

/// The rest of a path that an update names.
#[derive(Clone, Copy)]
struct Rest<'a> {
    path: &'a [String],
    appends: bool,
}

impl<'a> Rest<'a> {
    fn new(touched: &'a Touched) -> Self {
        Self { path: &touched.path, appends: touched.appends }
    }

    /// What is left of it inside a field.
    fn inside(self, name: &str) -> Option<Self> {
        let (first, path) = self.path.split_first()?;
        let is_it = first == name || first.starts_with('$');
        is_it.then_some(Self { path, ..self })
    }
}

fn inside<'a>(touched: &[Rest<'a>], name: &str) -> Vec<Rest<'a>> {
    touched.iter().filter_map(|rest| rest.inside(name)).collect()
}

/// The difference that operators made, which is told at the fields that they name.
fn touched_in_document(before: &Document, after: &Document, touched: &[Rest<'_>]) -> Document {
    let mut parts = Parts::default();
    for name in before.keys().filter(|name| !after.contains_key(name)) {
        parts.removed.insert(name, false);
    }
    for (name, new) in after {
        match before.get(name) {
            None => drop(parts.inserted.insert(name, new.clone())),
            Some(old) if identical(old, new) => {}
            Some(old) => match touched_inside(old, new, &inside(touched, name)) {
                Some(found) => drop(parts.inside.insert(format!("s{name}"), found)),
                None => drop(parts.updated.insert(name, new.clone())),
            },
        }
    }
    parts.into_document()
}

/// The difference inside a value, if it is told at all.
fn touched_inside(old: &Bson, new: &Bson, touched: &[Rest<'_>]) -> Option<Document> {
    let named = touched.iter().find(|rest| rest.path.is_empty());
    match (old, new, named) {
        (Bson::Document(old), Bson::Document(new), None) => {
            Some(touched_in_document(old, new, touched))
        }
        (Bson::Array(old), Bson::Array(new), None) if new.len() >= old.len() => {
            touched_in_array(old, new, touched)
        }
        (Bson::Array(old), Bson::Array(new), Some(rest)) if rest.appends => {
            let stays =
                new.len() > old.len() && old.iter().zip(new).all(|(old, new)| identical(old, new));
            stays.then(|| appended(old.len(), new))
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

/// The difference of an array some of whose elements are named. If a path is about many of them, and
/// more than one changed, the whole array is told.
fn touched_in_array(old: &[Bson], new: &[Bson], touched: &[Rest<'_>]) -> Option<Document> {
    let many = touched.iter().any(|rest| rest.path.first().is_some_and(|it| it.starts_with("$[")));
    let mut found = doc! { "a": true };
    for (at, element) in new.iter().enumerate() {
        match old.get(at) {
            Some(old) if identical(old, element) => {}
            Some(old) => match touched_inside(old, element, &inside(touched, &at.to_string())) {
                Some(deeper) => drop(found.insert(format!("s{at}"), deeper)),
                None => drop(found.insert(format!("u{at}"), element.clone())),
            },
            None => drop(found.insert(format!("u{at}"), element.clone())),
        }
    }
    (!many || found.len() <= 2).then_some(found)
}

/// The smallest difference of two documents, if it is smaller than the new one.
///
/// Both are gone through side by side: a field that stands elsewhere is told as a new one.
fn of_documents(before: &Document, after: &Document) -> Option<Document> {
    let mut parts = Parts::default();
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
