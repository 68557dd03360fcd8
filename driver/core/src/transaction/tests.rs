//! The tables of transactions, row by row.

mod failures;
mod with_transaction;

use bson::rawdoc;

use super::*;
use crate::read_preference::ReadPreference;

fn started(number: i64) -> Transaction {
    let mut transaction = Transaction::default();
    transaction.start(TransactionSettings::default(), || Some(number)).unwrap();
    transaction
}

fn in_progress() -> Transaction {
    let mut transaction = started(1);
    let position = transaction.begin_operation(1).unwrap();
    transaction.begin_send(position, 1).unwrap();
    transaction
}

fn committed() -> Transaction {
    let mut transaction = in_progress();
    assert_eq!(transaction.commit(), Ok(TransactionEnd::Send));
    transaction
}

fn committed_empty() -> Transaction {
    let mut transaction = started(1);
    assert_eq!(transaction.commit(), Ok(TransactionEnd::Nothing));
    transaction
}

fn aborted() -> Transaction {
    let mut transaction = in_progress();
    assert_eq!(transaction.abort(), Ok(TransactionEnd::Send));
    transaction
}

/// One transaction in every state.
fn all() -> [(TransactionState, Transaction); 6] {
    [
        (TransactionState::None, Transaction::default()),
        (TransactionState::Starting, started(1)),
        (TransactionState::InProgress, in_progress()),
        (TransactionState::Committed { empty: true }, committed_empty()),
        (TransactionState::Committed { empty: false }, committed()),
        (TransactionState::Aborted, aborted()),
    ]
}

#[test]
fn every_transaction_state_is_reached_by_its_calls() {
    for (state, transaction) in all() {
        assert_eq!(transaction.state(), state);
        let active = matches!(state, TransactionState::Starting | TransactionState::InProgress);
        assert_eq!(transaction.is_active(), active, "{state:?}");
    }
}

#[test]
fn start_fails_while_a_transaction_is_active() {
    for (state, mut transaction) in all() {
        let mut asked = false;
        let result = transaction.start(TransactionSettings::default(), || {
            asked = true;
            Some(9)
        });
        match state {
            TransactionState::Starting | TransactionState::InProgress => {
                assert_eq!(result, Err(TransactionError::AlreadyInProgress));
                assert!(!asked, "a command_error start costs no number");
                assert_eq!((transaction.state(), transaction.number()), (state, 1));
            }
            TransactionState::None
            | TransactionState::Committed { .. }
            | TransactionState::Aborted => {
                assert_eq!(result, Ok(()));
                assert_eq!(
                    (transaction.state(), transaction.number()),
                    (TransactionState::Starting, 9)
                );
            }
        }
    }
}

#[test]
fn commit_is_sent_unless_the_transaction_is_empty() {
    for (state, mut transaction) in all() {
        let (result, after) = match state {
            TransactionState::None => (Err(TransactionError::NotStarted), TransactionState::None),
            TransactionState::Starting | TransactionState::Committed { empty: true } => {
                (Ok(TransactionEnd::Nothing), TransactionState::Committed { empty: true })
            }
            TransactionState::InProgress | TransactionState::Committed { empty: false } => {
                (Ok(TransactionEnd::Send), TransactionState::Committed { empty: false })
            }
            TransactionState::Aborted => {
                (Err(TransactionError::CommitAfterAbort), TransactionState::Aborted)
            }
        };
        assert_eq!(transaction.commit(), result, "{state:?}");
        assert_eq!(transaction.state(), after, "{state:?}");
    }
}

#[test]
fn abort_is_sent_unless_the_transaction_is_empty() {
    for (state, mut transaction) in all() {
        let (result, after) = match state {
            TransactionState::None => (Err(TransactionError::NotStarted), TransactionState::None),
            TransactionState::Starting => (Ok(TransactionEnd::Nothing), TransactionState::Aborted),
            TransactionState::InProgress => (Ok(TransactionEnd::Send), TransactionState::Aborted),
            TransactionState::Committed { .. } => (Err(TransactionError::AbortAfterCommit), state),
            TransactionState::Aborted => {
                (Err(TransactionError::AbortTwice), TransactionState::Aborted)
            }
        };
        assert_eq!(transaction.abort(), result, "{state:?}");
        assert_eq!(transaction.state(), after, "{state:?}");
    }
}

