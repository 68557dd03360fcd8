//! Index keys and their order.

use std::{cmp::Ordering, sync::Arc};

use bson::{Bson, Document};

use crate::{
    Code, Collation, Fault, path,
    value::{self, is_nullish},
};

use super::{Index, hash::hashed, key_pattern::KeyDirection};

/// A key of an index: one value for each field. Keys of an index compare in its order. Equal keys
/// violate a unique index.
#[derive(Clone, Debug)]
pub struct IndexKey {
    values: Vec<Bson>,
    order: Arc<KeyOrder>,
}

/// Order of the keys of an index.
#[derive(Debug)]
pub(super) struct KeyOrder {
    pub(super) directions: Vec<KeyDirection>,
    pub(super) collation: Collation,
}

impl KeyOrder {
    pub(super) fn new(directions: Vec<KeyDirection>, collation: Collation) -> Self {
        Self { directions, collation }
    }
}

impl IndexKey {
    pub(super) fn new(values: Vec<Bson>, order: Arc<KeyOrder>) -> Self {
        Self { values, order }
    }

    /// Returns the values, in the order of the indexed fields.
    pub fn values(&self) -> &[Bson] {
        &self.values
    }

    /// Returns `true` if `other` is a prefix of this key.
    pub fn begins_with(&self, other: &Self) -> bool {
        let equal = |(left, right)| value::compare(left, right, &self.order.collation).is_eq();
        self.values.len() >= other.values.len() && self.values.iter().zip(&other.values).all(equal)
    }
}

impl Ord for IndexKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.values
            .iter()
            .zip(&other.values)
            .zip(&self.order.directions)
            .map(|((left, right), direction)| {
                let order = value::compare(left, right, &self.order.collation);
                if *direction == KeyDirection::Descending { order.reverse() } else { order }
            })
            .find(|order| order.is_ne())
            .unwrap_or_else(|| self.values.len().cmp(&other.values.len()))
    }
}

impl PartialOrd for IndexKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for IndexKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for IndexKey {}

impl Index {
    /// Returns the keys of a document, without the partial filter.
    pub(super) fn all_keys(&self, document: &Document) -> Result<Vec<IndexKey>, Fault> {
        if self.hashed.is_some() {
            self.check_no_arrays(document)?;
        }
        let mut found = path::index_keys(document, &self.paths)
            .map_err(|fault| self.with_names(fault, document))?;
        if self.sparse && !self.has_null(document) {
            // Null stands for a missing field, since no indexed field is null here.
            found.retain(|values| !values.iter().all(is_nullish));
        }
        if let Some(at) = self.hashed {
            for values in &mut found {
                values[at] = Bson::Int64(hashed(&values[at]));
            }
        }
        let mut keys: Vec<IndexKey> = found
            .into_iter()
            .map(|values| IndexKey::new(values, Arc::clone(&self.order)))
            .collect();
        keys.sort();
        keys.dedup();
        Ok(keys)
    }

    /// Returns `true` if an indexed field is present and null. An empty array counts as null.
    fn has_null(&self, document: &Document) -> bool {
        self.pattern.keys().any(|path| {
            path::values(document, path).into_iter().flatten().any(|value| match value {
                Bson::Array(elements) => elements.is_empty(),
                other => is_nullish(other),
            })
        })
    }

    /// Fails if the document has an array in a field of a hashed index.
    fn check_no_arrays(&self, document: &Document) -> Result<(), Fault> {
        let paths = self.pattern.keys().map(|path| path.split('.').collect::<Vec<_>>());
        for path in paths {
            if let Some((_, _, rest)) = first_array(document, &path) {
                let way = path[..path.len() - rest.len()].join(".");
                let message = format!(
                    "Error: hashed indexes do not currently support array values. Found array at \
                     path: {way}"
                );
                return Err(Fault::location(16766, message));
            }
        }
        Ok(())
    }

    /// Adds the names of both arrays to an error about parallel arrays.
    fn with_names(&self, fault: Fault, document: &Document) -> Fault {
        if fault.code != Code::named(171, "CannotIndexParallelArrays") {
            return fault;
        }
        let paths: Vec<Vec<&str>> = self.pattern.keys().map(|it| it.split('.').collect()).collect();
        let ways: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
        match parallel(document, &ways) {
            Some((one, other)) => Fault {
                message: format!("cannot index parallel arrays [{other}] [{one}]"),
                ..fault
            },
            None => fault,
        }
    }
}

/// Returns the names of the first two parallel arrays.
fn parallel<'p>(document: &Document, ways: &[&[&'p str]]) -> Option<(&'p str, &'p str)> {
    let mut first: Option<(&'p str, &Vec<Bson>)> = None;
    let mut beyond = Vec::new();
    for way in ways {
        let Some((name, elements, rest)) = first_array(document, way) else { continue };
        match first {
            Some((other, seen)) if !std::ptr::eq(seen, elements) => return Some((other, name)),
            Some(_) => {}
            None => first = Some((name, elements)),
        }
        beyond.push(rest);
    }
    let (_, elements) = first?;
    elements.iter().filter_map(Bson::as_document).find_map(|it| parallel(it, &beyond))
}

fn first_array<'d, 'p, 'w>(
    document: &'d Document,
    way: &'w [&'p str],
) -> Option<(&'p str, &'d Vec<Bson>, &'w [&'p str])> {
    let (name, rest) = way.split_first()?;
    match document.get(name)? {
        Bson::Array(elements) => Some((name, elements, rest)),
        Bson::Document(inner) => first_array(inner, rest),
        _ => None,
    }
}
