//! What the writers said of each document, held against where the datacenters really have it.
//!
//! Every document has a key that no other has (`message_id`), so that of each it can be told where its
//! copies are. Nothing here asks a server: the controls can spoil the books and see them refused.

use std::{collections::BTreeMap, fmt};

use steadfast::{
    bson::{Document, oid::ObjectId},
    error::Outcome,
};
use steadfast_patterns::local_writes::{FailedAttempt, LocalWriteError, Receipt};

/// A copy of a document: the datacenter that it names, and its `_id`.
pub(crate) type Copy = (String, ObjectId);

/// What was said of one document.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// Where the receipt says it is. `None`: there was an error instead.
    pub(crate) acknowledged: Option<Copy>,
    /// Where else it may be.
    pub(crate) doubtful: Vec<Copy>,
    /// Where it was tried and certainly is not.
    pub(crate) denied: Vec<Copy>,
}

impl Told {
    pub(crate) fn of(answer: &Result<Receipt, LocalWriteError>) -> Self {
        match answer {
            Ok(receipt) => {
                let doubtful = receipt.may_also_be_in().map(copy).collect();
                let denied = receipt.failed().iter().filter(|it| is_certain(it)).map(copy);
                let acknowledged = Some((receipt.datacenter().to_owned(), receipt.id()));
                Self { acknowledged, doubtful, denied: denied.collect() }
            }
            Err(error) => {
                let attempts: &[FailedAttempt] = match error {
                    LocalWriteError::AllDown { attempts, .. } => attempts,
                    other => panic!("nothing is wrong with the document: {other}"),
                };
                let (certain, doubtful): (Vec<_>, Vec<_>) =
                    attempts.iter().partition(|failed| is_certain(failed));
                let copies = |all: Vec<&FailedAttempt>| all.into_iter().map(copy).collect();
                Self { acknowledged: None, doubtful: copies(doubtful), denied: copies(certain) }
            }
        }
    }
}

fn copy(failed: &FailedAttempt) -> Copy {
    (failed.datacenter.clone(), failed.id)
}

/// Whether the write certainly did not happen, judged apart from the receipt's own word for it.
pub(crate) fn is_certain(failed: &FailedAttempt) -> bool {
    matches!(failed.outcome, Outcome::NotSent | Outcome::NotApplied)
}

/// What was said of all documents, by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books(pub(crate) BTreeMap<i64, Told>);

impl Books {
    pub(crate) fn note(&mut self, key: i64, told: Told) {
        assert!(self.0.insert(key, told).is_none(), "key {key} is used twice");
    }

    pub(crate) fn acknowledged(&self) -> impl Iterator<Item = i64> + '_ {
        self.0.iter().filter(|(_, told)| told.acknowledged.is_some()).map(|(&key, _)| key)
    }

    /// The same books, kept by somebody who does not say where else a document may be.
    pub(crate) fn without_doubts(mut self) -> Self {
        self.0.values_mut().for_each(|told| told.doubtful.clear());
        self
    }

    /// Holds what was said against what is there.
    pub(crate) fn judge(&self, census: &Census) -> Verdict {
        let mut verdict = Verdict { documents: self.0.len(), ..Verdict::default() };
        let none = BTreeMap::new();
        for (&key, told) in &self.0 {
            let there = census.0.get(&key).unwrap_or(&none);
            if let Some((datacenter, id)) = &told.acknowledged {
                let is_there = there.get(id).is_some_and(|found| found.datacenter == *datacenter);
                if !is_there {
                    verdict.lost.push(key);
                }
                verdict.acknowledged += 1;
            }
            for (id, found) in there {
                let is = |copy: &Copy| copy.1 == *id && copy.0 == found.datacenter;
                let is_explained = told.acknowledged.iter().chain(&told.doubtful).any(is);
                if !is_explained {
                    verdict.unexplained.push((key, *id));
                }
                if found.place != found.datacenter {
                    verdict.misplaced.push((key, *id));
                }
            }
            verdict.doubtful += usize::from(!told.doubtful.is_empty());
            verdict.denied += told.denied.len();
            verdict.duplicated += usize::from(there.len() > 1);
            verdict.surplus += there.len().saturating_sub(1);
            verdict.kept_without_a_receipt +=
                usize::from(told.acknowledged.is_none() && !there.is_empty());
        }
        let unheard_of = census.0.keys().filter(|key| !self.0.contains_key(key));
        verdict.unheard_of.extend(unheard_of);
        verdict
    }
}

/// A copy that is there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    /// The datacenter whose servers have it.
    pub(crate) place: String,
    /// The datacenter that it names.
    pub(crate) datacenter: String,
}

/// All copies that are there, by key and `_id`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Census(pub(crate) BTreeMap<i64, BTreeMap<ObjectId, Found>>);

impl Census {
    /// Counts what the servers of one datacenter have.
    pub(crate) fn add(&mut self, place: &str, documents: &[Document]) {
        for document in documents {
            let key = document.get_i64("message_id").unwrap();
            let id = document.get_object_id("_id").unwrap();
            let datacenter = document.get_str("datacenter").unwrap().to_owned();
            let found = Found { place: place.to_owned(), datacenter };
            let before = self.0.entry(key).or_default().insert(id, found);
            assert_eq!(before, None, "{id} is there twice");
        }
    }

    /// How many copies are more than one of each.
    pub(crate) fn surplus(&self) -> u64 {
        self.0.values().map(|copies| copies.len() as u64 - 1).sum()
    }

    /// The copy of each document that was made first, by its `_id`.
    pub(crate) fn firsts(&self) -> BTreeMap<i64, ObjectId> {
        self.0.iter().map(|(&key, copies)| (key, *copies.keys().next().unwrap())).collect()
    }
}

/// Where the answers and the data disagree, and how much there was to disagree about.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Acknowledged, and not where the receipt says.
    pub(crate) lost: Vec<i64>,
    /// There, and no receipt or error says that it may be.
    pub(crate) unexplained: Vec<(i64, ObjectId)>,
    /// On the servers of another datacenter than it names.
    pub(crate) misplaced: Vec<(i64, ObjectId)>,
    /// There, and never written.
    pub(crate) unheard_of: Vec<i64>,
    pub(crate) documents: usize,
    pub(crate) acknowledged: usize,
    /// Documents of which it was said that there may be another copy.
    pub(crate) doubtful: usize,
    /// Attempts that were said to have left no copy.
    pub(crate) denied: usize,
    /// Documents with more than one copy, and how many copies too many.
    pub(crate) duplicated: usize,
    pub(crate) surplus: usize,
    /// Documents whose insert failed everywhere, and which are there all the same.
    pub(crate) kept_without_a_receipt: usize,
}

impl Verdict {
    pub(crate) fn is_clean(&self) -> bool {
        self.lost.is_empty()
            && self.unexplained.is_empty()
            && self.misplaced.is_empty()
            && self.unheard_of.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} documents, {} acknowledged; {} lost, {} unexplained, {} misplaced; {} receipts and \
             errors name copies in doubt, {} attempts were certain to have left none; {} documents \
             are there more than once, {} though no insert of them was acknowledged",
            self.documents,
            self.acknowledged,
            self.lost.len(),
            self.unexplained.len(),
            self.misplaced.len(),
            self.doubtful,
            self.denied,
            self.duplicated,
            self.kept_without_a_receipt
        )
    }
}
