//! Outcomes of the documents of an `insert_many`, over all attempts.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error as _,
};

use bson::Bson;

use super::{
    duplicate_key::{DuplicateKeyOwner, duplicate_key_owner, is_duplicate, of_write_concern},
    insert_one::InsertEvidence,
};
use crate::retry::is_in_doubt;
use steadfast::{
    Namespace,
    error::{
        Error, ErrorKind, IndexedWriteError, InsertManyError, Outcome, WriteConcernError,
        WriteError, WriteFailure,
    },
};

/// Outcome of one document of an [`insert_many`](super::insert_many()).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum InsertOutcome {
    /// The document exists.
    Present(InsertEvidence),
    /// The document exists, but is not yet as durable as requested.
    NotDurable(InsertEvidence),
    /// The server rejected it. If an earlier attempt may have been applied, a duplicate key error may be about
    /// its own `_id`: with a collation, the error does not show that.
    Rejected(Box<WriteError>),
    /// It was sent, and may exist.
    InDoubt,
    /// It does not exist: it was not sent, or not applied.
    NotInserted,
}

/// Outcomes of the documents of an [`insert_many`](super::insert_many()), in their order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InsertedMany {
    /// `_id` of each document.
    pub ids: Vec<Bson>,
    /// Outcome of each document.
    pub outcomes: Vec<InsertOutcome>,
}

impl InsertedMany {
    /// Returns the number of documents that this call is known to have inserted.
    pub fn inserted(&self) -> usize {
        self.count(|outcome| {
            matches!(
                outcome,
                InsertOutcome::Present(
                    InsertEvidence::Acknowledged | InsertEvidence::DuplicateOfOwn
                )
            )
        })
    }

    /// Returns the number of these that a duplicate of their own `_id` proves: an earlier attempt has inserted
    /// them.
    pub fn duplicates_of_own(&self) -> usize {
        self.count(|outcome| {
            matches!(outcome, InsertOutcome::Present(InsertEvidence::DuplicateOfOwn))
        })
    }

    /// Returns the number of documents that existed, which was [accepted](super::InsertMany::ignore_existing).
    /// After a lost reply, these may be of this call.
    pub fn existing(&self) -> usize {
        self.count(|outcome| matches!(outcome, InsertOutcome::Present(InsertEvidence::PreExisting)))
    }

    /// Returns each `_id` with the outcome of its document.
    pub fn iter(&self) -> impl Iterator<Item = (&Bson, &InsertOutcome)> {
        self.ids.iter().zip(&self.outcomes)
    }

    fn count(&self, which: impl Fn(&InsertOutcome) -> bool) -> usize {
        self.outcomes.iter().filter(|outcome| which(outcome)).count()
    }
}

/// Error of an [`insert_many`](super::insert_many()) that failed, or failed in part.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct InsertManyFailure {
    /// Error as of [`Collection::insert_many`](steadfast::Collection::insert_many). Indexes are those of the
    /// documents as they were given.
    #[source]
    pub error: Error,
    /// Outcome of each document.
    pub documents: InsertedMany,
}

impl From<InsertManyFailure> for Error {
    fn from(failure: InsertManyFailure) -> Self {
        failure.error
    }
}

/// Outcomes so far.
#[derive(Debug)]
pub(super) struct InsertOutcomes {
    namespace: Namespace,
    ignore_existing: bool,
    documents: InsertedMany,
    /// Least certain outcome of all failed commands so far. It stays in doubt after a retry has resolved the
    /// doubt; then a document exists, so the whole is not certainly unapplied.
    outcome: Outcome,
}

impl InsertOutcomes {
    pub(super) fn new(namespace: Namespace, ids: Vec<Bson>, ignore_existing: bool) -> Self {
        let outcomes = vec![InsertOutcome::NotInserted; ids.len()];
        let documents = InsertedMany { ids, outcomes };
        Self { namespace, ignore_existing, documents, outcome: Outcome::NotSent }
    }

    /// Records that an attempt with these documents succeeded.
    pub(super) fn acknowledge(&mut self, sent: &[usize]) {
        for &index in sent {
            self.documents.outcomes[index] = InsertOutcome::Present(InsertEvidence::Acknowledged);
        }
    }

