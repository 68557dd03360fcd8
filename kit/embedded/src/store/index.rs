//! An index: the records of a collection in the order of their keys.

use std::{ops::Bound, sync::Arc};

use bson::{Bson, DateTime, Document, Timestamp};
use rpds::RedBlackTreeSetSync;
use steadfast_query::{
    Environment, Fault,
    index::{self, IndexKey},
};

use super::collection::RecordId;
use crate::namespace::Namespace;

/// An index of a collection.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    definition: Arc<Definition>,
    entries: RedBlackTreeSetSync<Position>,
}

#[derive(Debug)]
struct Definition {
    /// As `listIndexes` shows it.
    specification: Document,
    index: index::Index,
}

/// A key and the record that has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) key: IndexKey,
    pub(super) record: RecordId,
}

impl Index {
    /// An index by its specification, as `listIndexes` shows it, without entries.
    pub(super) fn new(specification: &Document) -> Result<Self, Fault> {
        let index = index::Index::parse(specification, &timeless())?;
        Ok(Self::of(specification.clone(), index))
    }

    /// The index on `_id` of a collection with this collation.
    pub(super) fn of_ids(collation: Option<&Document>) -> Result<Self, Fault> {
        let index = match collation {
            Some(collation) => index::Index::id_index_with_collation(collation)?,
            None => index::Index::id_index(),
        };
        Ok(Self::of(index.description(), index))
    }

    fn of(specification: Document, index: index::Index) -> Self {
        let definition = Arc::new(Definition { specification, index });
        Self { definition, entries: RedBlackTreeSetSync::new_sync() }
    }

    /// Its name: `a_1`.
    pub(crate) fn name(&self) -> &str {
        self.definition.index.name()
    }

    /// Its fields and their order: `{a: 1}`.
    pub(crate) fn pattern(&self) -> &Document {
        self.definition.index.key_pattern()
    }

    /// What `listIndexes` shows of it.
    pub(crate) fn specification(&self) -> &Document {
        &self.definition.specification
    }

    /// Whether a key may be there once only.
    pub(crate) fn unique(&self) -> bool {
        self.definition.index.is_unique()
    }

    /// How many keys it has.
    pub(crate) fn len(&self) -> usize {
        self.entries.size()
    }

    /// Whether it has a document at all: a sparse or a partial one leaves some out.
    pub(crate) fn holds(&self, document: &Document) -> Result<bool, Fault> {
        Ok(!self.keys(document)?.is_empty())
    }

    /// The keys of a document in it, each once.
    pub(super) fn keys(&self, document: &Document) -> Result<Vec<IndexKey>, Fault> {
        self.definition.index.keys(document, &timeless())
    }

    /// The first of these keys that another record has, if a key may be there once only.
    pub(super) fn taken<'a>(
        &self,
        keys: &'a [IndexKey],
        by: Option<RecordId>,
    ) -> Option<&'a IndexKey> {
        if !self.unique() {
            return None;
        }
        keys.iter().find(|key| self.with_key(key).any(|record| Some(record) != by))
    }

    /// The fault of a change that would bring a key a second time.
    pub(super) fn duplicate(&self, namespace: &Namespace, key: &IndexKey) -> Fault {
        self.definition.index.duplicate_key(&namespace.to_string(), key)
    }

    /// The records with this key, or whose keys begin with it.
    pub(super) fn with_key(&self, key: &IndexKey) -> impl Iterator<Item = RecordId> {
        let first = Position { key: key.clone(), record: RecordId(0) };
        self.entries
            .range::<Position, _>((Bound::Included(first), Bound::Unbounded))
            .take_while(|position| position.key.begins_with(key))
            .map(|position| position.record)
    }

    /// The records in it from one key on and before another, in the order of their keys: once for each
    /// key.
    pub(super) fn records(
        &self,
        from: Option<Vec<Bson>>,
        before: Option<Vec<Bson>>,
    ) -> impl Iterator<Item = RecordId> {
        let end = |values: Vec<Bson>| Position { key: self.key(values), record: RecordId(0) };
        let from = from.map_or(Bound::Unbounded, |values| Bound::Included(end(values)));
        let before = before.map(end);
        self.entries
            .range::<Position, _>((from, Bound::Unbounded))
            .take_while(move |position| before.as_ref().is_none_or(|before| *position < before))
            .map(|position| position.record)
    }

    /// Whether the first of these keys comes before the second in it.
    pub(crate) fn is_before(&self, one: Vec<Bson>, other: Vec<Bson>) -> bool {
        self.key(one) < self.key(other)
    }

    pub(super) fn add(&mut self, keys: Vec<IndexKey>, record: RecordId) {
        for key in keys {
            self.entries.insert_mut(Position { key, record });
        }
    }

    pub(super) fn remove(&mut self, keys: Vec<IndexKey>, record: RecordId) {
        for key in keys {
            self.entries.remove_mut(&Position { key, record });
        }
    }

    /// A key of these values, for a search.
    pub(super) fn key(&self, values: Vec<Bson>) -> IndexKey {
        self.definition.index.key_of(values)
    }

    /// What a filter that demands these equalities demands of the first fields of the index: the key
    /// that all its matches have. `None` if the index may not have all matches, or none can be said.
    pub(super) fn prefix(
        &self,
        equalities: &[(String, Bson)],
        env: &Environment,
    ) -> Option<IndexKey> {
        let index = &self.definition.index;
        if index.is_sparse() || index.partial_filter().is_some() {
            return None;
        }
        let same_order = *index.collation() == env.collation;
        let mut roots = Vec::new();
        let values: Vec<Bson> = self
            .pattern()
            .iter()
            .take_while(|(path, order)| {
                // Two paths into one array may be met by two of its elements, which share no key.
                let root = path.split('.').next();
                let is_new = !roots.contains(&root);
                roots.push(root);
                is_new && is_by_value(path, order)
            })
            .map_while(|(path, _)| equalities.iter().find(|(field, _)| field == path))
            .map(|(_, value)| value.clone())
            .take_while(|value| is_searchable(value) && (same_order || !has_strings(value)))
            .collect();
        (!values.is_empty()).then(|| self.key(values))
    }

    /// The positions, for tests that compare them with a scan.
    #[cfg(test)]
    pub(super) fn positions(&self) -> impl Iterator<Item = &Position> {
        self.entries.iter()
    }
}

/// Whether a field of a pattern has values themselves as keys, not their hashes, and is no element of
/// an array by its number.
fn is_by_value(path: &str, order: &Bson) -> bool {
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    !matches!(order, Bson::String(_)) && !path.split('.').any(is_number)
}

/// Whether a key that equals it finds all that equals it: an array equals an array, but has its
/// elements as keys.
fn is_searchable(value: &Bson) -> bool {
    !matches!(value, Bson::Array(_) | Bson::Undefined | Bson::Null)
}

fn has_strings(value: &Bson) -> bool {
    matches!(value, Bson::String(_) | Bson::Symbol(_) | Bson::Document(_))
}

/// What the filter of a partial index sees: it may ask for nothing that changes.
fn timeless() -> Environment {
    Environment::new(DateTime::from_millis(0), Timestamp { time: 0, increment: 0 }, 0)
}
