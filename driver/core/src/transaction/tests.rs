//! The tables of transactions, row by row.

mod convenience;
mod failures;

use bson::rawdoc;

use super::*;
use crate::read_preference::ReadPreference;

fn started(number: i64) -> Transaction {
    let mut transaction = Transaction::default();
    transaction.start(Settings::default(), || Some(number)).unwrap();
    transaction
}

fn in_progress() -> Transaction {
    let mut transaction = started(1);
    let part = transaction.begin_operation(1).unwrap();
    transaction.sending(part, 1).unwrap();
    transaction
}

fn committed() -> Transaction {
    let mut transaction = in_progress();
    assert_eq!(transaction.commit(), Ok(End::Send));
    transaction
}

fn committed_empty() -> Transaction {
    let mut transaction = started(1);
    assert_eq!(transaction.commit(), Ok(End::Nothing));
    transaction
}

fn aborted() -> Transaction {
    let mut transaction = in_progress();
    assert_eq!(transaction.abort(), Ok(End::Send));
    transaction
}

/// Every state, as its table names it.
fn all() -> [(State, Transaction); 6] {
    [
        (State::None, Transaction::default()),
        (State::Starting, started(1)),
        (State::InProgress, in_progress()),
        (State::Committed { empty: true }, committed_empty()),
        (State::Committed { empty: false }, committed()),
        (State::Aborted, aborted()),
    ]
}

#[test]
fn every_state_is_reached_by_its_calls() {
    for (state, transaction) in all() {
        assert_eq!(transaction.state(), state);
        let active = matches!(state, State::Starting | State::InProgress);
        assert_eq!(transaction.is_active(), active, "{state:?}");
    }
}

#[test]
fn one_is_started_unless_one_is_under_way() {
    for (state, mut transaction) in all() {
        let mut asked = false;
        let result = transaction.start(Settings::default(), || {
            asked = true;
            Some(9)
        });
        match state {
            State::Starting | State::InProgress => {
                assert_eq!(result, Err(Misuse::AlreadyInProgress));
                assert!(!asked, "a refused start costs no number");
                assert_eq!((transaction.state(), transaction.number()), (state, 1));
            }
            State::None | State::Committed { .. } | State::Aborted => {
                assert_eq!(result, Ok(()));
                assert_eq!((transaction.state(), transaction.number()), (State::Starting, 9));
            }
        }
    }
}

#[test]
fn a_commit_is_sent_if_there_is_something_to_commit() {
    for (state, mut transaction) in all() {
        let (result, after) = match state {
            State::None => (Err(Misuse::NotStarted), State::None),
            State::Starting | State::Committed { empty: true } => {
                (Ok(End::Nothing), State::Committed { empty: true })
            }
            State::InProgress | State::Committed { empty: false } => {
                (Ok(End::Send), State::Committed { empty: false })
            }
            State::Aborted => (Err(Misuse::CommitAfterAbort), State::Aborted),
        };
        assert_eq!(transaction.commit(), result, "{state:?}");
        assert_eq!(transaction.state(), after, "{state:?}");
    }
}

#[test]
fn an_abort_is_sent_if_there_is_something_to_abort() {
    for (state, mut transaction) in all() {
        let (result, after) = match state {
            State::None => (Err(Misuse::NotStarted), State::None),
            State::Starting => (Ok(End::Nothing), State::Aborted),
            State::InProgress => (Ok(End::Send), State::Aborted),
            State::Committed { .. } => (Err(Misuse::AbortAfterCommit), state),
            State::Aborted => (Err(Misuse::AbortTwice), State::Aborted),
        };
        assert_eq!(transaction.abort(), result, "{state:?}");
        assert_eq!(transaction.state(), after, "{state:?}");
    }
}

#[test]
fn an_operation_built_in_a_transaction_is_sent_only_while_that_is_active() {
    for (state, mut transaction) in all() {
        let (part, after) = match state {
            State::None | State::Committed { .. } | State::Aborted => (None, state),
            State::Starting => (Some(Part::First), State::InProgress),
            State::InProgress => (Some(Part::Later), State::InProgress),
        };
        let number = transaction.number();
        assert_eq!(transaction.begin_operation(number), part.ok_or(Misuse::Ended), "{state:?}");
        for sent in [Part::First, Part::Later] {
            let mut transaction = transaction.clone();
            let allowed = part.map(|_| ()).ok_or(Misuse::Ended);
            assert_eq!(transaction.sending(sent, number), allowed, "{state:?}");
        }
        if let Some(part) = part {
            transaction.sending(part, number).unwrap();
        }
        assert_eq!(transaction.state(), after, "{state:?}");
    }
}

