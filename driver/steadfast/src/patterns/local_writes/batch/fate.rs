//! What became of each document of a batch, told from the one answer to all of it. Pure.

use std::{collections::BTreeMap, error::Error as _};

use crate::{
    error::{
        Error, ErrorKind, History, IndexedWriteError, InsertManyError, NO_WRITES_PERFORMED,
        Outcome, WriteFailure,
    },
    patterns::local_writes::fault::{self, Fault},
    results::InsertManyResult,
};

/// What became of a document.
#[derive(Debug)]
pub(super) enum Fate {
    /// It was acknowledged.
    Written,
    /// It was refused for what it is.
    Refused(Error),
    /// The datacenter failed; the error's outcome tells whether the document may be there.
    Failed(Error),
    /// It was refused for an unknown cause: it goes on to the next datacenter, and marks none down.
    Rejected(Error),
}

/// What became of each of `count` documents that were sent together, in any order.
pub(super) fn of_each(count: usize, answer: Result<InsertManyResult, Error>) -> Vec<Fate> {
    let Err(error) = answer else { return (0..count).map(|_| Fate::Written).collect() };
    match &*error.kind {
        ErrorKind::InsertMany(partly) => of_parts(count, &error, partly),
        // Nothing is known of any of them but this.
        _ => (0..count).map(|_| judged(error.clone())).collect(),
    }
}

/// Whether all were refused because a server, or the driver, could not take one of them in. That is noticed
/// before any of them is written.
pub(super) fn is_of_one_unread(error: &Error) -> bool {
    match &*error.kind {
        ErrorKind::InsertMany(_) => false,
        ErrorKind::Command(refusal) if matches!(refusal.code, 15 | 22) => true, // Overflow, InvalidBSON
        _ => error.outcome().is_certainly_not_applied() && fault::of(error) == Fault::Document,
    }
}

fn judged(error: Error) -> Fate {
    match fault::of(&error) {
        Fault::Document => Fate::Refused(error),
        Fault::Datacenter => Fate::Failed(error),
        Fault::Unknown => Fate::Rejected(error),
    }
}

fn of_parts(count: usize, error: &Error, partly: &InsertManyError) -> Vec<Fate> {
    let refusals = partly.write_errors.iter().flatten();
    let mut refusals: BTreeMap<_, _> = refusals.map(|refusal| (refusal.index, refusal)).collect();
    // It speaks of all that was inserted: of which documents, and how many, it does not say.
    let not_durable = partly.write_concern_error.as_ref().map(|concern| {
        let concern = WriteFailure::WriteConcernError(concern.clone());
        beside(error, ErrorKind::Write(concern), Outcome::AppliedNotDurable)
    });
    // Why the others were not answered for.
    let end = error.source().and_then(|source| source.downcast_ref::<Error>());
    (0..count)
        .map(|nth| {
            if let Some(refusal) = refusals.remove(&nth) {
                return judged(of_statement(error, refusal));
            }
            match (partly.inserted_ids.contains_key(&nth), &not_durable, end) {
                (true, None, _) => Fate::Written,
                (true, Some(not_durable), _) => Fate::Failed(not_durable.clone()),
                (false, _, Some(end)) => judged(end.clone()),
                (false, _, None) => Fate::Failed(unanswered(error)),
            }
        })
        .collect()
}

/// The error of one statement of a batch.
///
/// A server looks into its record before it refuses a statement that was sent to it before, but a shard
/// behind a router may be at an earlier one still; so what was sent more than once, or refused for a state
/// in which it may have been begun, is in doubt.
fn of_statement(error: &Error, refusal: &IndexedWriteError) -> Error {
    let of_document = fault::of_statement(refusal.code) == Fault::Document;
    let certain = error.contains_label(NO_WRITES_PERFORMED)
        || error.attempts().len() < 2 && (of_document || is_at_the_door(refusal.code));
    let outcome = if certain { Outcome::NotApplied } else { Outcome::MaybeApplied };
    let failure = WriteFailure::WriteError(refusal.clone().into());
    beside(error, ErrorKind::Write(failure), outcome)
}

/// Codes of a member that is no primary, and did not begin.
fn is_at_the_door(code: i32) -> bool {
    matches!(code, 10107 | 13435) // NotWritablePrimary, NotPrimaryNoSecondaryOk
}

/// A document that the answer leaves out, which no server's does.
fn unanswered(error: &Error) -> Error {
    let message = "the reply to a batch says nothing of a document".to_owned();
    beside(error, ErrorKind::InvalidResponse { message }, Outcome::MaybeApplied)
}

/// An error about one document, with what the batch's error knows of the server and the attempts.
fn beside(batch: &Error, kind: ErrorKind, outcome: Outcome) -> Error {
    let mut error = Error::new(kind).with_history(History { outcome, ..History::of(batch) });
    for label in batch.labels() {
        error.add_label(label);
    }
    match batch.server_address() {
        Some(server) => error.with_server(server),
        None => error,
    }
}

#[cfg(test)]
mod tests;
