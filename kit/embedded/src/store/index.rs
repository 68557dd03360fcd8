//! An index: records of a collection in the order of their keys.

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
    definition: Arc<IndexDefinition>,
    entries: RedBlackTreeSetSync<IndexEntry>,
}

#[derive(Debug)]
struct IndexDefinition {
    /// Specification as `listIndexes` shows it.
    specification: Document,
    index: index::Index,
}

/// A key and its record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IndexEntry {
    pub(super) key: IndexKey,
    pub(super) record: RecordId,
}

impl Index {
    /// An empty index by its specification.
    pub(super) fn new(specification: &Document) -> Result<Self, Fault> {
        let index = index::Index::parse(specification, &fixed_environment())?;
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
        let definition = Arc::new(IndexDefinition { specification, index });
        Self { definition, entries: RedBlackTreeSetSync::new_sync() }
    }

    /// Name, such as `a_1`.
    pub(crate) fn name(&self) -> &str {
        self.definition.index.name()
    }

    /// Key pattern, such as `{a: 1}`.
    pub(crate) fn pattern(&self) -> &Document {
        self.definition.index.key_pattern()
    }

    /// Specification as `listIndexes` shows it.
    pub(crate) fn specification(&self) -> &Document {
        &self.definition.specification
    }

    /// Returns `true` for a unique index.
    pub(crate) fn unique(&self) -> bool {
        self.definition.index.is_unique()
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.entries.size()
    }

    /// Returns `true` if a document belongs to the index. Sparse and partial indexes omit some.
    pub(crate) fn holds(&self, document: &Document) -> Result<bool, Fault> {
        Ok(!self.keys(document)?.is_empty())
    }

    /// Distinct keys of a document.
    pub(super) fn keys(&self, document: &Document) -> Result<Vec<IndexKey>, Fault> {
        self.definition.index.keys(document, &fixed_environment())
    }

    /// First of these keys that another record has, in a unique index.
    pub(super) fn duplicate_key<'a>(
        &self,
        keys: &'a [IndexKey],
        by: Option<RecordId>,
    ) -> Option<&'a IndexKey> {
        if !self.unique() {
            return None;
        }
        keys.iter().find(|key| self.with_key(key).any(|record| Some(record) != by))
    }

    /// Duplicate key error.
    pub(super) fn duplicate(&self, namespace: &Namespace, key: &IndexKey) -> Fault {
        self.definition.index.duplicate_key(&namespace.to_string(), key)
    }

    /// Records with this key or key prefix.
    pub(super) fn with_key(&self, key: &IndexKey) -> impl Iterator<Item = RecordId> {
        let first = IndexEntry { key: key.clone(), record: RecordId(0) };
        self.entries
            .range::<IndexEntry, _>((Bound::Included(first), Bound::Unbounded))
            .take_while(|position| position.key.begins_with(key))
            .map(|position| position.record)
    }

    /// Records between two keys in the order of the index, once for each key.
    pub(super) fn records(
        &self,
        from: Option<Vec<Bson>>,
        before: Option<Vec<Bson>>,
    ) -> impl Iterator<Item = RecordId> {
        let end = |values: Vec<Bson>| IndexEntry { key: self.key(values), record: RecordId(0) };
        let from = from.map_or(Bound::Unbounded, |values| Bound::Included(end(values)));
        let before = before.map(end);
        self.entries
            .range::<IndexEntry, _>((from, Bound::Unbounded))
            .take_while(move |position| before.as_ref().is_none_or(|before| *position < before))
            .map(|position| position.record)
    }

    /// Returns `true` if the first key comes before the second.
    pub(crate) fn is_before(&self, one: Vec<Bson>, other: Vec<Bson>) -> bool {
        self.key(one) < self.key(other)
    }

    pub(super) fn add(&mut self, keys: Vec<IndexKey>, record: RecordId) {
        for key in keys {
            self.entries.insert_mut(IndexEntry { key, record });
        }
    }

    pub(super) fn remove(&mut self, keys: Vec<IndexKey>, record: RecordId) {
        for key in keys {
            self.entries.remove_mut(&IndexEntry { key, record });
        }
    }

    /// Key of these values, for a lookup.
    pub(super) fn key(&self, values: Vec<Bson>) -> IndexKey {
        self.definition.index.key_of(values)
    }

    /// Key prefix that all matches of these equalities have. `None` if the index may omit matches
    /// or has no such prefix.
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
                // Two paths into one array can match in different elements, which have no common
                // key.
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

    /// Entries, for comparison with a scan in tests.
    #[cfg(test)]
    pub(super) fn positions(&self) -> impl Iterator<Item = &IndexEntry> {
        self.entries.iter()
    }
}

/// Returns `true` for a field of a pattern that is not hashed and not an array index.
fn is_by_value(path: &str, order: &Bson) -> bool {
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    !matches!(order, Bson::String(_)) && !path.split('.').any(is_number)
}

/// Returns `true` if a key lookup finds all equal values. An array is equal to an array, but
/// indexed by its elements.
fn is_searchable(value: &Bson) -> bool {
    !matches!(value, Bson::Array(_) | Bson::Undefined | Bson::Null)
}

fn has_strings(value: &Bson) -> bool {
    matches!(value, Bson::String(_) | Bson::Symbol(_) | Bson::Document(_))
}

/// Environment of a partial index filter, which cannot depend on the time.
fn fixed_environment() -> Environment {
    Environment::new(DateTime::from_millis(0), Timestamp { time: 0, increment: 0 }, 0)
}