    /// Records the result of an attempt with these documents that failed, wholly or in part. Returns the error
    /// to retry after.
    pub(super) fn record_failure(&mut self, sent: &[usize], error: &Error) -> Option<Error> {
        let none = InsertManyError::default();
        let (partial, ended_by) = match &*error.kind {
            ErrorKind::InsertMany(partial) => (partial, end_of_batch(error)),
            _ => (&none, Some(error)),
        };
        self.outcome = self.outcome.max(error.outcome());
        let write_errors: BTreeMap<usize, &IndexedWriteError> = partial
            .write_errors
            .iter()
            .flatten()
            .map(|write_error| (write_error.index, write_error))
            .collect();
        let in_doubt = ended_by.is_some_and(is_in_doubt);
        for (position, &index) in sent.iter().enumerate() {
            if let Some(&write_error) = write_errors.get(&position) {
                self.record_rejection(index, write_error.clone().into());
            } else if partial.inserted_ids.contains_key(&position) {
                self.documents.outcomes[index] =
                    InsertOutcome::Present(InsertEvidence::Acknowledged);
            } else if in_doubt && self.documents.outcomes[index] == InsertOutcome::NotInserted {
                self.documents.outcomes[index] = InsertOutcome::InDoubt;
            }
        }
        let failure = partial.write_concern_error.as_ref();
        if failure.is_some() {
            self.mark_not_durable(sent);
        }
        ended_by
            .cloned()
            .or_else(|| failure.map(|failure| of_write_concern(failure.clone(), error)))
    }

    fn record_rejection(&mut self, index: usize, write_error: WriteError) {
        let is_own = is_duplicate(&write_error)
            && duplicate_key_owner(&write_error, &self.namespace, &self.documents.ids[index])
                == DuplicateKeyOwner::Own;
        let outcome = &mut self.documents.outcomes[index];
        *outcome = match outcome {
            InsertOutcome::NotDurable(known) if is_own => InsertOutcome::Present(*known),
            // Any client may have inserted it.
            _ if is_own && self.ignore_existing => {
                InsertOutcome::Present(InsertEvidence::PreExisting)
            }
            InsertOutcome::InDoubt if is_own => {
                InsertOutcome::Present(InsertEvidence::DuplicateOfOwn)
            }
            _ => InsertOutcome::Rejected(write_error.into()),
        };
    }

    /// Marks the existing ones of these as not durable.
    fn mark_not_durable(&mut self, sent: &[usize]) {
        for &index in sent {
            if let InsertOutcome::Present(known) = self.documents.outcomes[index] {
                self.documents.outcomes[index] = InsertOutcome::NotDurable(known);
            }
        }
    }

    /// Returns `true` if the outcome of a document is not settled.
    pub(super) fn is_open(&self, index: usize) -> bool {
        match self.documents.outcomes[index] {
            InsertOutcome::Present(_) | InsertOutcome::Rejected(_) => false,
            InsertOutcome::NotDurable(_) | InsertOutcome::InDoubt | InsertOutcome::NotInserted => {
                true
            }
        }
    }

    /// Returns the result. `cause` is the error that ended it early.
    pub(super) fn conclude(
        self,
        cause: Option<Error>,
    ) -> std::result::Result<InsertedMany, InsertManyFailure> {
        let write_errors = self.write_errors();
        let error = match cause {
            None if write_errors.is_empty() => return Ok(self.documents),
            None => self.partial_error(write_errors, None),
            Some(cause) if write_errors.is_empty() && self.present().is_empty() => cause,
            Some(cause) => match &*cause.kind {
                ErrorKind::Write(WriteFailure::WriteConcernError(failure)) => {
                    let error = self.partial_error(write_errors, Some(failure.clone()));
                    if self.has_open_documents() { with_cause(error, cause) } else { error }
                }
                _ => with_cause(self.partial_error(write_errors, None), cause),
            },
        };
        let outcome = error.outcome().max(self.outcome.min(Outcome::MaybeApplied));
        let error = error.with_outcome(outcome);
        Err(InsertManyFailure { error, documents: self.documents })
    }

    /// Returns `true` if a document is not known to exist and was not rejected.
    fn has_open_documents(&self) -> bool {
        self.documents
            .outcomes
            .iter()
            .any(|outcome| matches!(outcome, InsertOutcome::InDoubt | InsertOutcome::NotInserted))
    }

