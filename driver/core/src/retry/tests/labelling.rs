//! Failures that get the label `RetryableWriteError`, and those that do not.

use super::*;

const ON: RetrySettings = BOTH;
const OFF: RetrySettings = RetrySettings { retry_writes: false, ..BOTH };
const CODES: [i32; 12] = [6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436];

fn adds(server: &ServerFacts, failure: &AttemptFailure<'_>) -> bool {
    adds_retryable_write_label(ON, &write(), server, failure)
}

fn everything_labelled() -> Vec<(ServerFacts, AttemptFailure<'static>)> {
    vec![
        (primary(), broken()),
        (primary(), timed_out()),
        (primary(), pool_cleared()),
        (primary(), before_send(FailureCause::Network { aborted_by_client: false })),
        (primary(), before_send(FailureCause::CommandError { code: 91, message: "" })),
        (old(primary()), command_error(189)),
        (old(mongos()), command_error(189)),
        (old(primary()), write_concern(189)),
    ]
}

#[test]
fn errors_listed_by_the_specification_are_labelled() {
    for (server, failure) in everything_labelled() {
        assert!(adds(&server, &failure), "{failure:?}");
    }
    // Establishing a connection does not show what the server supports.
    assert!(adds(&standalone(), &before_send(FailureCause::Network { aborted_by_client: false })));
    assert!(!adds(&standalone(), &broken()));
}

/// pitfall 28, its second half.
#[test]
fn without_retry_writes_only_the_end_of_a_transaction_is_labelled() {
    for (server, failure) in everything_labelled() {
        assert!(!adds_retryable_write_label(OFF, &write(), &server, &failure), "{failure:?}");
        let end = CommandFacts::new(CommandKind::EndTransaction);
        assert!(adds_retryable_write_label(OFF, &end, &server, &failure), "{failure:?}");
    }
}

#[test]
fn only_commands_with_a_txn_number_are_labelled() {
    for (server, failure) in everything_labelled() {
        for kind in
            [CommandKind::Read, CommandKind::Write, CommandKind::Generic, CommandKind::GetMore]
        {
            let operation = CommandFacts::new(kind);
            assert!(!adds_retryable_write_label(ON, &operation, &server, &failure), "{kind:?}");
        }
        // pitfall 13
        let in_transaction = CommandFacts { in_transaction: true, ..write() };
        assert!(!adds_retryable_write_label(ON, &in_transaction, &server, &failure));
        let unacknowledged = CommandFacts { acknowledged: false, ..write() };
        assert!(!adds_retryable_write_label(ON, &unacknowledged, &server, &failure));
    }
}

/// pitfall 29.
#[test]
fn errors_of_servers_since_4_4_are_not_labelled() {
    let balancer = ServerFacts { max_wire_version: 0, ..server("l", ServerType::LoadBalancer) };
    let first = ServerFacts { max_wire_version: 9, ..primary() };
    for server in [primary(), mongos(), balancer, first] {
        for code in CODES {
            assert!(!adds(&server, &command_error(code)), "{code}");
            assert!(!adds(&server, &write_concern(code)), "{code}");
        }
    }
}

#[test]
fn before_4_4_errors_are_labelled_by_code() {
    for code in CODES {
        assert!(adds(&old(primary()), &command_error(code)), "{code}");
        assert!(adds(&old(mongos()), &command_error(code)), "{code}");
        assert!(adds(&old(primary()), &write_concern(code)), "{code}");
    }
    // 134 is retryable for reads only.
    for code in [0, 1, 50, 64, 100, 134, 11000, 11601] {
        assert!(!adds(&old(primary()), &command_error(code)), "{code}");
        assert!(!adds(&old(primary()), &write_concern(code)), "{code}");
    }
    assert!(!adds(&old(standalone()), &command_error(189)));
}

/// pitfall 16.
#[test]
fn mongos_write_concern_errors_and_write_errors_are_never_labelled() {
    for code in CODES {
        assert!(!adds(&old(mongos()), &write_concern(code)), "{code}");
        for server in [primary(), mongos(), old(primary()), old(mongos())] {
            for any_applied in [true, false] {
                let codes = [code];
                let failure = sent(FailureCause::WriteErrors { codes: &codes, any_applied });
                assert!(!adds(&server, &failure), "{code}");
            }
        }
    }
}

#[test]
fn driver_errors_and_malformed_replies_are_never_labelled() {
    for server in [primary(), old(primary()), mongos()] {
        for cause in [FailureCause::Driver, FailureCause::MalformedReply] {
            assert!(!adds(&server, &sent(cause)));
            assert!(!adds(&server, &before_send(cause)));
        }
    }
}
