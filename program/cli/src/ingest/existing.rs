//! Looks which documents are there already, so that they need not be sent: when a run is repeated, that is most.
//!
//! A server that refuses a document because it has its `_id` takes much longer over it than one that is asked for
//! the `_id`. But where nothing is there, asking is in vain. So it is asked only after a whole batch was there, and
//! until nothing is.

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

/// Whether it is worth asking.
#[derive(Debug, Default)]
pub(super) struct ExistingIds {
    is_enabled: AtomicBool,
}

impl ExistingIds {
    /// All of some documents were sent, and refused because they were there.
    pub(super) fn enable(&self) {
        self.is_enabled.store(true, Relaxed);
    }

    /// Which of these are there, if it is worth asking. Each for certain: a majority of the members has a document
    /// with exactly its `_id`. Of those that are not among them it is not known, and they are to be sent.
    pub(super) async fn at(
        &self,
        collection: &Collection<RawDocumentBuf>,
        documents: &[&RawDocumentBuf],
    ) -> Vec<bool> {
        let none = vec![false; documents.len()];
        if !self.is_enabled.load(Relaxed) {
            return none;
        }
        // If that fails, they are sent, and whether that is worth another try is to be seen by that.
        let found = found(collection, documents).await.unwrap_or_default();
        if found.is_empty() {
            self.is_enabled.store(false, Relaxed);
            return none;
        }
        let is_there = |document: &&RawDocumentBuf| {
            id_of(document).is_some_and(|id| found.contains(alone(id).as_bytes()))
        };
        documents.iter().map(is_there).collect()
    }
}

/// The `_id`s that are there, each as the bytes of a document that has nothing else. `$in` finds more than what is
/// asked for: 1.0 for 1, and with a collation other strings.
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
        // What is not on a majority yet may be undone; it is sent, and waited for.
        .read_concern(ReadConcern::majority())
        // All in one answer.
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

fn alone(id: RawBsonRef<'_>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("_id"), id);
    document
}