    fn partial_error(
        &self,
        write_errors: Vec<IndexedWriteError>,
        write_concern_error: Option<WriteConcernError>,
    ) -> Error {
        let mut error = InsertManyError::default();
        error.write_errors = Some(write_errors).filter(|write_errors| !write_errors.is_empty());
        error.write_concern_error = write_concern_error;
        error.inserted_ids = self.present();
        Error::from(ErrorKind::InsertMany(error))
    }

    fn write_errors(&self) -> Vec<IndexedWriteError> {
        let outcomes = self.documents.outcomes.iter().enumerate();
        outcomes
            .filter_map(|(index, outcome)| match outcome {
                InsertOutcome::Rejected(write_error) => {
                    Some(WriteError::clone(write_error).at(index))
                }
                _ => None,
            })
            .collect()
    }

    /// Returns the `_id`s of the documents that exist.
    fn present(&self) -> HashMap<usize, Bson> {
        let documents = self.documents.iter().enumerate();
        documents
            .filter(|(_, (_, outcome))| {
                matches!(outcome, InsertOutcome::Present(_) | InsertOutcome::NotDurable(_))
            })
            .map(|(index, (id, _))| (index, id.clone()))
            .collect()
    }
}

/// Returns the error that ended a batch early.
fn end_of_batch(error: &Error) -> Option<&Error> {
    error.source().and_then(|source| source.downcast_ref())
}

/// Makes `cause` the error that ended the batch early.
fn with_cause(error: Error, cause: Error) -> Error {
    error.with_context_of(&cause).with_source(cause)
}

#[cfg(test)]
mod tests {
    use std::io;

    use bson::doc;

    use super::*;
    use steadfast::error::Result;

    fn two() -> InsertOutcomes {
        InsertOutcomes::new(Namespace::new("shop", "orders"), vec![1.into(), 2.into()], false)
    }

    fn lost_reply() -> Error {
        let error = Error::from(io::Error::from(io::ErrorKind::ConnectionReset));
        error.with_outcome(Outcome::MaybeApplied)
    }

    fn insert_many_error(
        write_errors: Option<Vec<IndexedWriteError>>,
        write_concern_error: Option<WriteConcernError>,
        inserted_ids: HashMap<usize, Bson>,
    ) -> Error {
        let mut error = InsertManyError::default();
        error.write_errors = write_errors;
        error.write_concern_error = write_concern_error;
        error.inserted_ids = inserted_ids;
        Error::from(ErrorKind::InsertMany(error))
    }

    /// The second document was rejected, the first inserted.
    fn with_rejected_second(write_error: bson::Document) -> Error {
        let write_error: WriteError = bson::deserialize_from_document(write_error).unwrap();
        insert_many_error(Some(vec![write_error.at(1)]), None, HashMap::from([(0, 1.into())]))
    }

    fn own_key() -> bson::Document {
        doc! { "code": 11000, "keyPattern": { "_id": 1 }, "keyValue": { "_id": 2 } }
    }

    fn outcome<T: std::fmt::Debug>(result: std::result::Result<T, InsertManyFailure>) -> Outcome {
        let result: Result<T> = result.map_err(Error::from);
        result.unwrap_err().outcome()
    }

    #[test]
    fn duplicate_of_own_id_is_evidence_only_after_an_attempt_in_doubt() {
        let mut outcomes = two();
        assert!(outcomes.record_failure(&[0, 1], &with_rejected_second(own_key())).is_none());
        assert!(matches!(outcomes.documents.outcomes[1], InsertOutcome::Rejected(_)));

        let mut outcomes = two();
        assert!(outcomes.record_failure(&[0, 1], &lost_reply()).is_some());
        assert_eq!(outcomes.documents.outcomes, [InsertOutcome::InDoubt, InsertOutcome::InDoubt]);
        assert!(outcomes.record_failure(&[0, 1], &with_rejected_second(own_key())).is_none());
        let [first, second] = [InsertEvidence::Acknowledged, InsertEvidence::DuplicateOfOwn]
            .map(InsertOutcome::Present);
        assert_eq!(outcomes.conclude(None).unwrap().outcomes, [first, second]);
    }