#[test]
fn operation_is_sent_only_while_its_transaction_is_active() {
    for (state, mut transaction) in all() {
        let (position, after) = match state {
            TransactionState::None
            | TransactionState::Committed { .. }
            | TransactionState::Aborted => (None, state),
            TransactionState::Starting => {
                (Some(TransactionPosition::First), TransactionState::InProgress)
            }
            TransactionState::InProgress => {
                (Some(TransactionPosition::Later), TransactionState::InProgress)
            }
        };
        let number = transaction.number();
        assert_eq!(
            transaction.begin_operation(number),
            position.ok_or(TransactionError::Ended),
            "{state:?}"
        );
        for sent in [TransactionPosition::First, TransactionPosition::Later] {
            let mut transaction = transaction.clone();
            let allowed = position.map(|_| ()).ok_or(TransactionError::Ended);
            assert_eq!(transaction.begin_send(sent, number), allowed, "{state:?}");
        }
        if let Some(position) = position {
            transaction.begin_send(position, number).unwrap();
        }
        assert_eq!(transaction.state(), after, "{state:?}");
    }
}

#[test]
fn abandoned_transaction_is_aborted_and_accepts_one_abort() {
    for (state, mut transaction) in all() {
        let (end, after) = match state {
            TransactionState::None | TransactionState::Committed { empty: true } => {
                (TransactionEnd::Nothing, state)
            }
            TransactionState::Starting => (TransactionEnd::Nothing, TransactionState::Aborted),
            // The commit or abort was not sent.
            TransactionState::InProgress
            | TransactionState::Committed { empty: false }
            | TransactionState::Aborted => (TransactionEnd::Send, TransactionState::Aborted),
        };
        assert_eq!(transaction.abandon(), end, "{state:?}");
        assert_eq!(transaction.state(), after, "{state:?}");
        if matches!(state, TransactionState::Starting | TransactionState::InProgress) {
            assert_eq!(transaction.commit(), Err(TransactionError::CommitAfterAbort));
            assert_eq!(transaction.abort(), Ok(TransactionEnd::Nothing));
            assert_eq!(transaction.abort(), Err(TransactionError::AbortTwice));
        }
    }
}

#[test]
fn abandoned_transaction_with_an_unsent_commit_is_aborted() {
    let mut transaction = in_progress();
    assert_eq!(transaction.commit(), Ok(TransactionEnd::Send));
    assert_eq!(transaction.abandon(), TransactionEnd::Send);
    assert_eq!(transaction.state(), TransactionState::Aborted);
    let mut transaction = in_progress();
    assert_eq!(transaction.commit(), Ok(TransactionEnd::Send));
    transaction.begin_send(TransactionPosition::Commit, 1).unwrap();
    assert_eq!(transaction.abandon(), TransactionEnd::Nothing, "it may be committed");
    let mut transaction = aborted();
    transaction.begin_send(TransactionPosition::Abort, 1).unwrap();
    assert_eq!(transaction.abandon(), TransactionEnd::Nothing, "the abort was sent");
}

#[test]
fn abort_is_still_to_be_sent_after_an_attempt_that_was_not_sent() {
    let mut transaction = aborted();
    // The pool was cleared while the abort waited for a connection.
    transaction.end_attempt_failed(TransactionPosition::Abort, ErrorLabels::default());
    assert_eq!(transaction.abandon(), TransactionEnd::Send);
    let mut transaction = aborted();
    transaction.begin_send(TransactionPosition::Abort, 1).unwrap();
    transaction.end_attempt_failed(TransactionPosition::Abort, ErrorLabels::default());
    assert_eq!(transaction.abandon(), TransactionEnd::Nothing);
}

#[test]
fn operation_of_an_earlier_transaction_is_rejected() {
    let mut transaction = aborted();
    transaction.start(TransactionSettings::default(), || Some(2)).unwrap();
    assert_eq!(transaction.begin_operation(1), Err(TransactionError::Ended));
    assert_eq!(transaction.begin_send(TransactionPosition::Later, 1), Err(TransactionError::Ended));
    assert_eq!(transaction.state(), TransactionState::Starting);
}

#[test]
fn outside_operation_resets_only_an_ended_transaction() {
    for (state, mut transaction) in all() {
        let (reset, after) = match state {
            TransactionState::None
            | TransactionState::Committed { .. }
            | TransactionState::Aborted => (true, TransactionState::None),
            TransactionState::Starting | TransactionState::InProgress => (false, state),
        };
        assert_eq!(transaction.begin_outside(), reset, "{state:?}");
        assert_eq!(transaction.state(), after, "{state:?}");
    }
}

#[test]
fn unsent_operation_does_not_start_the_transaction() {
    let mut transaction = started(1);
    assert_eq!(transaction.begin_operation(1), Ok(TransactionPosition::First));
    assert_eq!(transaction.begin_operation(1), Ok(TransactionPosition::First));
    assert_eq!(transaction.abort(), Ok(TransactionEnd::Nothing));
}

