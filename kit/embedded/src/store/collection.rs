//! A collection: documents in natural order, and indexes.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
    sync::Arc,
};

use bson::{Bson, Document, Uuid};
use rpds::RedBlackTreeMapSync;
use steadfast_query::{
    Code, Collation, Environment, Fault, Filter, index::IndexKey, value::Number,
};

use super::{index::Index, size::size_of_document};
use crate::namespace::Namespace;

/// Position of a document in natural order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordId(pub(super) u64);

/// A collection or a view.
#[derive(Clone, Debug)]
pub(crate) struct Collection {
    uuid: Uuid,
    options: Arc<Document>,
    records: RedBlackTreeMapSync<RecordId, StoredRecord>,
    next: RecordId,
    size: u64,
    /// The index on `_id` first. A view has none.
    indexes: Vec<Index>,
}

#[derive(Clone, Debug)]
struct StoredRecord {
    document: Arc<Document>,
    size: usize,
}

impl Collection {
    pub(super) fn new(uuid: Uuid, options: Document) -> Result<Self, Fault> {
        let is_view = options.contains_key("viewOn");
        let indexes = if is_view {
            Vec::new()
        } else {
            vec![Index::of_ids(options.get_document("collation").ok())?]
        };
        Ok(Self {
            uuid,
            options: Arc::new(options),
            records: RedBlackTreeMapSync::new_sync(),
            next: RecordId(1),
            size: 0,
            indexes,
        })
    }

    /// UUID of the collection.
    pub(crate) fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Options of the collection.
    pub(crate) fn options(&self) -> &Document {
        &self.options
    }

    /// Returns `true` for a view (`viewOn`).
    pub(crate) fn is_view(&self) -> bool {
        self.options.contains_key("viewOn")
    }

    /// Returns `true` for a capped collection.
    pub(crate) fn is_capped(&self) -> bool {
        self.options.get_bool("capped").unwrap_or(false)
    }

    /// Indexes, the one on `_id` first.
    pub(crate) fn indexes(&self) -> &[Index] {
        &self.indexes
    }