#[test]
fn an_abandoned_transaction_is_aborted_and_may_be_aborted_once_more() {
    for (state, mut transaction) in all() {
        let (end, after) = match state {
            State::None | State::Committed { empty: true } => (End::Nothing, state),
            State::Starting => (End::Nothing, State::Aborted),
            // The commit or the abort was not sent.
            State::InProgress | State::Committed { empty: false } | State::Aborted => {
                (End::Send, State::Aborted)
            }
        };
        assert_eq!(transaction.abandon(), end, "{state:?}");
        assert_eq!(transaction.state(), after, "{state:?}");
        if matches!(state, State::Starting | State::InProgress) {
            assert_eq!(transaction.commit(), Err(Misuse::CommitAfterAbort));
            assert_eq!(transaction.abort(), Ok(End::Nothing));
            assert_eq!(transaction.abort(), Err(Misuse::AbortTwice));
        }
    }
}

#[test]
fn a_transaction_whose_commit_was_never_sent_is_aborted_when_it_is_abandoned() {
    let mut transaction = in_progress();
    assert_eq!(transaction.commit(), Ok(End::Send));
    assert_eq!(transaction.abandon(), End::Send);
    assert_eq!(transaction.state(), State::Aborted);
    let mut transaction = in_progress();
    assert_eq!(transaction.commit(), Ok(End::Send));
    transaction.sending(Part::Commit, 1).unwrap();
    assert_eq!(transaction.abandon(), End::Nothing, "it may be committed");
    let mut transaction = aborted();
    transaction.sending(Part::Abort, 1).unwrap();
    assert_eq!(transaction.abandon(), End::Nothing, "the abort was sent");
}

#[test]
fn an_operation_of_an_earlier_transaction_does_not_join_the_next() {
    let mut transaction = aborted();
    transaction.start(Settings::default(), || Some(2)).unwrap();
    assert_eq!(transaction.begin_operation(1), Err(Misuse::Ended));
    assert_eq!(transaction.sending(Part::Later, 1), Err(Misuse::Ended));
    assert_eq!(transaction.state(), State::Starting);
}

#[test]
fn an_operation_outside_resets_only_a_transaction_that_has_ended() {
    for (state, mut transaction) in all() {
        let (reset, after) = match state {
            State::None | State::Committed { .. } | State::Aborted => (true, State::None),
            State::Starting | State::InProgress => (false, state),
        };
        assert_eq!(transaction.begin_outside(), reset, "{state:?}");
        assert_eq!(transaction.state(), after, "{state:?}");
    }
}

#[test]
fn an_operation_that_is_not_sent_leaves_the_next_to_start_it() {
    let mut transaction = started(1);
    assert_eq!(transaction.begin_operation(1), Ok(Part::First));
    assert_eq!(transaction.begin_operation(1), Ok(Part::First));
    assert_eq!(transaction.abort(), Ok(End::Nothing));
}

#[test]
fn a_first_operation_that_is_sent_again_is_still_the_first() {
    let mut transaction = started(1);
    let part = transaction.begin_operation(1).unwrap();
    transaction.sending(part, 1).unwrap();
    transaction.sending(part, 1).unwrap();
    assert_eq!((part, transaction.state()), (Part::First, State::InProgress));
}

#[test]
fn without_a_number_or_an_answer_there_is_no_transaction() {
    let mut transaction = Transaction::default();
    let start = transaction.start(Settings::default(), || None);
    assert_eq!(start, Err(Misuse::NoNumberLeft));
    let write_concern = Some(WriteConcern::nodes(0));
    let unheard = Settings { write_concern, ..Settings::default() };
    assert_eq!(transaction.start(unheard, || Some(1)), Err(Misuse::Unacknowledged));
    assert_eq!(transaction.state(), State::None);
}