#[test]
fn retried_first_operation_is_still_the_first() {
    let mut transaction = started(1);
    let position = transaction.begin_operation(1).unwrap();
    transaction.begin_send(position, 1).unwrap();
    transaction.begin_send(position, 1).unwrap();
    assert_eq!(
        (position, transaction.state()),
        (TransactionPosition::First, TransactionState::InProgress)
    );
}

#[test]
fn start_fails_without_a_txn_number_or_with_an_unacknowledged_write_concern() {
    let mut transaction = Transaction::default();
    let start = transaction.start(TransactionSettings::default(), || None);
    assert_eq!(start, Err(TransactionError::NoNumberLeft));
    let write_concern = Some(WriteConcern::nodes(0));
    let unacknowledged = TransactionSettings { write_concern, ..TransactionSettings::default() };
    assert_eq!(
        transaction.start(unacknowledged, || Some(1)),
        Err(TransactionError::Unacknowledged)
    );
    assert_eq!(transaction.state(), TransactionState::None);
}

#[test]
fn own_transaction_settings_take_precedence() {
    let primary = SelectionCriteria::from(ReadPreference::Primary);
    let own = TransactionSettings {
        read_concern: Some(ReadConcern::snapshot()),
        ..TransactionSettings::default()
    };
    let others = TransactionSettings {
        read_concern: Some(ReadConcern::local()),
        write_concern: Some(WriteConcern::majority()),
        criteria: Some(primary.clone()),
        max_commit_time: Some(Duration::from_secs(1)),
    };
    let both = own.or(others.clone());
    assert_eq!(both.read_concern, Some(ReadConcern::snapshot()));
    assert_eq!(TransactionSettings { read_concern: Some(ReadConcern::local()), ..both }, others);
}

#[test]
fn latest_recovery_token_is_kept_until_the_transaction_ends() {
    let mut transaction = in_progress();
    transaction.set_recovery_token(1, rawdoc! { "shard": 1 });
    transaction.set_recovery_token(1, rawdoc! { "shard": 2 });
    assert_eq!(transaction.commit(), Ok(TransactionEnd::Send));
    assert_eq!(transaction.recovery_token(), Some(&rawdoc! { "shard": 2 }));
    transaction.start(TransactionSettings::default(), || Some(2)).unwrap();
    assert_eq!(transaction.recovery_token(), None, "a new transaction has none");
    transaction.set_recovery_token(2, rawdoc! { "shard": 3 });
    assert_eq!(transaction.recovery_token(), None, "nothing of it has been sent");
    transaction.begin_send(TransactionPosition::First, 2).unwrap();
    transaction.set_recovery_token(1, rawdoc! { "shard": 4 });
    assert_eq!(transaction.recovery_token(), None, "a late reply to an earlier transaction");
    let mut over = committed();
    assert!(over.begin_outside());
    assert_eq!(over.recovery_token(), None);
}

#[test]
fn repeated_commit_has_majority_write_concern() {
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
fn commit_counts_as_attempted_unless_rejected_by_overload() {
    let overloaded: ErrorLabels = ["SystemOverloadedError", "RetryableError"].iter().collect();
    let mut transaction = committed();
    transaction.begin_commit_attempt();
    assert_eq!(transaction.commit_write_concern(), None);
    transaction.end_attempt_failed(TransactionPosition::Commit, overloaded);
    transaction.begin_commit_attempt();
    assert_eq!(transaction.commit_write_concern(), None, "as if it had not been tried");
    transaction.end_attempt_failed(TransactionPosition::Commit, ErrorLabels::default());
    transaction.begin_commit_attempt();
    assert!(transaction.commit_write_concern().is_some());
    transaction.end_attempt_failed(TransactionPosition::Commit, overloaded);
    transaction.begin_commit_attempt();
    assert!(transaction.commit_write_concern().is_some(), "an earlier one may be done");
    // The label `RetryableError` alone does not prove a rejection by an overloaded server.
    let mut transaction = committed();
    transaction.begin_commit_attempt();
    transaction
        .end_attempt_failed(TransactionPosition::Commit, ["RetryableError"].iter().collect());
    transaction.begin_commit_attempt();
    assert!(transaction.commit_write_concern().is_some());
}

#[test]
fn commit_after_a_dropped_commit_has_majority_write_concern() {
    use crate::retry::Outcome;
    let mut transaction = committed();
    assert_eq!(transaction.commits().outcome(), Outcome::NotSent);
    transaction.begin_commit_attempt();
    transaction.begin_send(TransactionPosition::Commit, 1).unwrap();
    assert_eq!(transaction.commits().outcome(), Outcome::MaybeApplied);
    assert_eq!(transaction.commit(), Ok(TransactionEnd::Send));
    transaction.begin_commit_attempt();
    assert!(transaction.commit_write_concern().is_some());
}