    #[test]
    fn rejection_after_an_attempt_in_doubt_stays_in_doubt() {
        let validation = doc! { "code": 121 };
        let mut outcomes = two();
        outcomes.record_failure(&[0, 1], &lost_reply());
        outcomes.documents.outcomes[0] = InsertOutcome::Rejected(Box::new(
            bson::deserialize_from_document(validation.clone()).unwrap(),
        ));
        let only: WriteError = bson::deserialize_from_document(validation).unwrap();
        outcomes.record_rejection(1, only.clone());
        assert_eq!(outcome(outcomes.conclude(None)), Outcome::MaybeApplied);

        let mut outcomes = two();
        outcomes.record_rejection(0, only.clone());
        outcomes.record_rejection(1, only);
        assert_eq!(outcome(outcomes.conclude(None)), Outcome::NotApplied);
    }

    #[test]
    fn error_before_any_result_is_returned_unchanged() {
        let mut outcomes = two();
        let cause = outcomes.record_failure(&[0, 1], &lost_reply());
        let failure = outcomes.conclude(cause).unwrap_err();
        assert!(matches!(*failure.error.kind, ErrorKind::Io(_)));
        assert_eq!(failure.documents.outcomes, [InsertOutcome::InDoubt, InsertOutcome::InDoubt]);
    }

    fn both_rejected(code: i32, outcome: Outcome) -> Error {
        let write_error: WriteError =
            bson::deserialize_from_document(doc! { "code": code }).unwrap();
        let write_errors = Some(vec![write_error.clone().at(0), write_error.at(1)]);
        insert_many_error(write_errors, None, HashMap::new()).with_outcome(outcome)
    }

    fn not_sent() -> Error {
        Error::from(io::Error::from(io::ErrorKind::ConnectionRefused))
    }

    fn three() -> InsertOutcomes {
        let ids = vec![1.into(), 2.into(), 3.into()];
        InsertOutcomes::new(Namespace::new("shop", "orders"), ids, false)
    }

    #[test]
    fn unsent_batch_does_not_hide_the_outcome_of_an_earlier_one() {
        // In doubt, then rejected: an earlier attempt may have inserted them all the same.
        let mut outcomes = three();
        outcomes.record_failure(&[0, 1], &lost_reply());
        outcomes.record_failure(&[0, 1], &both_rejected(121, Outcome::NotApplied));
        let cause = outcomes.record_failure(&[2], &not_sent());
        assert_eq!(outcome(outcomes.conclude(cause)), Outcome::MaybeApplied);

        let mut outcomes = three();
        outcomes.record_failure(&[0, 1], &both_rejected(121, Outcome::NotApplied));
        let cause = outcomes.record_failure(&[2], &not_sent());
        assert_eq!(outcome(outcomes.conclude(cause)), Outcome::NotApplied);

        let mut outcomes = three();
        outcomes.acknowledge(&[0, 1]);
        let cause = outcomes.record_failure(&[2], &not_sent());
        assert_eq!(outcome(outcomes.conclude(cause)), Outcome::MaybeApplied);
    }

    #[test]
    fn documents_rejected_because_of_a_server_state_are_maybe_applied() {
        let mut outcomes = two();
        outcomes.record_failure(&[0, 1], &both_rejected(6, Outcome::MaybeApplied));
        assert_eq!(outcome(outcomes.conclude(None)), Outcome::MaybeApplied);
    }

    #[test]
    fn unsent_documents_turn_applied_not_durable_into_maybe_applied() {
        let concern = doc! { "code": 64, "codeName": "WriteConcernTimeout", "errmsg": "late" };
        let concern: WriteConcernError = bson::deserialize_from_document(concern).unwrap();
        let not_durable = |ids: &[i32]| {
            let inserted_ids =
                ids.iter().map(|&id| (usize::try_from(id).unwrap() - 1, Bson::Int32(id))).collect();
            let write_concern_error = Some(concern.clone());
            insert_many_error(None, write_concern_error, inserted_ids)
                .with_outcome(Outcome::AppliedNotDurable)
        };
        let mut outcomes = two();
        let cause = outcomes.record_failure(&[0, 1], &not_durable(&[1, 2]));
        assert_eq!(outcome(outcomes.conclude(cause)), Outcome::AppliedNotDurable);

        let mut outcomes = three();
        let cause = outcomes.record_failure(&[0, 1], &not_durable(&[1, 2]));
        assert_eq!(outcome(outcomes.conclude(cause)), Outcome::MaybeApplied);
    }
}
