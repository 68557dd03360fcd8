//! Which labels errors get, and when a session lets go of its server.

use crate::{
    retry::{Cause, Failure, Labels, Phase, TRANSIENT_TRANSACTION_ERROR},
    transaction::{Part, UNKNOWN_TRANSACTION_COMMIT_RESULT, unpins},
};

const TRANSIENT: Option<&str> = Some(TRANSIENT_TRANSACTION_ERROR);
const UNKNOWN: Option<&str> = Some(UNKNOWN_TRANSACTION_COMMIT_RESULT);

fn failure(phase: Phase, cause: Cause<'_>) -> Failure<'_> {
    Failure { phase, cause, labels: Labels::default(), base_backoff: None }
}

fn refused(code: i32) -> Failure<'static> {
    failure(Phase::Sending, Cause::Refused { code, message: "" })
}

/// The labels of an operation's error and of a commit's.
fn labels(failure: Failure<'_>, retryable: bool) -> [Option<&'static str>; 2] {
    let [first, later] = [Part::First, Part::Later].map(|part| part.label(&failure, retryable));
    assert_eq!(first, later);
    assert_eq!(Part::Outside.label(&failure, retryable), None);
    [later, Part::Commit.label(&failure, retryable)]
}

#[test]
fn a_broken_network_leaves_an_operation_to_be_repeated_and_a_commit_open() {
    for phase in [Phase::BeforeSending, Phase::Sending] {
        for cause in [
            Cause::Network { ended_by_us: false },
            Cause::Network { ended_by_us: true },
            Cause::PoolCleared,
        ] {
            assert_eq!(labels(failure(phase, cause), false), [TRANSIENT, UNKNOWN], "{cause:?}");
        }
    }
    assert_eq!(Part::Later.label_without_server(), TRANSIENT);
    assert_eq!(Part::Commit.label_without_server(), UNKNOWN);
    assert_eq!(Part::Outside.label_without_server(), None);
}

#[test]
fn a_refused_operation_is_the_servers_to_label() {
    assert_eq!(labels(refused(112), false), [None, None]);
    assert_eq!(labels(refused(91), true), [None, UNKNOWN]);
    assert_eq!(labels(refused(251), false), [None, None]);
}

#[test]
fn a_commit_that_took_too_long_is_open() {
    assert_eq!(labels(refused(50), false), [None, UNKNOWN]);
    let at_handshake = Cause::Refused { code: 50, message: "" };
    assert_eq!(labels(failure(Phase::BeforeSending, at_handshake), false), [None, None]);
}

#[test]
fn a_write_concern_that_may_yet_be_met_leaves_a_commit_open() {
    let error = |code| failure(Phase::Sending, Cause::WriteConcern { code });
    for code in [64, 91, 50] {
        assert_eq!(labels(error(code), false), [None, UNKNOWN], "{code}");
    }
    for code in [79, 100] {
        assert_eq!(labels(error(code), false), [None, None], "{code}");
    }
}

#[test]
fn errors_of_our_own_get_no_label() {
    for cause in [Cause::Driver, Cause::UnreadableReply] {
        assert_eq!(labels(failure(Phase::Sending, cause), false), [None, None]);
    }
}

#[test]
fn a_session_lets_go_of_its_server_after_what_it_cannot_go_on_with() {
    let transient: Labels = [TRANSIENT_TRANSACTION_ERROR].iter().collect();
    let none = Labels::default();
    for part in [Part::First, Part::Later, Part::Commit] {
        assert!(unpins(part, transient, None));
        assert!(!unpins(part, none, None), "a duplicate key is no reason");
    }
    assert!(unpins(Part::Later, none, TRANSIENT));
    assert!(unpins(Part::Commit, none, UNKNOWN));
    assert!(unpins(Part::Abort, none, None));
    assert!(!unpins(Part::Outside, transient, None));
}
