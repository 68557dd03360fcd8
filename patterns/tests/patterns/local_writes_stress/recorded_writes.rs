//! Comparison of the results of writes with the stored documents.
//! Every document has a unique key (`message_id`), which identifies its copies. This file does no I/O, so that
//! controls can change the recorded results and check that the difference is detected.

use std::{collections::BTreeMap, fmt};

use steadfast::{
    bson::{Document, oid::ObjectId},
    error::Outcome,
};
use steadfast_patterns::local_writes::{FailedAttempt, LocalWriteError, Receipt};

/// Location of a copy: the value of its datacenter field, and its `_id`.
pub(crate) type CopyId = (String, ObjectId);

/// Result of the write of one document.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordedWrite {
    /// Copy that the receipt names. `None` if no datacenter acknowledged the document.
    pub(crate) acknowledged: Option<CopyId>,
    /// Other copies that may exist.
    pub(crate) possible: Vec<CopyId>,
    /// Attempts that certainly left no copy.
    pub(crate) not_applied: Vec<CopyId>,
}

impl RecordedWrite {
    pub(crate) fn of(result: &Result<Receipt, LocalWriteError>) -> Self {
        match result {
            Ok(receipt) => {
                let possible = receipt.may_also_be_in().map(copy).collect();
                let not_applied = receipt.failed().iter().filter(|it| is_not_applied(it)).map(copy);
                let acknowledged = Some((receipt.datacenter().to_owned(), receipt.id()));
                Self { acknowledged, possible, not_applied: not_applied.collect() }
            }
            Err(error) => {
                let attempts: &[FailedAttempt] = match error {
                    LocalWriteError::AllDown { attempts, .. } => attempts,
                    other => panic!("the document was rejected: {other}"),
                };
                let (certain, possible): (Vec<_>, Vec<_>) =
                    attempts.iter().partition(|failed| is_not_applied(failed));
                let copies = |all: Vec<&FailedAttempt>| all.into_iter().map(copy).collect();
                Self {
                    acknowledged: None,
                    possible: copies(possible),
                    not_applied: copies(certain),
                }
            }
        }
    }
}

fn copy(failed: &FailedAttempt) -> CopyId {
    (failed.datacenter.clone(), failed.id)
}

/// Returns `true` if the attempt was certainly not applied. Derived from the outcome, not from the receipt's
/// methods.
pub(crate) fn is_not_applied(failed: &FailedAttempt) -> bool {
    matches!(failed.outcome, Outcome::NotSent | Outcome::NotApplied)
}

/// Results of all writes, by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordedWrites(pub(crate) BTreeMap<i64, RecordedWrite>);

impl RecordedWrites {
    pub(crate) fn record(&mut self, key: i64, write: RecordedWrite) {
        assert!(self.0.insert(key, write).is_none(), "key {key} is used twice");
    }

    pub(crate) fn acknowledged(&self) -> impl Iterator<Item = i64> + '_ {
        self.0.iter().filter(|(_, write)| write.acknowledged.is_some()).map(|(&key, _)| key)
    }

    /// Returns the results without the other copies that may exist.
    pub(crate) fn without_possible_copies(mut self) -> Self {
        self.0.values_mut().for_each(|write| write.possible.clear());
        self
    }

    /// Compares the results with the stored copies.
    pub(crate) fn compare(&self, stored: &StoredCopies) -> Comparison {
        let mut comparison = Comparison { documents: self.0.len(), ..Comparison::default() };
        let none = BTreeMap::new();
        for (&key, write) in &self.0 {
            let there = stored.0.get(&key).unwrap_or(&none);
            if let Some((datacenter, id)) = &write.acknowledged {
                let is_there = there.get(id).is_some_and(|found| found.datacenter == *datacenter);
                if !is_there {
                    comparison.lost.push(key);
                }
                comparison.acknowledged += 1;
            }
            for (id, found) in there {
                let is = |copy: &CopyId| copy.1 == *id && copy.0 == found.datacenter;
                let is_explained = write.acknowledged.iter().chain(&write.possible).any(is);
                if !is_explained {
                    comparison.unlisted.push((key, *id));
                }
                if found.stored_in != found.datacenter {
                    comparison.misplaced.push((key, *id));
                }
            }
            comparison.possible += usize::from(!write.possible.is_empty());
            comparison.not_applied += write.not_applied.len();
            comparison.duplicated += usize::from(there.len() > 1);
            comparison.surplus += there.len().saturating_sub(1);
            comparison.stored_without_receipt +=
                usize::from(write.acknowledged.is_none() && !there.is_empty());
        }
        let never_written = stored.0.keys().filter(|key| !self.0.contains_key(key));
        comparison.never_written.extend(never_written);
        comparison
    }
}

