//! What became of each document of an insert of many, over all sendings.

use std::collections::{BTreeMap, HashMap};

use bson::Bson;

use super::{
    insert_one::Known,
    own_key::{Whose, is_duplicate, of_write_concern, whose},
};
use crate::{
    error::{
        Error, ErrorKind, IndexedWriteError, InsertManyError, Outcome, WriteConcernError,
        WriteError, WriteFailure,
    },
    namespace::Namespace,
    patterns::again::is_in_doubt,
};

/// What became of one document of an [`insert_many`](super::insert_many()).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fate {
    /// It is there.
    There(Known),
    /// It is there, but not yet as durable as asked.
    NotDurable(Known),
    /// The server refused it. If a sending before was in doubt and this is a duplicate key, it may be
    /// its own `_id` that could not be told from another, because the collection has a collation.
    Refused(Box<WriteError>),
    /// It was sent, and whether it is there is not known.
    InDoubt,
    /// It is not there: it was not sent, or certainly not carried out.
    NotInserted,
}

/// What became of the documents of an [`insert_many`](super::insert_many()), in the order they were given.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InsertedMany {
    /// Each document's `_id`.
    pub ids: Vec<Bson>,
    /// What became of each document.
    pub fates: Vec<Fate>,
}

impl InsertedMany {
    /// How many this call is known to have inserted.
    pub fn inserted(&self) -> usize {
        self.count(|fate| matches!(fate, Fate::There(Known::Acknowledged | Known::ByItsKey)))
    }

    /// How many of these are known by their key: an earlier sending, whose outcome was in doubt, has
    /// inserted them.
    pub fn known_by_their_key(&self) -> usize {
        self.count(|fate| matches!(fate, Fate::There(Known::ByItsKey)))
    }

    /// How many were there already, which was
    /// [said to be fine](super::InsertMany::already_there_is_fine). After a lost reply, these may be of
    /// this very call.
    pub fn already_there(&self) -> usize {
        self.count(|fate| matches!(fate, Fate::There(Known::AlreadyThere)))
    }

    /// Each `_id` with what became of its document.
    pub fn iter(&self) -> impl Iterator<Item = (&Bson, &Fate)> {
        self.ids.iter().zip(&self.fates)
    }

    fn count(&self, which: impl Fn(&Fate) -> bool) -> usize {
        self.fates.iter().filter(|fate| which(fate)).count()
    }
}

/// An [`insert_many`](super::insert_many()) that failed, or failed in part.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct InsertManyFailure {
    /// What failed, as of [`Collection::insert_many`](crate::Collection::insert_many): indexes are those
    /// of the documents as they were given.
    #[source]
    pub error: Error,
    /// What became of each document.
    pub documents: InsertedMany,
}

impl From<InsertManyFailure> for Error {
    fn from(failure: InsertManyFailure) -> Self {
        failure.error
    }
}

/// What is known of each document so far.
#[derive(Debug)]
pub(super) struct Fates {
    namespace: Namespace,
    already_there_is_fine: bool,
    told: InsertedMany,
    /// Outcome of all commands so far that failed, of which the least certain counts. A doubt that was
    /// settled stays in it, but then a document is there, and the whole is not certainly unapplied.
    outcome: Outcome,
}

impl Fates {
    pub(super) fn new(namespace: Namespace, ids: Vec<Bson>, already_there_is_fine: bool) -> Self {
        let fates = vec![Fate::NotInserted; ids.len()];
        let told = InsertedMany { ids, fates };
        Self { namespace, already_there_is_fine, told, outcome: Outcome::NotSent }
    }

    /// Takes down that a sending of these documents succeeded.
    pub(super) fn acknowledge(&mut self, sent: &[usize]) {
        for &index in sent {
            self.told.fates[index] = Fate::There(Known::Acknowledged);
        }
    }

    /// Takes down what a sending of these documents came to that failed, wholly or in part. Gives what is
    /// a reason to send some of them again, if it may pass.
    pub(super) fn note(&mut self, sent: &[usize], error: &Error) -> Option<Error> {
        let none = InsertManyError::default();
        let (partly, broken) = match &*error.kind {
            ErrorKind::InsertMany(partly) => (partly, error.end_of_batch()),
            _ => (&none, Some(error)),
        };
        self.outcome = self.outcome.max(error.outcome());
        let refusals: BTreeMap<usize, &IndexedWriteError> =
            partly.write_errors.iter().flatten().map(|refusal| (refusal.index, refusal)).collect();
        let in_doubt = broken.is_some_and(is_in_doubt);
        for (position, &index) in sent.iter().enumerate() {
            if let Some(&refusal) = refusals.get(&position) {
                self.refuse(index, refusal.clone().into());
            } else if partly.inserted_ids.contains_key(&position) {
                self.told.fates[index] = Fate::There(Known::Acknowledged);
            } else if in_doubt && self.told.fates[index] == Fate::NotInserted {
                self.told.fates[index] = Fate::InDoubt;
            }
        }
        let failure = partly.write_concern_error.as_ref();
        if failure.is_some() {
            self.doubt_durability(sent);
        }
        broken.cloned().or_else(|| failure.map(|failure| of_write_concern(failure.clone(), error)))
    }

