//! Outcomes of documents, from replies of every kind.

use std::io;

use bson::{Bson, doc};

use super::*;
use steadfast::error::WriteConcernError;

/// `w` written, `r` rejected because of the document, `u` rejected for an unknown cause, `n` not applied, `?`
/// in doubt, `a` applied and not durable, `s` not sent.
fn letters(count: usize, result: Result<InsertManyResult, Error>) -> String {
    let letter = |outcome: DocumentOutcome| match outcome {
        DocumentOutcome::Written => 'w',
        DocumentOutcome::DocumentRejected(_) => 'r',
        DocumentOutcome::UnknownCause(_) => 'u',
        DocumentOutcome::DatacenterFailed(error) => match error.outcome() {
            Outcome::NotSent => 's',
            Outcome::NotApplied => 'n',
            Outcome::MaybeApplied => '?',
            Outcome::AppliedNotDurable => 'a',
        },
    };
    of_documents(count, result).into_iter().map(letter).collect()
}

fn write_error(index: usize, code: i32) -> IndexedWriteError {
    let index = i64::try_from(index).unwrap();
    bson::deserialize_from_document(doc! { "index": index, "code": code, "errmsg": "no" }).unwrap()
}

/// Error of four documents: the inserted ones, and the rejected ones with their codes.
fn partial_error(inserted: &[usize], rejected: &[(usize, i32)], late: bool) -> Error {
    let concern = doc! { "code": 64, "errmsg": "late" };
    let concern: WriteConcernError = bson::deserialize_from_document(concern).unwrap();
    let errors: Vec<_> = rejected.iter().map(|&(index, code)| write_error(index, code)).collect();
    let mut error = InsertManyError::default();
    error.write_errors = Some(errors).filter(|errors| !errors.is_empty());
    error.write_concern_error = late.then_some(concern);
    error.inserted_ids = inserted.iter().map(|&nth| (nth, Bson::Null)).collect();
    Error::from(ErrorKind::InsertMany(error))
}

fn with_outcome(outcome: Outcome) -> Error {
    Error::from(io::Error::new(io::ErrorKind::TimedOut, "no reply")).with_outcome(outcome)
}

#[test]
fn success_applies_to_every_document() {
    assert_eq!(letters(3, Ok(InsertManyResult::default())), "www");
}

#[test]
fn command_error_applies_to_every_document() {
    assert_eq!(letters(2, Err(with_outcome(Outcome::NotSent))), "ss");
    assert_eq!(letters(2, Err(with_outcome(Outcome::MaybeApplied))), "??");
    assert_eq!(letters(2, Err(Error::invalid_argument("too large"))), "rr");
}

#[test]
fn write_errors_apply_to_their_documents_only() {
    assert_eq!(letters(4, Err(partial_error(&[0, 2, 3], &[(1, 11000)], false))), "wrww");
    assert_eq!(
        letters(4, Err(partial_error(&[], &[(0, 121), (1, 2), (2, 2), (3, 2)], false))),
        "rrrr"
    );
}

#[test]
fn write_concern_error_applies_to_every_inserted_document() {
    assert_eq!(letters(4, Err(partial_error(&[0, 2, 3], &[(1, 11000)], true))), "araa");
}

#[test]
fn statement_errors_of_a_server_state_are_failures_of_the_datacenter() {
    // NotWritablePrimary comes before execution; the shard behind a mongos may have begun.
    let error = partial_error(&[0], &[(1, 10107), (2, 133), (3, 189)], false);
    assert_eq!(letters(4, Err(error)), "wn??");
}

#[test]
fn unlisted_code_has_an_unknown_cause() {
    let error = partial_error(&[0], &[(1, 99_999), (2, 121), (3, 8000)], false);
    assert_eq!(letters(4, Err(error)), "wur?");
}

#[test]
fn statement_error_after_several_attempts_is_in_doubt_unless_no_writes_were_performed() {
    // NotWritablePrimary, DuplicateKey, FailedToSatisfyReadPreference
    for (code, first) in
        [(10107, Outcome::NotApplied), (11000, Outcome::NotApplied), (133, Outcome::MaybeApplied)]
    {
        assert_eq!(outcome_of_statement(code, false, 1), first, "{code}");
        assert_eq!(outcome_of_statement(code, false, 2), Outcome::MaybeApplied, "{code}");
        assert_eq!(outcome_of_statement(code, true, 2), Outcome::NotApplied, "{code}");
    }
}

#[test]
fn documents_after_the_end_of_a_batch_have_the_outcome_of_its_error() {
    for (outcome, letters_expected) in
        [(Outcome::NotSent, "wrss"), (Outcome::NotApplied, "wrnn"), (Outcome::MaybeApplied, "wr??")]
    {
        let error = partial_error(&[0], &[(1, 11000)], false).with_source(with_outcome(outcome));
        assert_eq!(letters(4, Err(error)), letters_expected);
    }
}

#[test]
fn document_missing_in_the_reply_is_in_doubt() {
    assert_eq!(letters(3, Err(partial_error(&[0, 1], &[], false))), "ww?");
}

#[test]
fn error_of_a_document_does_not_contain_the_batch_error() {
    let error = partial_error(&[], &[(0, 11000)], false);
    let Some(DocumentOutcome::DocumentRejected(one)) = of_documents(1, Err(error)).pop() else {
        panic!("it was rejected")
    };
    assert!(one.is_duplicate_key_error());
    assert!(!matches!(&*one.kind, ErrorKind::InsertMany(_)));
}
