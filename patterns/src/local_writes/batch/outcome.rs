//! Outcomes of the documents of a batch, derived from its result. Pure.

use std::{collections::BTreeMap, error::Error as _};

use crate::local_writes::cause::{self, FailureCause};
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
pub(super) fn of_documents(
    count: usize,
    result: Result<InsertManyResult, Error>,
) -> Vec<DocumentOutcome> {
    let Err(error) = result else { return (0..count).map(|_| DocumentOutcome::Written).collect() };
    match &*error.kind {
        ErrorKind::InsertMany(partial) => of_partial_error(count, &error, partial),
        // The error applies to every document.
        _ => (0..count).map(|_| by_cause(error.clone())).collect(),
    }
}

/// Returns `true` if all were rejected because the server, or the driver, could not parse one of them. Then
/// nothing was written.
pub(super) fn is_parse_failure(error: &Error) -> bool {
    match &*error.kind {
        ErrorKind::InsertMany(_) => false,
        ErrorKind::Command(error) if matches!(error.code, 15 | 22) => true, // Overflow, InvalidBSON
        _ => {
            error.outcome().is_certainly_not_applied()
                && cause::classify(error) == FailureCause::Document
        }
    }
}

fn by_cause(error: Error) -> DocumentOutcome {
    match cause::classify(&error) {
        FailureCause::Document => DocumentOutcome::DocumentRejected(error),
        FailureCause::Datacenter => DocumentOutcome::DatacenterFailed(error),
        FailureCause::Unknown => DocumentOutcome::UnknownCause(error),
    }
}

fn of_partial_error(
    count: usize,
    error: &Error,
    partial: &InsertManyError,
) -> Vec<DocumentOutcome> {
    let write_errors = partial.write_errors.iter().flatten();
    let mut write_errors: BTreeMap<_, _> = write_errors.map(|error| (error.index, error)).collect();
    // It applies to every inserted document.
    let not_durable = partial.write_concern_error.as_ref().map(|concern| {
        let concern = WriteFailure::WriteConcernError(concern.clone());
        error_of_document(error, ErrorKind::Write(concern), Outcome::AppliedNotDurable)
    });
    // Error that ended the batch.
    let end = error.source().and_then(|source| source.downcast_ref::<Error>());
    (0..count)
        .map(|nth| {
            if let Some(write_error) = write_errors.remove(&nth) {
                return by_cause(statement_error(error, write_error));
            }
            match (partial.inserted_ids.contains_key(&nth), &not_durable, end) {
                (true, None, _) => DocumentOutcome::Written,
                (true, Some(not_durable), _) => {
                    DocumentOutcome::DatacenterFailed(not_durable.clone())
                }
                (false, _, Some(end)) => by_cause(end.clone()),
                (false, _, None) => DocumentOutcome::DatacenterFailed(missing_in_reply(error)),
            }
        })
        .collect()
}

/// Error of one statement of a batch.
///
/// A server checks its record of retryable writes before it rejects a statement, but a shard behind a mongos
/// may still execute an earlier attempt. So a statement is in doubt after several attempts, and after an error
/// of a server state in which it may have begun.
fn statement_error(error: &Error, write_error: &IndexedWriteError) -> Error {
    let wrote_nothing = error.contains_label(NO_WRITES_PERFORMED);
    let outcome = outcome_of_statement(write_error.code, wrote_nothing, error.attempt_count());
    let failure = WriteFailure::WriteError(write_error.clone().into());
    error_of_document(error, ErrorKind::Write(failure), outcome)
}

fn outcome_of_statement(code: i32, wrote_nothing: bool, attempts: usize) -> Outcome {
    let of_document = cause::classify_statement(code) == FailureCause::Document;
    if wrote_nothing || attempts < 2 && (of_document || is_before_execution(code)) {
        Outcome::NotApplied
    } else {
        Outcome::MaybeApplied
    }
}

/// Codes of a member that is not primary and has not begun to execute the statement.
fn is_before_execution(code: i32) -> bool {
    matches!(code, 10107 | 13435) // NotWritablePrimary, NotPrimaryNoSecondaryOk
}

/// Error of a document that the reply does not mention.
fn missing_in_reply(error: &Error) -> Error {
    Error::invalid_response("the reply to a batch does not mention this document")
        .with_context_of(error)
        .with_outcome(Outcome::MaybeApplied)
}

/// Error of one document, with the context of the batch's error. That is not its source, because it contains
/// the errors of all documents.
fn error_of_document(batch: &Error, kind: ErrorKind, outcome: Outcome) -> Error {
    Error::from(kind).with_context_of(batch).with_outcome(outcome)
}

#[cfg(test)]
mod tests;