#[test]
fn the_nearest_setting_counts() {
    let primary = SelectionCriteria::from(ReadPreference::Primary);
    let own = Settings { read_concern: Some(ReadConcern::snapshot()), ..Settings::default() };
    let others = Settings {
        read_concern: Some(ReadConcern::local()),
        write_concern: Some(WriteConcern::majority()),
        criteria: Some(primary.clone()),
        max_commit_time: Some(Duration::from_secs(1)),
    };
    let both = own.or(others.clone());
    assert_eq!(both.read_concern, Some(ReadConcern::snapshot()));
    assert_eq!(Settings { read_concern: Some(ReadConcern::local()), ..both }, others);
}

#[test]
fn the_latest_recovery_token_is_kept_until_the_transaction_is_over() {
    let mut transaction = in_progress();
    transaction.see_recovery_token(1, rawdoc! { "shard": 1 });
    transaction.see_recovery_token(1, rawdoc! { "shard": 2 });
    assert_eq!(transaction.commit(), Ok(End::Send));
    assert_eq!(transaction.recovery_token(), Some(&rawdoc! { "shard": 2 }));
    transaction.start(Settings::default(), || Some(2)).unwrap();
    assert_eq!(transaction.recovery_token(), None, "a new transaction has none");
    transaction.see_recovery_token(2, rawdoc! { "shard": 3 });
    assert_eq!(transaction.recovery_token(), None, "nothing of it has been sent");
    transaction.sending(Part::First, 2).unwrap();
    transaction.see_recovery_token(1, rawdoc! { "shard": 4 });
    assert_eq!(transaction.recovery_token(), None, "a late reply to an earlier transaction");
    let mut over = committed();
    assert!(over.begin_outside());
    assert_eq!(over.recovery_token(), None);
}

#[test]
fn a_commit_that_is_sent_again_asks_for_a_majority() {
    let ten_seconds = Some(Duration::from_secs(10));
    let own = WriteConcern::nodes(1).with_journal(true);
    let majority = |w_timeout, journal| {
        let concern = WriteConcern::builder().w(Acknowledgment::Majority);
        Some(concern.w_timeout(w_timeout).journal(journal).build())
    };
    use crate::concern::Acknowledgment;
    assert_eq!(commit_write_concern(None, false), None);
    assert_eq!(commit_write_concern(Some(&WriteConcern::default()), false), None);
    assert_eq!(commit_write_concern(Some(&own), false), Some(own.clone()));
    assert_eq!(commit_write_concern(None, true), majority(ten_seconds, None));
    assert_eq!(commit_write_concern(Some(&own), true), majority(ten_seconds, Some(true)));
    let patient = own.with_w_timeout(Duration::from_secs(60));
    let kept = majority(Some(Duration::from_secs(60)), Some(true));
    assert_eq!(commit_write_concern(Some(&patient), true), kept);
}

#[test]
fn a_commit_counts_as_tried_unless_the_server_was_too_busy_to_look() {
    let overloaded: Labels = ["SystemOverloadedError", "RetryableError"].iter().collect();
    let mut transaction = committed();
    transaction.begin_commit_attempt();
    assert_eq!(transaction.commit_write_concern(), None);
    transaction.end_attempt_failed(Part::Commit, overloaded);
    transaction.begin_commit_attempt();
    assert_eq!(transaction.commit_write_concern(), None, "as if it had not been tried");
    transaction.end_attempt_failed(Part::Commit, Labels::default());
    transaction.begin_commit_attempt();
    assert!(transaction.commit_write_concern().is_some());
    transaction.end_attempt_failed(Part::Commit, overloaded);
    transaction.begin_commit_attempt();
    assert!(transaction.commit_write_concern().is_some(), "an earlier one may be done");
    // A label alone is not that server's word.
    let mut transaction = committed();
    transaction.begin_commit_attempt();
    transaction.end_attempt_failed(Part::Commit, ["RetryableError"].iter().collect());
    transaction.begin_commit_attempt();
    assert!(transaction.commit_write_concern().is_some());
}

#[test]
fn a_commit_whose_future_is_dropped_may_be_done_and_is_asked_for_again_with_a_majority() {
    use crate::retry::Outcome;
    let mut transaction = committed();
    assert_eq!(transaction.commits().outcome(), Outcome::NotSent);
    transaction.begin_commit_attempt();
    transaction.sending(Part::Commit, 1).unwrap();
    assert_eq!(transaction.commits().outcome(), Outcome::MaybeApplied);
    assert_eq!(transaction.commit(), Ok(End::Send));
    transaction.begin_commit_attempt();
    assert!(transaction.commit_write_concern().is_some());
}
