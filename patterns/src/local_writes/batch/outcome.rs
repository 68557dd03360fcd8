//! Outcomes of the documents of a batch, from the one reply to all of it. Pure.

use std::{collections::BTreeMap, error::Error as _};

use crate::local_writes::fault::{self, Fault};
use steadfast::{
    error::{
        Error, ErrorKind, IndexedWriteError, InsertManyError, NO_WRITES_PERFORMED, Outcome,
        WriteFailure,
    },
    results::InsertManyResult,
};

/// Outcome of a document.
#[derive(Debug)]
pub(super) enum DocumentOutcome {
    /// Acknowledged.
    Written,
    /// Rejected because of the document.
    DocumentRejected(Error),
    /// The datacenter failed; the error's outcome is that of the document.
    DatacenterFailed(Error),
    /// Rejected for an unknown cause: the document goes to the next datacenter, and none is marked down.
    UnknownCause(Error),
}

/// Returns the outcomes of `count` documents that were sent together.
pub(super) fn of_each(
    count: usize,
    answer: Result<InsertManyResult, Error>,
) -> Vec<DocumentOutcome> {
    let Err(error) = answer else { return (0..count).map(|_| DocumentOutcome::Written).collect() };
    match &*error.kind {
        ErrorKind::InsertMany(partly) => of_parts(count, &error, partly),
        // The error is that of each document.
        _ => (0..count).map(|_| judged(error.clone())).collect(),
    }
}

/// Returns `true` if all were rejected because the server, or the driver, could not parse one of them. Nothing
/// is written then.
pub(super) fn is_of_one_unread(error: &Error) -> bool {
    match &*error.kind {
        ErrorKind::InsertMany(_) => false,
        ErrorKind::Command(refusal) if matches!(refusal.code, 15 | 22) => true, // Overflow, InvalidBSON
        _ => error.outcome().is_certainly_not_applied() && fault::of(error) == Fault::Document,
    }
}

fn judged(error: Error) -> DocumentOutcome {
    match fault::of(&error) {
        Fault::Document => DocumentOutcome::DocumentRejected(error),
        Fault::Datacenter => DocumentOutcome::DatacenterFailed(error),
        Fault::Unknown => DocumentOutcome::UnknownCause(error),
    }
}

fn of_parts(count: usize, error: &Error, partly: &InsertManyError) -> Vec<DocumentOutcome> {
    let refusals = partly.write_errors.iter().flatten();
    let mut refusals: BTreeMap<_, _> = refusals.map(|refusal| (refusal.index, refusal)).collect();
    // It covers all documents that were inserted, without naming them.
    let not_durable = partly.write_concern_error.as_ref().map(|concern| {
        let concern = WriteFailure::WriteConcernError(concern.clone());
        beside(error, ErrorKind::Write(concern), Outcome::AppliedNotDurable)
    });
    // Error that ended the batch.
    let end = error.source().and_then(|source| source.downcast_ref::<Error>());
    (0..count)
        .map(|nth| {
            if let Some(refusal) = refusals.remove(&nth) {
                return judged(of_statement(error, refusal));
            }
            match (partly.inserted_ids.contains_key(&nth), &not_durable, end) {
                (true, None, _) => DocumentOutcome::Written,
                (true, Some(not_durable), _) => {
                    DocumentOutcome::DatacenterFailed(not_durable.clone())
                }
                (false, _, Some(end)) => judged(end.clone()),
                (false, _, None) => DocumentOutcome::DatacenterFailed(unanswered(error)),
            }
        })
        .collect()
}

/// Error of one statement of a batch.
///
/// A server checks its record of retryable writes before it rejects a statement, but a shard behind a mongos
/// may still execute an earlier attempt. So a statement of several attempts is in doubt, and one that failed
/// for a state in which it may have begun.
fn of_statement(error: &Error, refusal: &IndexedWriteError) -> Error {
    let wrote_nothing = error.contains_label(NO_WRITES_PERFORMED);
    let outcome = outcome_of_statement(refusal.code, wrote_nothing, error.attempt_count());
    let failure = WriteFailure::WriteError(refusal.clone().into());
    beside(error, ErrorKind::Write(failure), outcome)
}

fn outcome_of_statement(code: i32, wrote_nothing: bool, attempts: usize) -> Outcome {
    let of_document = fault::of_statement(code) == Fault::Document;
    if wrote_nothing || attempts < 2 && (of_document || is_at_the_door(code)) {
        Outcome::NotApplied
    } else {
        Outcome::MaybeApplied
    }
}

/// Codes of a member that is not primary and did not begin.
fn is_at_the_door(code: i32) -> bool {
    matches!(code, 10107 | 13435) // NotWritablePrimary, NotPrimaryNoSecondaryOk
}

/// A document that the reply leaves out, which no server does.
fn unanswered(error: &Error) -> Error {
    Error::invalid_response("the reply to a batch says nothing of a document")
        .with_context_of(error)
        .with_outcome(Outcome::MaybeApplied)
}

/// Error of one document, with the context of the batch's error. Without that as source: it has the errors of
/// all documents.
fn beside(batch: &Error, kind: ErrorKind, outcome: Outcome) -> Error {
    Error::from(kind).with_context_of(batch).with_outcome(outcome)
}

#[cfg(test)]
mod tests;
