//! Outcomes of documents, from replies of every kind.

use std::io;

use bson::{Bson, doc};

use super::*;
use steadfast::error::WriteConcernError;

/// `w` written, `r` rejected because of the document, `u` rejected for an unknown cause, `n` not applied, `?`
/// in doubt, `a` applied and not durable, `s` not sent.
fn letters(count: usize, answer: Result<InsertManyResult, Error>) -> String {
    let letter = |fate: DocumentOutcome| match fate {
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
    of_each(count, answer).into_iter().map(letter).collect()
}

fn refusal(index: usize, code: i32) -> IndexedWriteError {
    let index = i64::try_from(index).unwrap();
    bson::deserialize_from_document(doc! { "index": index, "code": code, "errmsg": "no" }).unwrap()
}

/// Reply to four documents: the inserted ones, and the rejected ones with their codes.
fn partly(inserted: &[usize], refused: &[(usize, i32)], late: bool) -> Error {
    let concern = doc! { "code": 64, "errmsg": "late" };
    let concern: WriteConcernError = bson::deserialize_from_document(concern).unwrap();
    let errors: Vec<_> = refused.iter().map(|&(index, code)| refusal(index, code)).collect();
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
fn an_answer_without_an_error_is_for_all() {
    assert_eq!(letters(3, Ok(InsertManyResult::default())), "www");
}

#[test]
fn an_error_of_the_whole_is_each_documents() {
    assert_eq!(letters(2, Err(with_outcome(Outcome::NotSent))), "ss");
    assert_eq!(letters(2, Err(with_outcome(Outcome::MaybeApplied))), "??");
    assert_eq!(letters(2, Err(Error::invalid_argument("too large"))), "rr");
}

#[test]
fn what_is_refused_is_told_from_what_is_written() {
    assert_eq!(letters(4, Err(partly(&[0, 2, 3], &[(1, 11000)], false))), "wrww");
    assert_eq!(letters(4, Err(partly(&[], &[(0, 121), (1, 2), (2, 2), (3, 2)], false))), "rrrr");
}

#[test]
fn a_write_concern_error_is_of_all_that_was_inserted() {
    assert_eq!(letters(4, Err(partly(&[0, 2, 3], &[(1, 11000)], true))), "araa");
}

#[test]
fn what_was_refused_for_a_state_goes_on() {
    // NotWritablePrimary comes before execution; the shard behind a mongos may have begun.
    let error = partly(&[0], &[(1, 10107), (2, 133), (3, 189)], false);
    assert_eq!(letters(4, Err(error)), "wn??");
}

#[test]
fn an_unlisted_code_is_told_from_refusals_and_failures() {
    let error = partly(&[0], &[(1, 99_999), (2, 121), (3, 8000)], false);
    assert_eq!(letters(4, Err(error)), "wur?");
}

#[test]
fn a_statement_error_after_several_attempts_is_in_doubt_unless_nothing_was_written() {
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
fn what_came_after_the_end_is_as_the_end_says() {
    for (outcome, letters_of_it) in
        [(Outcome::NotSent, "wrss"), (Outcome::NotApplied, "wrnn"), (Outcome::MaybeApplied, "wr??")]
    {
        let error = partly(&[0], &[(1, 11000)], false).with_source(with_outcome(outcome));
        assert_eq!(letters(4, Err(error)), letters_of_it);
    }
}

#[test]
fn a_document_that_no_reply_speaks_of_is_in_doubt() {
    assert_eq!(letters(3, Err(partly(&[0, 1], &[], false))), "ww?");
}

#[test]
fn the_error_of_one_document_is_not_that_of_the_batch() {
    let error = partly(&[], &[(0, 11000)], false);
    let Some(DocumentOutcome::DocumentRejected(one)) = of_each(1, Err(error)).pop() else {
        panic!("it was rejected")
    };
    assert!(one.is_duplicate_key_error());
    assert!(!matches!(&*one.kind, ErrorKind::InsertMany(_)));
}
