//! The census after the operations: each answer is compared with the contents of the database.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::TryStreamExt;
use steadfast::{
    bson::{Bson, Document, doc},
    error::Outcome,
};

use super::operations::{Answer, Kind, Target, UNTOUCHED, contents, mark};

/// An operation that has ended.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) operation: i64,
    pub(super) kind: Kind,
    pub(super) answer: Answer,
}

/// Contents of the database.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// Number of times that each mark was applied.
    applied: BTreeMap<i64, u64>,
    /// Number of entries, by mark.
    pub(super) entries: BTreeMap<i64, u64>,
    /// Number of documents that are untouched, by mark.
    untouched: BTreeMap<i64, u64>,
    collections: BTreeSet<String>,
    /// Files by name. Each is whole.
    files: BTreeMap<String, u64>,
    /// Contradictions within the database itself.
    contradictions: Vec<String>,
}

impl Census {
    pub(super) async fn take(target: &Target) -> Self {
        let mut census = Self::default();
        let names = target.database.list_collection_names().await.unwrap();
        census.collections = names.into_iter().collect();
        for log in all(&target.logs).await {
            let marks = log.get_array("log").unwrap();
            if log.get_i64("n").unwrap() != i64::try_from(marks.len()).unwrap() {
                census.contradictions.push(format!("torn: {log} counts other than its log"));
            }
            for mark in marks {
                *census.applied.entry(mark.as_i64().unwrap()).or_default() += 1;
            }
        }
        for entry in all(&target.entries).await {
            let mark = entry.get_i64("mark").unwrap();
            *census.applied.entry(mark).or_default() += 1;
            *census.entries.entry(mark).or_default() += 1;
        }
        for document in all(&target.documents).await {
            if document.get_str("state").unwrap() == UNTOUCHED {
                *census.untouched.entry(document.get_i64("mark").unwrap()).or_default() += 1;
            }
        }
        census.take_files(target).await;
        census
    }

    /// Leaves an entry out.
    pub(super) fn remove(&mut self, mark: i64) {
        self.applied.remove(&mark);
        self.entries.remove(&mark);
    }

    /// Compares each file with the bytes that were uploaded.
    async fn take_files(&mut self, target: &Target) {
        let mut stored: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let chunks = target.database.collection::<Document>("fs.chunks");
        let sorted = chunks.find(doc! {}).sort(doc! { "files_id": 1, "n": 1 });
        let chunks: Vec<Document> = sorted.await.unwrap().try_collect().await.unwrap();
        for chunk in chunks {
            let Some(Bson::Binary(data)) = chunk.get("data") else { panic!("{chunk}") };
            stored
                .entry(chunk.get("files_id").unwrap().to_string())
                .or_default()
                .extend(&data.bytes);
        }
        for file in all(&target.database.collection("fs.files")).await {
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
    fn times_of(&self, record: &Record, nth: i64) -> u64 {
        let Record { operation, kind, .. } = record;
        let file = || self.files.get(&operation.to_string()).copied().unwrap_or_default();
        let first = mark(*operation, 0);
        match kind {
            Kind::CreateCollection => {
                u64::from(self.collections.contains(&format!("new_{operation}")))
            }
            Kind::DropCollection => {
                u64::from(!self.collections.contains(&format!("old_{operation}")))
            }
            Kind::Upload | Kind::UploadStream | Kind::RenameFile => file(),
            Kind::DeleteFile => 1 - file(),
            _ if kind.copies() > 0 => {
                kind.copies() - self.untouched.get(&first).copied().unwrap_or_default()
            }
            _ => self.applied.get(&mark(*operation, nth)).copied().unwrap_or_default(),
        }
    }

    /// Compares the database with the answers. Returns the contradictions, each with its name first: torn,
    /// duplicated, lost, mislabelled, hung or never asked for.
    pub(super) fn judge(mut self, records: &[Record]) -> Vec<String> {
        let mut contradictions = std::mem::take(&mut self.contradictions);
        let mut asked_for = BTreeSet::new();
        for record in records {
            let times: Vec<u64> =
                (0..record.kind.marks()).map(|nth| self.times_of(record, nth)).collect();
            asked_for.extend((0..record.kind.marks()).map(|nth| mark(record.operation, nth)));
            let fault = fault(record, &times);
            contradictions.extend(fault.map(|fault| format!("{fault}: {times:?} of {record:?}")));
        }
        let strange = self.applied.keys().filter(|mark| !asked_for.contains(mark));
        contradictions.extend(strange.map(|mark| format!("never asked for: mark {mark}")));
        contradictions
    }
}

/// The contradiction between an answer and the number of times that each of its writes was applied.
fn fault(record: &Record, times: &[u64]) -> Option<&'static str> {
    let is_applied = times.iter().any(|times| *times > 0);
    let is_whole = times.iter().all(|times| *times > 0);
    match &record.answer {
        Answer::Hung => Some("hung"),
        _ if record.kind.is_transaction() && is_applied && !is_whole => Some("torn"),
        _ if times.iter().any(|times| *times > 1) => Some("duplicated"),
        Answer::Acknowledged if !is_whole => Some("lost"),
        Answer::Aborted if is_applied => Some("mislabelled"),
        Answer::Failed(outcome) if outcome.is_certainly_not_applied() && is_applied => {
            Some("mislabelled")
        }
        Answer::Failed(Outcome::AppliedNotDurable) if !is_applied => Some("mislabelled"),
        _ => None,
    }
}

async fn all(collection: &steadfast::Collection<Document>) -> Vec<Document> {
    collection.find(doc! {}).await.unwrap().try_collect().await.unwrap()
}