    fn refuse(&mut self, index: usize, refusal: WriteError) {
        let is_own = is_duplicate(&refusal)
            && whose(&refusal, &self.namespace, &self.told.ids[index]) == Whose::Own;
        let fate = &mut self.told.fates[index];
        *fate = match fate {
            Fate::NotDurable(known) if is_own => Fate::There(*known),
            // It cannot be told then who has inserted it.
            _ if is_own && self.already_there_is_fine => Fate::There(Known::AlreadyThere),
            Fate::InDoubt if is_own => Fate::There(Known::ByItsKey),
            _ => Fate::Refused(refusal.into()),
        };
    }

    /// What is there of these may yet be undone.
    fn doubt_durability(&mut self, sent: &[usize]) {
        for &index in sent {
            if let Fate::There(known) = self.told.fates[index] {
                self.told.fates[index] = Fate::NotDurable(known);
            }
        }
    }

    /// Whether it is not settled yet what becomes of a document.
    pub(super) fn is_open(&self, index: usize) -> bool {
        match self.told.fates[index] {
            Fate::There(_) | Fate::Refused(_) => false,
            Fate::NotDurable(_) | Fate::InDoubt | Fate::NotInserted => true,
        }
    }

    /// What the whole came to; `cause` is what ended it before its time.
    pub(super) fn conclude(
        self,
        cause: Option<Error>,
    ) -> std::result::Result<InsertedMany, InsertManyFailure> {
        let refused = self.refusals();
        let error = match cause {
            None if refused.is_empty() => return Ok(self.told),
            None => self.in_part(refused, None),
            Some(cause) if refused.is_empty() && self.present().is_empty() => cause,
            Some(cause) => match &*cause.kind {
                ErrorKind::Write(WriteFailure::WriteConcernError(failure)) => {
                    let error = self.in_part(refused, Some(failure.clone()));
                    if self.is_any_left_out() { error.because_of(cause) } else { error }
                }
                _ => self.in_part(refused, None).because_of(cause),
            },
        };
        let error = error.within_call(self.outcome.min(Outcome::MaybeApplied), true);
        Err(InsertManyFailure { error, documents: self.told })
    }

    /// Returns `true` if a document is neither there nor refused.
    fn is_any_left_out(&self) -> bool {
        self.told.fates.iter().any(|fate| matches!(fate, Fate::InDoubt | Fate::NotInserted))
    }

    fn in_part(
        &self,
        refused: Vec<IndexedWriteError>,
        write_concern_error: Option<WriteConcernError>,
    ) -> Error {
        Error::new(ErrorKind::InsertMany(InsertManyError {
            write_errors: Some(refused).filter(|refused| !refused.is_empty()),
            write_concern_error,
            inserted_ids: self.present(),
        }))
    }

    fn refusals(&self) -> Vec<IndexedWriteError> {
        let fates = self.told.fates.iter().enumerate();
        fates
            .filter_map(|(index, fate)| match fate {
                Fate::Refused(refusal) => Some(WriteError::clone(refusal).at(index)),
                _ => None,
            })
            .collect()
    }