/// Stored copy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredCopy {
    /// Datacenter whose servers store it.
    pub(crate) stored_in: String,
    /// Value of its datacenter field.
    pub(crate) datacenter: String,
}

/// All stored copies, by key and `_id`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StoredCopies(pub(crate) BTreeMap<i64, BTreeMap<ObjectId, StoredCopy>>);

impl StoredCopies {
    /// Adds the documents that the servers of one datacenter store.
    pub(crate) fn add(&mut self, stored_in: &str, documents: &[Document]) {
        for document in documents {
            let key = document.get_i64("message_id").unwrap();
            let id = document.get_object_id("_id").unwrap();
            let datacenter = document.get_str("datacenter").unwrap().to_owned();
            let found = StoredCopy { stored_in: stored_in.to_owned(), datacenter };
            let before = self.0.entry(key).or_default().insert(id, found);
            assert_eq!(before, None, "{id} is stored twice");
        }
    }

    /// Returns the number of copies beyond one for each key.
    pub(crate) fn surplus(&self) -> u64 {
        self.0.values().map(|copies| copies.len() as u64 - 1).sum()
    }

    /// Returns the copy of each key with the smallest `_id`.
    pub(crate) fn first_copies(&self) -> BTreeMap<i64, ObjectId> {
        self.0.iter().map(|(&key, copies)| (key, *copies.keys().next().unwrap())).collect()
    }
}

/// Differences between the results and the stored copies, and the figures of the run.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Acknowledged documents that are not where the receipt says.
    pub(crate) lost: Vec<i64>,
    /// Copies that no receipt or error lists.
    pub(crate) unlisted: Vec<(i64, ObjectId)>,
    /// Copies in another datacenter than their field names.
    pub(crate) misplaced: Vec<(i64, ObjectId)>,
    /// Stored keys that were never written.
    pub(crate) never_written: Vec<i64>,
    pub(crate) documents: usize,
    pub(crate) acknowledged: usize,
    /// Documents that may have another copy, as their receipt or error says.
    pub(crate) possible: usize,
    /// Attempts that left no copy, as their receipt or error says.
    pub(crate) not_applied: usize,
    /// Documents with several copies, and the number of surplus copies.
    pub(crate) duplicated: usize,
    pub(crate) surplus: usize,
    /// Documents that are stored although no datacenter acknowledged them.
    pub(crate) stored_without_receipt: usize,
}

impl Comparison {
    pub(crate) fn is_clean(&self) -> bool {
        self.lost.is_empty()
            && self.unlisted.is_empty()
            && self.misplaced.is_empty()
            && self.never_written.is_empty()
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} documents, {} acknowledged; {} lost, {} unlisted, {} misplaced; {} receipts and \
             errors name copies in doubt, {} attempts were certain to have left none; {} documents \
             have several copies, {} are stored without an acknowledgement",
            self.documents,
            self.acknowledged,
            self.lost.len(),
            self.unlisted.len(),
            self.misplaced.len(),
            self.possible,
            self.not_applied,
            self.duplicated,
            self.stored_without_receipt
        )
    }
}