    /// An index by its name.
    pub(crate) fn index(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| index.name() == name)
    }

    /// Number of documents.
    pub(crate) fn len(&self) -> usize {
        self.records.size()
    }

    /// Size of the documents in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Documents in natural order.
    pub(crate) fn documents(&self) -> impl DoubleEndedIterator<Item = &Arc<Document>> {
        self.records.values().map(|record| &record.document)
    }

    /// The document with this `_id`.
    pub(crate) fn by_id(&self, id: &Bson) -> Option<&Arc<Document>> {
        self.record_of(id).map(|(_, record)| &record.document)
    }

    /// Documents in natural order, including all that match a filter: those that an index finds by
    /// equality, or all.
    pub(crate) fn candidates<'a>(
        &'a self,
        filter: &Filter,
        env: &Environment,
    ) -> Box<dyn Iterator<Item = &'a Arc<Document>> + 'a> {
        if let Some(ids) = filter.id_candidates()
            && env.collation == Collation::simple()
            && !self.options.contains_key("collation")
        {
            let found = ids.iter().filter_map(|id| self.record_of(id));
            let found: BTreeMap<_, _> = found.collect();
            return Box::new(found.into_values().map(|record| &record.document));
        }
        let Some((index, key)) = self.search(filter, env) else {
            return Box::new(self.documents());
        };
        let mut records: Vec<RecordId> = index.with_key(&key).collect();
        records.sort_unstable();
        records.dedup();
        Box::new(records.into_iter().filter_map(|id| Some(&self.records.get(&id)?.document)))
    }

    /// Index that finds the equality conditions of a filter, if there is one.
    pub(crate) fn searched(&self, filter: &Filter, env: &Environment) -> Option<&Index> {
        self.search(filter, env).map(|(index, _)| index)
    }

    fn search(&self, filter: &Filter, env: &Environment) -> Option<(&Index, IndexKey)> {
        let equalities = filter.equalities();
        if equalities.is_empty() {
            return None;
        }
        self.indexes.iter().find_map(|index| Some((index, index.prefix(&equalities, env)?)))
    }

    /// Documents between two keys of an index, in its order, each once.
    pub(crate) fn in_order<'a>(
        &'a self,
        index: &'a Index,
        from: Option<Vec<Bson>>,
        before: Option<Vec<Bson>>,
    ) -> impl Iterator<Item = &'a Arc<Document>> + 'a {
        let mut seen = BTreeSet::new();
        index
            .records(from, before)
            .filter(move |id| seen.insert(*id))
            .filter_map(|id| Some(&self.records.get(&id)?.document))
    }

    /// Record number of the document with this `_id` (`$recordId`).
    pub(crate) fn record_number(&self, id: &Bson) -> Option<u64> {
        self.record_of(id).map(|(record, _)| record.0)
    }

    /// Returns `true` if an index has exactly the keys of all documents.
    pub(crate) fn is_consistent(&self, index: &Index) -> Result<bool, Fault> {
        let mut keys = 0;
        for (id, record) in &self.records {
            for key in index.keys(&record.document)? {
                keys += 1;
                if !index.with_key(&key).any(|record| record == *id) {
                    return Ok(false);
                }
            }
        }
        Ok(keys == index.len())
    }

    pub(super) fn insert(
        &mut self,
        namespace: &Namespace,
        document: &Arc<Document>,
    ) -> Result<(), Fault> {
        if self.is_view() {
            return Err(view(namespace));
        }
        let keys = self.checked_keys(namespace, document, None)?;
        let id = self.next;
        self.next = RecordId(id.0 + 1);
        for (index, keys) in iter::zip(&mut self.indexes, keys) {
            index.add(keys, id);
        }
        let size = size_of_document(document);
        self.size += size as u64;
        self.records.insert_mut(id, StoredRecord { document: Arc::clone(document), size });
        self.remove_oldest()
    }

    pub(super) fn replace(
        &mut self,
        namespace: &Namespace,
        document: &Arc<Document>,
    ) -> Result<(), Fault> {
        let id = document.get("_id").unwrap_or(&Bson::Null);
        let (record, old) = self.record_of(id).ok_or_else(|| no_record(namespace, id))?;
        let old = old.clone();
        let new_keys = self.checked_keys(namespace, document, Some(record))?;
        for (index, new_keys) in iter::zip(&mut self.indexes, new_keys) {
            let old_keys = index.keys(&old.document)?;
            if old_keys != new_keys {
                index.remove(old_keys, record);
                index.add(new_keys, record);
            }
        }
        let size = size_of_document(document);
        self.size = self.size - old.size as u64 + size as u64;
        self.records.insert_mut(record, StoredRecord { document: Arc::clone(document), size });
        Ok(())
    }

    pub(super) fn delete(&mut self, namespace: &Namespace, id: &Bson) -> Result<(), Fault> {
        let (record, _) = self.record_of(id).ok_or_else(|| no_record(namespace, id))?;
        self.remove(record)
    }

    pub(super) fn modify(&mut self, options: Document) {
        self.options = Arc::new(options);
    }

    pub(super) fn create_index(
        &mut self,
        namespace: &Namespace,
        specification: &Document,
    ) -> Result<(), Fault> {
        let mut index = Index::new(specification)?;
        if self.index(index.name()).is_some() {
            return Err(Fault::new(
                Code::INDEX_OPTIONS_CONFLICT,
                format!("Index with name: {} already exists", index.name()),
            ));
        }
        for (id, record) in &self.records {
            let keys = index.keys(&record.document)?;
            if let Some(key) = index.duplicate_key(&keys, None) {
                return Err(self.while_building(namespace, index.duplicate(namespace, key)));
            }
            index.add(keys, *id);
        }
        self.indexes.push(index);
        Ok(())
    }

    pub(super) fn drop_index(&mut self, name: &str) -> Result<(), Fault> {
        let Some(at) = self.indexes.iter().position(|index| index.name() == name) else {
            return Err(Fault::new(
                Code::INDEX_NOT_FOUND,
                format!("index not found with name [{name}]"),
            ));
        };
        if at == 0 {
            return Err(Fault::new(Code::INVALID_OPTIONS, "cannot drop _id index"));
        }
        self.indexes.remove(at);
        Ok(())
    }

    /// Adds the index build to an error. Here the UUID of the build is that of the collection.
    fn while_building(&self, namespace: &Namespace, mut fault: Fault) -> Fault {
        let uuid = self.uuid;
        fault.message = format!(
            "Index build failed: {uuid}: Collection {namespace} ( {uuid} ) :: caused by :: {}",
            fault.message
        );
        fault
    }

    /// Keys of a document in each index. Returns an error for a duplicate key.
    fn checked_keys(
        &self,
        namespace: &Namespace,
        document: &Document,
        record: Option<RecordId>,
    ) -> Result<Vec<Vec<IndexKey>>, Fault> {
        self.indexes
            .iter()
            .map(|index| {
                let keys = index.keys(document)?;
                match index.duplicate_key(&keys, record) {
                    Some(key) => Err(index.duplicate(namespace, key)),
                    None => Ok(keys),
                }
            })
            .collect()
    }

    fn record_of(&self, id: &Bson) -> Option<(RecordId, &StoredRecord)> {
        let index = self.indexes.first()?;
        let record = index.with_key(&index.key(vec![id.clone()])).next()?;
        Some((record, self.records.get(&record)?))
    }

    fn remove(&mut self, id: RecordId) -> Result<(), Fault> {
        let Some(record) = self.records.get(&id).cloned() else { return Ok(()) };
        for index in &mut self.indexes {
            index.remove(index.keys(&record.document)?, id);
        }
        self.size -= record.size as u64;
        self.records.remove_mut(&id);
        Ok(())
    }

    /// Removes the oldest documents of a capped collection above `max` and `size`.
    fn remove_oldest(&mut self) -> Result<(), Fault> {
        if !self.is_capped() {
            return Ok(());
        }
        let limit = |name| {
            let number = Number::of(self.options.get(name)?)?;
            number.truncated().and_then(|limit| u64::try_from(limit).ok())
        };
        let most = limit("max").filter(|max| *max > 0).unwrap_or(u64::MAX);
        let bytes = limit("size").unwrap_or(u64::MAX);
        while self.len() > 1 && (self.len() as u64 > most || self.size > bytes) {
            let Some((oldest, _)) = self.records.first() else { break };
            self.remove(*oldest)?;
        }
        Ok(())
    }
}

/// Error of a write to a view.
fn view(namespace: &Namespace) -> Fault {
    Fault::new(
        Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
        format!("Namespace {namespace} is a view, not a collection"),
    )
}

/// Internal error: commands change only documents that they have found.
fn no_record(namespace: &Namespace, id: &Bson) -> Fault {
    Fault::new(Code::INTERNAL_ERROR, format!("no document in {namespace} has the _id {id}"))
}