    /// The `_id`s of the documents that are there.
    fn present(&self) -> HashMap<usize, Bson> {
        let documents = self.told.iter().enumerate();
        documents
            .filter(|(_, (_, fate))| matches!(fate, Fate::There(_) | Fate::NotDurable(_)))
            .map(|(index, (id, _))| (index, id.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use bson::doc;

    use super::*;
    use crate::error::{History, Result};

    fn two() -> Fates {
        Fates::new(Namespace::new("shop", "orders"), vec![1.into(), 2.into()], false)
    }

    fn lost() -> Error {
        let error = Error::from(io::Error::from(io::ErrorKind::ConnectionReset));
        error.with_history(History { outcome: Outcome::MaybeApplied, ..History::default() })
    }

    /// The second was refused, the first inserted.
    fn in_part(refusal: bson::Document) -> Error {
        let refusal: WriteError = bson::deserialize_from_document(refusal).unwrap();
        Error::new(ErrorKind::InsertMany(InsertManyError {
            write_errors: Some(vec![refusal.at(1)]),
            write_concern_error: None,
            inserted_ids: HashMap::from([(0, 1.into())]),
        }))
    }

    fn own_key() -> bson::Document {
        doc! { "code": 11000, "keyPattern": { "_id": 1 }, "keyValue": { "_id": 2 } }
    }

    fn outcome<T: std::fmt::Debug>(result: std::result::Result<T, InsertManyFailure>) -> Outcome {
        let result: Result<T> = result.map_err(Error::from);
        result.unwrap_err().outcome()
    }

    #[test]
    fn its_own_key_tells_something_only_after_a_doubt() {
        let mut fates = two();
        assert!(fates.note(&[0, 1], &in_part(own_key())).is_none());
        assert!(matches!(fates.told.fates[1], Fate::Refused(_)));

        let mut fates = two();
        assert!(fates.note(&[0, 1], &lost()).is_some());
        assert_eq!(fates.told.fates, [Fate::InDoubt, Fate::InDoubt]);
        assert!(fates.note(&[0, 1], &in_part(own_key())).is_none());
        let [first, second] = [Known::Acknowledged, Known::ByItsKey].map(Fate::There);
        assert_eq!(fates.conclude(None).unwrap().fates, [first, second]);
    }

    #[test]
    fn a_refusal_after_a_doubt_leaves_the_doubt() {
        let validation = doc! { "code": 121 };
        let mut fates = two();
        fates.note(&[0, 1], &lost());
        fates.told.fates[0] =
            Fate::Refused(Box::new(bson::deserialize_from_document(validation.clone()).unwrap()));
        let only: WriteError = bson::deserialize_from_document(validation).unwrap();
        fates.refuse(1, only.clone());
        assert_eq!(outcome(fates.conclude(None)), Outcome::MaybeApplied);

        let mut fates = two();
        fates.refuse(0, only.clone());
        fates.refuse(1, only);
        assert_eq!(outcome(fates.conclude(None)), Outcome::NotApplied);
    }

    #[test]
    fn what_ended_it_before_anything_was_known_is_raised_as_it_is() {
        let mut fates = two();
        let cause = fates.note(&[0, 1], &lost());
        let failure = fates.conclude(cause).unwrap_err();
        assert!(matches!(*failure.error.kind, ErrorKind::Io(_)));
        assert_eq!(failure.documents.fates, [Fate::InDoubt, Fate::InDoubt]);
    }

    fn refused_both(code: i32, outcome: Outcome) -> Error {
        let refusal: WriteError = bson::deserialize_from_document(doc! { "code": code }).unwrap();
        let write_errors = Some(vec![refusal.clone().at(0), refusal.at(1)]);
        let refused = InsertManyError { write_errors, ..InsertManyError::default() };
        Error::new(ErrorKind::InsertMany(refused))
            .with_history(History { outcome, ..History::default() })
    }

    fn not_sent() -> Error {
        Error::from(io::Error::from(io::ErrorKind::ConnectionRefused))
    }

    fn three() -> Fates {
        let ids = vec![1.into(), 2.into(), 3.into()];
        Fates::new(Namespace::new("shop", "orders"), ids, false)
    }

    #[test]
    fn a_batch_that_was_not_sent_does_not_hide_an_earlier_one() {
        // In doubt, then refused: an earlier sending may have inserted them all the same.
        let mut fates = three();
        fates.note(&[0, 1], &lost());
        fates.note(&[0, 1], &refused_both(121, Outcome::NotApplied));
        let cause = fates.note(&[2], &not_sent());
        assert_eq!(outcome(fates.conclude(cause)), Outcome::MaybeApplied);

        let mut fates = three();
        fates.note(&[0, 1], &refused_both(121, Outcome::NotApplied));
        let cause = fates.note(&[2], &not_sent());
        assert_eq!(outcome(fates.conclude(cause)), Outcome::NotApplied);

        let mut fates = three();
        fates.acknowledge(&[0, 1]);
        let cause = fates.note(&[2], &not_sent());
        assert_eq!(outcome(fates.conclude(cause)), Outcome::MaybeApplied);
    }

    #[test]
    fn documents_refused_for_the_state_of_a_server_are_maybe_applied() {
        let mut fates = two();
        fates.note(&[0, 1], &refused_both(6, Outcome::MaybeApplied));
        assert_eq!(outcome(fates.conclude(None)), Outcome::MaybeApplied);
    }

    #[test]
    fn documents_that_were_not_sent_are_not_applied_not_durable() {
        let concern = doc! { "code": 64, "codeName": "WriteConcernTimeout", "errmsg": "late" };
        let concern: WriteConcernError = bson::deserialize_from_document(concern).unwrap();
        let not_durable = |ids: &[i32]| {
            let inserted_ids =
                ids.iter().map(|&id| (usize::try_from(id).unwrap() - 1, Bson::Int32(id))).collect();
            let write_concern_error = Some(concern.clone());
            let error = InsertManyError { write_concern_error, inserted_ids, write_errors: None };
            let history = History { outcome: Outcome::AppliedNotDurable, ..History::default() };
            Error::new(ErrorKind::InsertMany(error)).with_history(history)
        };
        let mut fates = two();
        let cause = fates.note(&[0, 1], &not_durable(&[1, 2]));
        assert_eq!(outcome(fates.conclude(cause)), Outcome::AppliedNotDurable);

        let mut fates = three();
        let cause = fates.note(&[0, 1], &not_durable(&[1, 2]));
        assert_eq!(outcome(fates.conclude(cause)), Outcome::MaybeApplied);
    }
}
