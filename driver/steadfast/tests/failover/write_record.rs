//! Reported outcomes of writes, compared with the data on the servers.
//!
//! Every write has marks, which are unique numbers, so that the number of times that each was applied is known. In
//! a plain sum, a lost write and a duplicate would cancel each other out.

use std::{collections::BTreeMap, fmt};

use steadfast::{
    bson::{Bson, Document, doc},
    error::{Error, Outcome},
};
use testbed::ReplicaSet;

/// Outcome of a write as reported to the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReportedOutcome {
    Acknowledged,
    Failed(Outcome),
}

/// Outcomes of all writes.
#[derive(Debug, Default)]
pub(crate) struct WriteRecord {
    by_mark: BTreeMap<i64, ReportedOutcome>,
    operations: BTreeMap<ReportedOutcome, usize>,
    errors: BTreeMap<String, usize>,
}

impl WriteRecord {
    /// Adds the result of the write with these marks.
    pub(crate) fn add<T>(
        &mut self,
        marks: impl IntoIterator<Item = i64>,
        result: &Result<T, Error>,
    ) {
        let answer = match result {
            Ok(_) => ReportedOutcome::Acknowledged,
            Err(error) => {
                *self.errors.entry(describe(error)).or_default() += 1;
                ReportedOutcome::Failed(error.outcome())
            }
        };
        *self.operations.entry(answer).or_default() += 1;
        for mark in marks {
            assert_eq!(self.by_mark.insert(mark, answer), None, "mark {mark} is used twice");
        }
    }

    pub(crate) fn absorb(&mut self, other: Self) {
        self.by_mark.extend(other.by_mark);
        for (answer, count) in other.operations {
            *self.operations.entry(answer).or_default() += count;
        }
        for (error, count) in other.errors {
            *self.errors.entry(error).or_default() += count;
        }
    }

    /// Returns the number of operations with this outcome.
    pub(crate) fn count(&self, answer: ReportedOutcome) -> usize {
        self.operations.get(&answer).copied().unwrap_or_default()
    }

    /// Returns the number of operations that failed.
    pub(crate) fn failed(&self) -> usize {
        self.operations.values().sum::<usize>() - self.count(ReportedOutcome::Acknowledged)
    }

    /// Returns the number of failed operations that may be applied.
    pub(crate) fn uncertain(&self) -> usize {
        self.count(ReportedOutcome::Failed(Outcome::MaybeApplied))
            + self.count(ReportedOutcome::Failed(Outcome::AppliedNotDurable))
    }

    /// Compares the reported outcomes with the number of times that each mark was applied.
    pub(crate) fn audit(&self, applied: &BTreeMap<i64, usize>) -> Audit {
        let mut audit = Audit::default();
        for (&mark, &answer) in &self.by_mark {
            let times = applied.get(&mark).copied().unwrap_or_default();
            match (answer, times) {
                (_, 2..) => audit.duplicated.push(mark),
                (ReportedOutcome::Acknowledged, 0) => audit.lost.push(mark),
                (ReportedOutcome::Failed(Outcome::NotSent | Outcome::NotApplied), 1) => {
                    audit.mislabelled.push(mark);
                }
                (ReportedOutcome::Acknowledged, _)
                | (ReportedOutcome::Failed(Outcome::NotSent | Outcome::NotApplied), _) => {}
                (
                    ReportedOutcome::Failed(Outcome::MaybeApplied | Outcome::AppliedNotDurable),
                    _,
                ) => {
                    audit.uncertain_applied += times;
                }
            }
        }
        audit.unexpected.extend(applied.keys().filter(|mark| !self.by_mark.contains_key(mark)));
        audit
    }
}

impl fmt::Display for WriteRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = |outcome| self.count(ReportedOutcome::Failed(outcome));
        write!(
            f,
            "{} operations, {} acknowledged, {} not sent, {} not applied, {} maybe applied, {} \
             applied but not durable",
            self.operations.values().sum::<usize>(),
            self.count(ReportedOutcome::Acknowledged),
            failed(Outcome::NotSent),
            failed(Outcome::NotApplied),
            failed(Outcome::MaybeApplied),
            failed(Outcome::AppliedNotDurable),
        )?;
        for (error, count) in &self.errors {
            write!(f, "\n  {count} x {error}")?;
        }
        Ok(())
    }
}

/// Returns the text of an error without the parts that differ between errors of one kind.
fn describe(error: &Error) -> String {
    let words: String = error
        .to_string()
        .chars()
        .filter(|character| !character.is_ascii_digit())
        .take(160)
        .collect();
    format!(
        "{}, code {:?}, after {} attempts: {words}",
        error.outcome(),
        error.code(),
        error.attempts().len()
    )
}

/// Contradictions between reported outcomes and data.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    /// Applied more than once.
    pub(crate) duplicated: Vec<i64>,
    /// Acknowledged, but not applied.
    pub(crate) lost: Vec<i64>,
    /// Reported as not applied, but applied.
    pub(crate) mislabelled: Vec<i64>,
    /// Applied, but never sent.
    pub(crate) unexpected: Vec<i64>,
    /// Number of applied writes with the outcome `MaybeApplied`, which is no contradiction.
    pub(crate) uncertain_applied: usize,
}

impl Audit {
    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        assert!(
            self.duplicated.is_empty()
                && self.lost.is_empty()
                && self.mislabelled.is_empty()
                && self.unexpected.is_empty(),
            "{self:?}"
        );
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} duplicated, {} lost, {} wrongly labelled; of those in doubt {} are applied",
            self.duplicated.len(),
            self.lost.len(),
            self.mislabelled.len(),
            self.uncertain_applied
        )
    }
}

/// Reads all documents of a small collection from the primary, without the driver under test.
pub(crate) fn documents(set: &ReplicaSet, database: &str, collection: &str) -> Vec<Document> {
    // A former primary may not have detected its successor yet; a linearizable read excludes it.
    let find = doc! {
        "find": collection, "batchSize": 1_000_000,
        "readConcern": { "level": "linearizable" }, "maxTimeMS": 60_000,
    };
    let from_primary = || {
        let primary = set.wait_for_primary()?;
        set.run_command(primary, database, find.clone())
    };
    let reply = (0..9).find_map(|_| from_primary().ok());
    let reply = reply.unwrap_or_else(|| from_primary().unwrap());
    let cursor = reply.get_document("cursor").unwrap();
    assert_eq!(cursor.get_i64("id").unwrap(), 0, "one batch holds them all");
    let batch = cursor.get_array("firstBatch").unwrap();
    batch.iter().map(|document| document.as_document().unwrap().clone()).collect()
}

/// Returns the number of times that each mark is in the logs of these documents.
pub(crate) fn logged(documents: &[Document]) -> BTreeMap<i64, usize> {
    let mut times = BTreeMap::new();
    for document in documents {
        for mark in document.get_array("log").unwrap().iter().filter_map(Bson::as_i64) {
            *times.entry(mark).or_default() += 1;
        }
    }
    times
}
