//! Dotted paths: `a.b.0.c`.

mod keys;
mod walk;

use bson::{Bson, Document};

use crate::{Code, Fault};

pub use walk::{Leaf, Place};

/// A dotted path, taken apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    parts: Vec<Part>,
}

/// A component of a path: the name of a field, and if it looks like one, the index of an element.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) index: Option<usize>,
}

impl Part {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), index: index(name) }
    }
}

/// The index that a component of a path means: digits, with no zero before them.
pub fn index(component: &str) -> Option<usize> {
    let digits = component.bytes().all(|it| it.is_ascii_digit());
    let plain = component.len() == 1 || !component.starts_with('0');
    (digits && plain).then(|| component.parse().ok()).flatten()
}

impl Path {
    /// Takes a path apart at its dots.
    pub fn new(path: &str) -> Self {
        Self { parts: path.split('.').map(Part::new).collect() }
    }

    /// The path as it is written.
    pub fn text(&self) -> String {
        self.parts.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(".")
    }

    /// Whether it is just this name.
    pub fn is(&self, name: &str) -> bool {
        self.only() == Some(name)
    }

    /// Its name, if it has one component.
    pub fn only(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [part] => Some(&part.name),
            _ => None,
        }
    }

    /// The names of its components.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|it| it.name.as_str())
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }
}

/// Checks a path that a sort, a projection or an expression names: it has no empty component, and none
/// that begins with `$`, but for those of a reference to a document elsewhere.
pub fn check_field_path(path: &str) -> Result<(), Fault> {
    if path.is_empty() {
        return Err(Fault::location(40352, "FieldPath cannot be constructed with empty string"));
    }
    if path.ends_with('.') {
        return Err(Fault::location(40353, "FieldPath must not end with a '.'."));
    }
    check_length(path)?;
    for component in path.split('.') {
        if component.is_empty() {
            return Err(Fault::location(15998, "FieldPath field names may not be empty strings."));
        }
        if component.starts_with('$') && !matches!(component, "$id" | "$ref" | "$db") {
            return Err(Fault::location(
                16410,
                "FieldPath field names may not start with '$'. Consider using $getField or \
                 $setField.",
            ));
        }
    }
    Ok(())
}

/// How many names a path has at most.
const MOST_PARTS: usize = 200;

/// Refuses a path of too many names.
pub(crate) fn check_length(path: &str) -> Result<(), Fault> {
    match path.split('.').count() <= MOST_PARTS {
        true => Ok(()),
        false => Err(Fault::new(Code::OVERFLOW, "FieldPath is too long")),
    }
}

/// All values under a path, as a filter sees them: through arrays, and of an array at its end first the
/// elements, then itself. `None` stands for a document on the way that has no such field.
pub fn values<'d>(document: &'d Document, path: &str) -> Vec<Option<&'d Bson>> {
    let mut found = Vec::new();
    Path::new(path).visit(document, Leaf::Elements, &mut |place| {
        found.push(place.value);
        false
    });
    found
}

/// What an index on a path has for a document: of an array, each element. What is missing is null; an
/// empty array is undefined.
///
/// A path that means both an element and a field of an element (`a.0` in `{a: [{"0": 1}]}`) is refused
/// by [`index_keys`]; here it has no values.
pub fn index_values(document: &Document, path: &str) -> Vec<Bson> {
    let keys = index_keys(document, &[Path::new(path)]).unwrap_or_default();
    keys.into_iter().flatten().collect()
}

/// What an index on several paths has for a document: for each entry, the values in the order of the
/// paths. Only one array can be expanded; two that do not lie in each other are refused.
pub fn index_keys(document: &Document, paths: &[Path]) -> Result<Vec<Vec<Bson>>, Fault> {
    let mut keys = Vec::new();
    keys::each(document, paths, &mut |key| {
        keys.push(key.iter().map(|it| (*it).clone()).collect());
    })?;
    keys.sort_by(|left: &Vec<Bson>, right| {
        crate::value::compare_arrays(left, right, &crate::Collation::simple())
    });
    keys.dedup_by(|left, right| {
        crate::value::compare_arrays(left, right, &crate::Collation::simple()).is_eq()
    });
    Ok(keys)
}

pub(crate) use keys::each as each_key;

#[cfg(test)]
mod tests;
