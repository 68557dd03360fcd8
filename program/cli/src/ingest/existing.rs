//! Lookup of existing `_id`s: in a repeated run, most documents exist and need not be sent.
//!
//! A query by `_id` is much faster than an insert that fails with a duplicate key error, but useless in a first run.
//! The lookup is enabled after a batch whose documents all existed, and disabled after a batch without existing ones.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use steadfast::{
    Collection,
    bson::{Bson, RawBsonRef, RawDocumentBuf, doc, raw::cstr},
    error::Result,
    options::{ReadConcern, ReadPreference, SelectionCriteria},
};

/// Lookup of existing `_id`s, enabled or disabled.
#[derive(Debug, Default)]
pub(super) struct ExistingIds {
    is_enabled: AtomicBool,
}

impl ExistingIds {
    /// Enables the lookup, after a batch whose documents all existed.
    pub(super) fn enable(&self) {
        self.is_enabled.store(true, Relaxed);
    }

    /// Returns `true` for each document that exists: a majority of the members has a document with exactly its `_id`.
    /// Returns `false` for the others, which must be sent, and for all if the lookup is disabled.
    pub(super) async fn lookup(
        &self,
        collection: &Collection<RawDocumentBuf>,
        documents: &[&RawDocumentBuf],
    ) -> Vec<bool> {
        let none = vec![false; documents.len()];
        if !self.is_enabled.load(Relaxed) {
            return none;
        }
        // After an error, the documents are sent; duplicates then enable the lookup again.
        let found = found(collection, documents).await.unwrap_or_default();
        if found.is_empty() {
            self.is_enabled.store(false, Relaxed);
            return none;
        }
        let exists = |document: &&RawDocumentBuf| {
            id_of(document).is_some_and(|id| found.contains(id_document(id).as_bytes()))
        };
        documents.iter().map(exists).collect()
    }
}

/// Returns the existing `_id`s, each as the bytes of a document with only that field. `$in` also matches equal values
/// of other types, such as 1.0 for 1, and with a collation other strings.
async fn found(
    collection: &Collection<RawDocumentBuf>,
    documents: &[&RawDocumentBuf],
) -> Result<BTreeSet<Vec<u8>>> {
    let ids: Vec<Bson> = documents.iter().filter_map(|it| id_of(it)?.try_into().ok()).collect();
    let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
    let mut cursor = collection
        .find(doc! { "_id": { "$in": ids } })
        .projection(doc! { "_id": 1 })
        .selection_criteria(primary)
        // A document without a majority may be rolled back. It is sent, which waits for the majority.
        .read_concern(ReadConcern::majority())
        // One batch contains all results.
        .batch_size(count.saturating_add(1))
        .await?;
    let mut found = BTreeSet::new();
    while cursor.advance().await? {
        found.insert(cursor.current().as_bytes().to_vec());
    }
    Ok(found)
}

fn id_of(document: &RawDocumentBuf) -> Option<RawBsonRef<'_>> {
    document.get("_id").ok().flatten()
}

fn id_document(id: RawBsonRef<'_>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("_id"), id);
    document
}
