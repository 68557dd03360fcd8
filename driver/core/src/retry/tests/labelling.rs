//! Where `RetryableWriteError` is added, and where not.

use super::*;

const ON: RetrySettings = BOTH;
const OFF: RetrySettings = RetrySettings { retry_writes: false, ..BOTH };
const CODES: [i32; 12] = [6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436];

fn adds(server: &ServerFacts, failure: &Failure<'_>) -> bool {
    retryable_write_label(ON, &write(), server, failure)
}

fn everything_labelled() -> Vec<(ServerFacts, Failure<'static>)> {
    vec![
        (primary(), broken()),
        (primary(), timed_out()),
        (primary(), pool_cleared()),
        (primary(), before_sending(Cause::Network { ended_by_us: false })),
        (primary(), before_sending(Cause::Refused { code: 91, message: "" })),
        (old(primary()), refused(189)),
        (old(router()), refused(189)),
        (old(primary()), write_concern(189)),
    ]
}

#[test]
fn what_the_specification_lists_is_labelled() {
    for (server, failure) in everything_labelled() {
        assert!(adds(&server, &failure), "{failure:?}");
    }
    // Making a connection says nothing of what the server supports.
    assert!(adds(&standalone(), &before_sending(Cause::Network { ended_by_us: false })));
    assert!(!adds(&standalone(), &broken()));
}

/// pitfall 28, its second half.
#[test]
fn with_retry_writes_off_only_the_end_of_a_transaction_is_labelled() {
    for (server, failure) in everything_labelled() {
        assert!(!retryable_write_label(OFF, &write(), &server, &failure), "{failure:?}");
        let end = Operation::new(Kind::EndTransaction);
        assert!(retryable_write_label(OFF, &end, &server, &failure), "{failure:?}");
    }
}

#[test]
fn only_what_can_be_recognised_is_labelled() {
    for (server, failure) in everything_labelled() {
        for kind in [Kind::Read, Kind::Write, Kind::Generic, Kind::GetMore] {
            let operation = Operation::new(kind);
            assert!(!retryable_write_label(ON, &operation, &server, &failure), "{kind:?}");
        }
        // Pitfall 13.
        let in_transaction = Operation { in_transaction: true, ..write() };
        assert!(!retryable_write_label(ON, &in_transaction, &server, &failure));
        let unacknowledged = Operation { acknowledged: false, ..write() };
        assert!(!retryable_write_label(ON, &unacknowledged, &server, &failure));
    }
}

/// pitfall 29.
#[test]
fn the_reply_of_a_server_that_labels_its_errors_is_left_alone() {
    let balancer = ServerFacts { max_wire_version: 0, ..server("l", ServerType::LoadBalancer) };
    let first = ServerFacts { max_wire_version: 9, ..primary() };
    for server in [primary(), router(), balancer, first] {
        for code in CODES {
            assert!(!adds(&server, &refused(code)), "{code}");
            assert!(!adds(&server, &write_concern(code)), "{code}");
        }
    }
}

#[test]
fn before_4_4_the_codes_of_the_specification_decide() {
    for code in CODES {
        assert!(adds(&old(primary()), &refused(code)), "{code}");
        assert!(adds(&old(router()), &refused(code)), "{code}");
        assert!(adds(&old(primary()), &write_concern(code)), "{code}");
    }
    // 134 is for reads only.
    for code in [0, 1, 50, 64, 100, 134, 11000, 11601] {
        assert!(!adds(&old(primary()), &refused(code)), "{code}");
        assert!(!adds(&old(primary()), &write_concern(code)), "{code}");
    }
    assert!(!adds(&old(standalone()), &refused(189)));
}

/// pitfall 16.
#[test]
fn a_routers_write_concern_error_and_write_errors_are_never_labelled() {
    for code in CODES {
        assert!(!adds(&old(router()), &write_concern(code)), "{code}");
        for server in [primary(), router(), old(primary()), old(router())] {
            for any_applied in [true, false] {
                let codes = [code];
                let failure = sending(Cause::WriteErrors { codes: &codes, any_applied });
                assert!(!adds(&server, &failure), "{code}");
            }
        }
    }
}

#[test]
fn errors_of_our_own_and_unreadable_replies_are_never_labelled() {
    for server in [primary(), old(primary()), router()] {
        for cause in [Cause::Driver, Cause::UnreadableReply] {
            assert!(!adds(&server, &sending(cause)));
            assert!(!adds(&server, &before_sending(cause)));
        }
    }
}
