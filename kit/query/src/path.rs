//! Dotted paths such as `a.b.0.c`.

mod keys;
mod walk;

use bson::{Bson, Document};

use crate::{Code, Fault};

pub use walk::{PathValue, TrailingArray};

/// A dotted path, split into components.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    parts: Vec<PathComponent>,
}

/// A component of a path: a field name, and an array index if it is numeric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PathComponent {
    pub(crate) name: String,
    pub(crate) index: Option<usize>,
}

impl PathComponent {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), index: index(name) }
    }
}

/// Returns the array index of a path component: digits without leading zeros.
pub fn index(component: &str) -> Option<usize> {
    let digits = component.bytes().all(|it| it.is_ascii_digit());
    let plain = component.len() == 1 || !component.starts_with('0');
    (digits && plain).then(|| component.parse().ok()).flatten()
}

impl Path {
    /// Splits a path at its dots.
    pub fn new(path: &str) -> Self {
        Self { parts: path.split('.').map(PathComponent::new).collect() }
    }

    /// Returns the dotted path.
    pub fn text(&self) -> String {
        self.parts.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(".")
    }

    /// Returns `true` if the path has only this component.
    pub fn is(&self, name: &str) -> bool {
        self.only() == Some(name)
    }

    /// Returns the name of a path with one component.
    pub fn only(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [part] => Some(&part.name),
            _ => None,
        }
    }

    /// Returns the names of the components.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|it| it.name.as_str())
    }

    pub(crate) fn parts(&self) -> &[PathComponent] {
        &self.parts
    }
}

/// Checks a path of a sort, a projection or an expression.
///
/// # Errors
///
/// Fails for empty components, and for those that start with `$`, except fields of a DBRef.
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

/// Maximum number of components of a path.
const MAX_PATH_COMPONENTS: usize = 200;

/// Fails for a path with too many components.
pub(crate) fn check_length(path: &str) -> Result<(), Fault> {
    match path.split('.').count() <= MAX_PATH_COMPONENTS {
        true => Ok(()),
        false => Err(Fault::new(Code::OVERFLOW, "FieldPath is too long")),
    }
}

/// Returns all values of a path as a filter evaluates it: through arrays, and for an array at the
/// end its elements and the array itself. `None` stands for a missing field.
pub fn values<'d>(document: &'d Document, path: &str) -> Vec<Option<&'d Bson>> {
    let mut found = Vec::new();
    Path::new(path).visit(document, TrailingArray::Elements, &mut |place| {
        found.push(place.value);
        false
    });
    found
}

/// Returns the index values of a path: each element of an array, null for a missing field,
/// undefined for an empty array.
///
/// An ambiguous path (`a.0` in `{a: [{"0": 1}]}`) has no values here; [`index_keys`] fails for it.
pub fn index_values(document: &Document, path: &str) -> Vec<Bson> {
    let keys = index_keys(document, &[Path::new(path)]).unwrap_or_default();
    keys.into_iter().flatten().collect()
}

/// Returns the index keys of several paths, each with one value per path.
///
/// # Errors
///
/// Fails for parallel arrays and ambiguous paths.
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
