//! Comparison of the results of the operations with the contents of the database.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::TryStreamExt;
use steadfast::{
    bson::{Bson, Document, doc},
    error::Outcome,
};

use super::operations::{
    OperationKind, OperationResult, TestCollections, UNTOUCHED, contents, mark,
};

/// Finished operation.
#[derive(Debug)]
pub(super) struct OperationRecord {
    pub(super) operation: i64,
    pub(super) kind: OperationKind,
    pub(super) result: OperationResult,
}

/// Contents of the database.
#[derive(Debug, Default)]
pub(super) struct AppliedWrites {
    /// Number of times that each mark was applied.
    applied: BTreeMap<i64, u64>,
    /// Number of entries, by mark.
    pub(super) entries: BTreeMap<i64, u64>,
    /// Number of untouched documents, by mark.
    untouched: BTreeMap<i64, u64>,
    collections: BTreeSet<String>,
    /// Files by name. Each is complete.
    files: BTreeMap<String, u64>,
    /// Contradictions within the database.
    contradictions: Vec<String>,
}

impl AppliedWrites {
    pub(super) async fn take(collections: &TestCollections) -> Self {
        let mut applied_writes = Self::default();
        let names = collections.database.list_collection_names().await.unwrap();
        applied_writes.collections = names.into_iter().collect();
        for log in all(&collections.logs).await {
            let marks = log.get_array("log").unwrap();
            if log.get_i64("n").unwrap() != i64::try_from(marks.len()).unwrap() {
                applied_writes
                    .contradictions
                    .push(format!("torn: {log} counts other than its log"));
            }
            for mark in marks {
                *applied_writes.applied.entry(mark.as_i64().unwrap()).or_default() += 1;
            }
        }
        for entry in all(&collections.entries).await {
            let mark = entry.get_i64("mark").unwrap();
            *applied_writes.applied.entry(mark).or_default() += 1;
            *applied_writes.entries.entry(mark).or_default() += 1;
        }
        for document in all(&collections.documents).await {
            if document.get_str("state").unwrap() == UNTOUCHED {
                *applied_writes.untouched.entry(document.get_i64("mark").unwrap()).or_default() +=
                    1;
            }
        }
        applied_writes.take_files(collections).await;
        applied_writes
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, mark: i64) {
        self.applied.remove(&mark);
        self.entries.remove(&mark);
    }

    /// Compares each file with the uploaded bytes.
    async fn take_files(&mut self, collections: &TestCollections) {
        let mut stored: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let chunks = collections.database.collection::<Document>("fs.chunks");
        let sorted = chunks.find(doc! {}).sort(doc! { "files_id": 1, "n": 1 });
        let chunks: Vec<Document> = sorted.await.unwrap().try_collect().await.unwrap();
        for chunk in chunks {
            let Some(Bson::Binary(data)) = chunk.get("data") else { panic!("{chunk}") };
            stored
                .entry(chunk.get("files_id").unwrap().to_string())
                .or_default()
                .extend(&data.bytes);
        }
        for file in all(&collections.database.collection("fs.files")).await {
            let name = file.get_str("filename").unwrap().to_owned();
            let operation = name.trim_start_matches("old ").parse().unwrap_or(-1);
            let bytes = stored.remove(&file.get("_id").unwrap().to_string()).unwrap_or_default();
            if bytes != contents(operation) {
                self.contradictions.push(format!("torn: file {name:?} has {bytes:?}"));
            }
            *self.files.entry(name).or_default() += 1;
        }
    }

    /// Number of times that a write of an operation was applied.
    fn times_of(&self, record: &OperationRecord, nth: i64) -> u64 {
        let OperationRecord { operation, kind, .. } = record;
        let file = || self.files.get(&operation.to_string()).copied().unwrap_or_default();
        let first = mark(*operation, 0);
        match kind {
            OperationKind::CreateCollection => {
                u64::from(self.collections.contains(&format!("new_{operation}")))
            }
            OperationKind::DropCollection => {
                u64::from(!self.collections.contains(&format!("old_{operation}")))
            }
            OperationKind::Upload | OperationKind::UploadStream | OperationKind::RenameFile => {
                file()
            }
            OperationKind::DeleteFile => 1 - file(),
            _ if kind.copies() > 0 => {
                kind.copies() - self.untouched.get(&first).copied().unwrap_or_default()
            }
            _ => self.applied.get(&mark(*operation, nth)).copied().unwrap_or_default(),
        }
    }

    /// Compares the database with the results. Returns the contradictions; each begins with torn, duplicated, lost,
    /// mislabelled, hung or unexpected.
    pub(super) fn contradictions_with(mut self, records: &[OperationRecord]) -> Vec<String> {
        let mut contradictions = std::mem::take(&mut self.contradictions);
        let mut expected = BTreeSet::new();
        for record in records {
            let times: Vec<u64> =
                (0..record.kind.marks()).map(|nth| self.times_of(record, nth)).collect();
            expected.extend((0..record.kind.marks()).map(|nth| mark(record.operation, nth)));
            let fault = fault(record, &times);
            contradictions.extend(fault.map(|fault| format!("{fault}: {times:?} of {record:?}")));
        }
        let strange = self.applied.keys().filter(|mark| !expected.contains(mark));
        contradictions.extend(strange.map(|mark| format!("never asked for: mark {mark}")));
        contradictions
    }
}

/// Returns the contradiction between a result and the number of times that each write was applied.
fn fault(record: &OperationRecord, times: &[u64]) -> Option<&'static str> {
    let is_applied = times.iter().any(|times| *times > 0);
    let is_whole = times.iter().all(|times| *times > 0);
    match &record.result {
        OperationResult::Hung => Some("hung"),
        _ if record.kind.is_transaction() && is_applied && !is_whole => Some("torn"),
        _ if times.iter().any(|times| *times > 1) => Some("duplicated"),
        OperationResult::Acknowledged if !is_whole => Some("lost"),
        OperationResult::Aborted if is_applied => Some("mislabelled"),
        OperationResult::Failed(outcome) if outcome.is_certainly_not_applied() && is_applied => {
            Some("mislabelled")
        }
        OperationResult::Failed(Outcome::AppliedNotDurable) if !is_applied => Some("mislabelled"),
        _ => None,
    }
}

async fn all(collection: &steadfast::Collection<Document>) -> Vec<Document> {
    collection.find(doc! {}).await.unwrap().try_collect().await.unwrap()
}
