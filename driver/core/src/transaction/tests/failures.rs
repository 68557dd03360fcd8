//! Labels of errors, and unpinning of sessions.

use crate::{
    retry::{AttemptFailure, AttemptPhase, ErrorLabels, FailureCause, TRANSIENT_TRANSACTION_ERROR},
    transaction::{TransactionPosition, UNKNOWN_TRANSACTION_COMMIT_RESULT, unpins},
};

const TRANSIENT: Option<&str> = Some(TRANSIENT_TRANSACTION_ERROR);
const UNKNOWN: Option<&str> = Some(UNKNOWN_TRANSACTION_COMMIT_RESULT);

fn failure(phase: AttemptPhase, cause: FailureCause<'_>) -> AttemptFailure<'_> {
    AttemptFailure { phase, cause, labels: ErrorLabels::default(), base_backoff: None }
}

fn command_error(code: i32) -> AttemptFailure<'static> {
    failure(AttemptPhase::Sent, FailureCause::CommandError { code, message: "" })
}

/// Returns the labels of an operation's and of a commit's error.
fn labels(failure: AttemptFailure<'_>, retryable: bool) -> [Option<&'static str>; 2] {
    let [first, later] = [TransactionPosition::First, TransactionPosition::Later]
        .map(|position| position.label(&failure, retryable));
    assert_eq!(first, later);
    assert_eq!(TransactionPosition::Outside.label(&failure, retryable), None);
    [later, TransactionPosition::Commit.label(&failure, retryable)]
}

#[test]
fn network_errors_get_transaction_labels() {
    for phase in [AttemptPhase::BeforeSend, AttemptPhase::Sent] {
        for cause in [
            FailureCause::Network { aborted_by_client: false },
            FailureCause::Network { aborted_by_client: true },
            FailureCause::PoolCleared,
        ] {
            assert_eq!(labels(failure(phase, cause), false), [TRANSIENT, UNKNOWN], "{cause:?}");
        }
    }
    assert_eq!(TransactionPosition::Later.label_without_server(), TRANSIENT);
    assert_eq!(TransactionPosition::Commit.label_without_server(), UNKNOWN);
    assert_eq!(TransactionPosition::Outside.label_without_server(), None);
}

#[test]
fn command_errors_of_operations_get_no_driver_label() {
    assert_eq!(labels(command_error(112), false), [None, None]);
    assert_eq!(labels(command_error(91), true), [None, UNKNOWN]);
    assert_eq!(labels(command_error(251), false), [None, None]);
}

#[test]
fn commit_after_max_time_ms_expired_has_an_unknown_result() {
    assert_eq!(labels(command_error(50), false), [None, UNKNOWN]);
    let at_handshake = FailureCause::CommandError { code: 50, message: "" };
    assert_eq!(labels(failure(AttemptPhase::BeforeSend, at_handshake), false), [None, None]);
}

#[test]
fn satisfiable_write_concern_error_leaves_the_commit_result_unknown() {
    let error = |code| failure(AttemptPhase::Sent, FailureCause::WriteConcern { code });
    for code in [64, 91, 50] {
        assert_eq!(labels(error(code), false), [None, UNKNOWN], "{code}");
    }
    for code in [79, 100] {
        assert_eq!(labels(error(code), false), [None, None], "{code}");
    }
}

#[test]
fn driver_errors_get_no_transaction_label() {
    for cause in [FailureCause::Driver, FailureCause::MalformedReply] {
        assert_eq!(labels(failure(AttemptPhase::Sent, cause), false), [None, None]);
    }
}

#[test]
fn session_unpins_after_transient_errors_and_aborts() {
    let transient: ErrorLabels = [TRANSIENT_TRANSACTION_ERROR].iter().collect();
    let none = ErrorLabels::default();
    for position in
        [TransactionPosition::First, TransactionPosition::Later, TransactionPosition::Commit]
    {
        assert!(unpins(position, transient, None));
        assert!(!unpins(position, none, None), "a duplicate key is no reason");
    }
    assert!(unpins(TransactionPosition::Later, none, TRANSIENT));
    assert!(unpins(TransactionPosition::Commit, none, UNKNOWN));
    assert!(unpins(TransactionPosition::Abort, none, None));
    assert!(!unpins(TransactionPosition::Outside, transient, None));
}
