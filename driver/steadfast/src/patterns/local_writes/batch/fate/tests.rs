//! What became of each document, told from answers of every sort.

use bson::{Bson, doc};

use super::*;
use crate::error::{Attempt, RETRYABLE_WRITE_ERROR, WriteConcernError};

/// `w` written, `r` refused, `u` rejected for an unknown cause, `n` not applied, `?` in doubt, `a` applied and not durable, `s` not sent.
fn letters(count: usize, answer: Result<InsertManyResult, Error>) -> String {
    let letter = |fate: Fate| match fate {
        Fate::Written => 'w',
        Fate::Refused(_) => 'r',
        Fate::Rejected(_) => 'u',
        Fate::Failed(error) => match error.outcome() {
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

/// An answer to four documents: which were inserted, and which were refused, with which codes.
fn partly(inserted: &[usize], refused: &[(usize, i32)], late: bool) -> Error {
    let concern = doc! { "code": 64, "errmsg": "late" };
    let concern: WriteConcernError = bson::deserialize_from_document(concern).unwrap();
    let errors: Vec<_> = refused.iter().map(|&(index, code)| refusal(index, code)).collect();
    let error = InsertManyError {
        write_errors: Some(errors).filter(|errors| !errors.is_empty()),
        write_concern_error: late.then_some(concern),
        inserted_ids: inserted.iter().map(|&nth| (nth, Bson::Null)).collect(),
    };
    Error::new(ErrorKind::InsertMany(error))
}

fn with_outcome(outcome: Outcome) -> Error {
    let history = History { outcome, ..History::default() };
    Error::timed_out("a reply").with_history(history)
}

fn attempt() -> Attempt {
    Attempt {
        server: "alfa:27017".parse().unwrap(),
        connection: None,
        request_id: None,
        labels: Vec::new(),
        backoff: std::time::Duration::ZERO,
        duration: std::time::Duration::ZERO,
    }
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
    // NotWritablePrimary came at the door; the shard behind a router may have begun.
    let error = partly(&[0], &[(1, 10107), (2, 133), (3, 189)], false);
    assert_eq!(letters(4, Err(error)), "wn??");
}

#[test]
fn an_unlisted_code_is_told_from_refusals_and_failures() {
    let error = partly(&[0], &[(1, 99_999), (2, 121), (3, 8000)], false);
    assert_eq!(letters(4, Err(error)), "wur?");
}

#[test]
fn a_server_that_says_that_it_wrote_nothing_is_believed() {
    let mut error = partly(&[], &[(0, 189), (1, 133)], false);
    error.add_label(NO_WRITES_PERFORMED);
    assert_eq!(letters(2, Err(error)), "nn");
}

#[test]
fn what_was_sent_twice_is_in_doubt_unless_it_was_refused() {
    let history = History {
        outcome: Outcome::MaybeApplied,
        attempts: [attempt(), attempt()].into_iter().collect(),
    };
    let error = partly(&[0], &[(1, 10107), (2, 11000)], false).with_history(history);
    let fates = of_each(3, Err(error));
    let [Fate::Written, Fate::Failed(failed), Fate::Refused(refused)] = &fates[..] else {
        panic!("{fates:?}")
    };
    for error in [failed, refused] {
        assert_eq!(error.outcome(), Outcome::MaybeApplied);
        assert_eq!(error.attempts().len(), 2);
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
fn the_error_of_one_document_knows_the_server_and_the_labels() {
    let server = "alfa:27017".parse().unwrap();
    let mut error = partly(&[], &[(0, 11000)], false).with_server(&server);
    error.add_label(RETRYABLE_WRITE_ERROR);
    let Some(Fate::Refused(one)) = of_each(1, Err(error)).pop() else { panic!("it was refused") };
    assert!(one.is_duplicate_key_error());
    assert_eq!(one.server_address(), Some(&server));
    assert!(one.contains_label(RETRYABLE_WRITE_ERROR));
    assert!(!matches!(&*one.kind, ErrorKind::InsertMany(_)));
}
