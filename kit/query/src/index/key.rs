//! Keys of an index, and the order that they have in it.

use std::{cmp::Ordering, sync::Arc};

use bson::{Bson, Document};

use crate::{
    Code, Collation, Fault, path,
    value::{self, is_nullish},
};

use super::{Index, hash::hashed, pattern::Direction};

/// A key of an index: one value for each of its fields. Keys of one index have the index's order, and
/// are equal if a unique index refuses the second.
#[derive(Clone, Debug)]
pub struct Key {
    values: Vec<Bson>,
    order: Arc<Order>,
}

/// How the keys of an index compare.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) directions: Vec<Direction>,
    pub(super) collation: Collation,
}

impl Order {
    pub(super) fn new(directions: Vec<Direction>, collation: Collation) -> Self {
        Self { directions, collation }
    }
}

impl Key {
    pub(super) fn new(values: Vec<Bson>, order: Arc<Order>) -> Self {
        Self { values, order }
    }

    /// The values, in the order of the index's fields.
    pub fn values(&self) -> &[Bson] {
        &self.values
    }

    /// Whether its first values are those of another key of the index, which may have fewer.
    pub fn begins_with(&self, other: &Self) -> bool {
        let equal = |(left, right)| value::compare(left, right, &self.order.collation).is_eq();
        self.values.len() >= other.values.len() && self.values.iter().zip(&other.values).all(equal)
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.values
            .iter()
            .zip(&other.values)
            .zip(&self.order.directions)
            .map(|((left, right), direction)| {
                let order = value::compare(left, right, &self.order.collation);
                if *direction == Direction::Descending { order.reverse() } else { order }
            })
            .find(|order| order.is_ne())
            .unwrap_or_else(|| self.values.len().cmp(&other.values.len()))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

impl Index {
    /// The keys of a document that a partial index has.
    pub(super) fn keys_in_full(&self, document: &Document) -> Result<Vec<Key>, Fault> {
        if self.hashed.is_some() {
            self.refuse_arrays(document)?;
        }
        let mut found = path::index_keys(document, &self.paths)
            .map_err(|fault| self.with_names(fault, document))?;
        if self.sparse && !self.has_null(document) {
            // Null stands for what is missing; no field is null by itself.
            found.retain(|values| !values.iter().all(is_nullish));
        }
        if let Some(at) = self.hashed {
            for values in &mut found {
                values[at] = Bson::Int64(hashed(&values[at]));
            }
        }
        let mut keys: Vec<Key> =
            found.into_iter().map(|values| Key::new(values, Arc::clone(&self.order))).collect();
        keys.sort();
        keys.dedup();
        Ok(keys)
    }

    /// Whether one of the fields is there and null (an empty array counts too).
    fn has_null(&self, document: &Document) -> bool {
        self.pattern.keys().any(|path| {
            path::values(document, path).into_iter().flatten().any(|value| match value {
                Bson::Array(elements) => elements.is_empty(),
                other => is_nullish(other),
            })
        })
    }

    /// An index with a hashed field has no arrays, in none of its fields.
    fn refuse_arrays(&self, document: &Document) -> Result<(), Fault> {
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

    /// An error about parallel arrays, with the names of both as a server has them.
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

/// The names of the first two arrays that paths lead through next to each other.
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
