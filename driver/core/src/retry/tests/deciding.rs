//! What may be tried again, and when.

use super::*;

fn transaction_id(settings: RetrySettings, operation: Operation, at: ServerFacts) -> TransactionId {
    start(settings, operation, at).begin_sending(Instant::now()).unwrap()
}

#[test]
fn each_kind_is_retried_as_its_row_says() {
    for kind in KINDS {
        let expected = match kind {
            // Row 1, row 2, row 3.
            Kind::Read | Kind::RecognisableWrite | Kind::EndTransaction => true,
            // Rows 4 to 6; pitfall 30: getMore is never sent again after a network error.
            Kind::Write | Kind::Generic | Kind::GetMore => false,
        };
        for failure in [broken(), timed_out(), pool_cleared()] {
            let operation = Operation::new(kind);
            assert_eq!(is_retried(BOTH, operation, primary(), &failure), expected, "{kind:?}");
        }
    }
}

#[test]
fn options_switch_off_all_but_the_end_of_a_transaction() {
    for kind in KINDS {
        let operation = Operation::new(kind);
        let retried = is_retried(NEITHER, operation, primary(), &broken());
        assert_eq!(retried, kind == Kind::EndTransaction, "{kind:?}");
    }
    let only_reads =
        RetrySettings { retry_writes: false, retry_reads: true, ..RetrySettings::default() };
    assert!(is_retried(only_reads, read(), primary(), &broken()));
    assert!(!is_retried(only_reads, write(), primary(), &broken()));
    let only_writes =
        RetrySettings { retry_writes: true, retry_reads: false, ..RetrySettings::default() };
    assert!(!is_retried(only_writes, read(), primary(), &broken()));
    assert!(is_retried(only_writes, write(), primary(), &broken()));
}

/// pitfall 13.
#[test]
fn nothing_inside_a_transaction_is_retried_but_its_end() {
    for kind in KINDS {
        let operation = Operation { in_transaction: true, ..Operation::new(kind) };
        let retried = is_retried(BOTH, operation, primary(), &broken());
        assert_eq!(retried, kind == Kind::EndTransaction, "{kind:?}");
    }
    let operation = Operation { in_transaction: true, ..write() };
    assert_eq!(transaction_id(BOTH, operation, primary()), TransactionId::None);
    // Not even if the server asks for it.
    let asked_for = labelled(refused(189), &["RetryableWriteError"]);
    assert!(!is_retried(BOTH, operation, primary(), &asked_for));
}

#[test]
fn an_unacknowledged_write_has_no_transaction_id_and_is_sent_once() {
    let operation = Operation { acknowledged: false, ..write() };
    assert_eq!(transaction_id(BOTH, operation, primary()), TransactionId::None);
    assert!(!is_retried(BOTH, operation, primary(), &broken()));
    assert!(!is_retried(BOTH, operation, primary(), &pool_cleared()));
}

/// pitfall 14, and the specification's other conditions.
#[test]
fn a_server_that_cannot_recognise_a_write_gets_it_once_and_without_a_transaction_id() {
    let unfit = [
        standalone(),
        ServerFacts { max_wire_version: 5, ..primary() },
        ServerFacts { logical_session_timeout: None, ..primary() },
    ];
    for server in unfit {
        assert_eq!(transaction_id(BOTH, write(), server.clone()), TransactionId::None);
        let asked_for = labelled(refused(189), &["RetryableWriteError"]);
        for failure in [broken(), pool_cleared(), asked_for] {
            assert!(!is_retried(BOTH, write(), server.clone(), &failure), "{server:?}");
        }
    }
    let fit = [
        primary(),
        router(),
        ServerFacts { max_wire_version: 6, ..primary() },
        // It says nothing of itself.
        ServerFacts {
            max_wire_version: 0,
            logical_session_timeout: None,
            ..server("l", ServerType::LoadBalancer)
        },
    ];
    for server in fit {
        assert_eq!(transaction_id(BOTH, write(), server.clone()), TransactionId::New);
        assert!(is_retried(BOTH, write(), server.clone(), &broken()), "{server:?}");
    }
}

#[test]
fn a_read_is_retried_at_any_server() {
    for server in [standalone(), old(primary()), router()] {
        assert!(is_retried(BOTH, read(), server, &broken()));
    }
}

#[test]
fn only_retryable_writes_bear_a_transaction_id() {
    for kind in KINDS {
        let expected = match kind {
            Kind::RecognisableWrite => TransactionId::New,
            Kind::Read | Kind::Write | Kind::Generic | Kind::GetMore | Kind::EndTransaction => {
                TransactionId::None
            }
        };
        assert_eq!(transaction_id(BOTH, Operation::new(kind), primary()), expected, "{kind:?}");
    }
    assert_eq!(transaction_id(NEITHER, write(), primary()), TransactionId::None);
}

#[test]
fn every_sending_has_the_same_transaction_id() {
    let now = Instant::now();
    let operation = Operation { deadline: Some(now + MINUTE), ..write() };
    let mut retry = start(BOTH, operation, primary());
    assert_eq!(retry.begin_sending(now).unwrap(), TransactionId::New);
    for _ in 0..3 {
        assert!(matches!(retry.on_failure(&broken(), now, unjittered).next, Next::Retry { .. }));
        retry.server_selected(server("b", ServerType::RsPrimary)).unwrap();
        assert_eq!(retry.begin_sending(now).unwrap(), TransactionId::Same);
    }
}

/// pitfall 18: no connection, no session, and so no number that could be used again.
#[test]
fn after_a_failed_check_out_the_transaction_id_is_still_to_be_made() {
    let now = Instant::now();
    let mut retry = start(BOTH, write(), primary());
    assert_eq!(retry.on_failure(&pool_cleared(), now, unjittered).next, AT_ONCE);
    retry.server_selected(primary()).unwrap();
    assert_eq!(retry.begin_sending(now).unwrap(), TransactionId::New);
}

/// Row 1 of the failures, for writes: the label decides, nothing else.
#[test]
fn a_new_servers_label_alone_makes_its_refusal_retryable() {
    for code in [91, 189, 10107, 11600, 1, 11000] {
        assert!(!is_retried(BOTH, write(), primary(), &refused(code)), "{code}");
        let asked_for = labelled(refused(code), &["RetryableWriteError"]);
        assert!(is_retried(BOTH, write(), primary(), &asked_for), "{code}");
    }
}

/// pitfall 15.
#[test]
fn a_reply_whose_only_error_is_a_retryable_write_concern_error_is_retried() {
    let asked_for = labelled(write_concern(91), &["RetryableWriteError"]);
    assert!(is_retried(BOTH, write(), primary(), &asked_for));
    assert!(is_retried(BOTH, write(), router(), &asked_for));
    assert!(is_retried(BOTH, write(), old(primary()), &write_concern(91)));
    // A write concern that merely timed out is no reason.
    assert!(!is_retried(BOTH, write(), primary(), &write_concern(64)));
    assert!(!is_retried(BOTH, write(), old(primary()), &write_concern(64)));
}

/// pitfall 28, its first half.
#[test]
fn pool_cleared_and_handshake_errors_are_retried() {
    let handshake = [
        pool_cleared(),
        before_sending(Cause::Network { ended_by_us: false }),
        before_sending(Cause::Network { ended_by_us: true }),
        before_sending(Cause::Refused { code: 91, message: "shutting down" }),
    ];
    for failure in handshake {
        assert!(is_retried(BOTH, write(), primary(), &failure), "{failure:?}");
        assert!(is_retried(BOTH, read(), primary(), &failure), "{failure:?}");
    }
    for failure in [
        before_sending(Cause::Driver),
        before_sending(Cause::Refused { code: 18, message: "wrong password" }),
    ] {
        assert!(!is_retried(BOTH, write(), primary(), &failure), "{failure:?}");
        assert!(!is_retried(BOTH, read(), primary(), &failure), "{failure:?}");
    }
}

/// Row 1 of the failures, for reads.
#[test]
fn reads_are_retried_by_code() {
    for code in [6, 7, 89, 91, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436] {
        for server in [primary(), old(primary()), standalone()] {
            assert!(is_retried(BOTH, read(), server, &refused(code)), "{code}");
        }
    }
    for failure in [
        refused(0),
        refused(11601),
        refused(50),
        labelled(refused(1), &["RetryableWriteError"]),
        sending(Cause::UnreadableReply),
        sending(Cause::Driver),
    ] {
        assert!(!is_retried(BOTH, read(), primary(), &failure), "{failure:?}");
    }
}

/// Row 3.
#[test]
fn without_a_deadline_a_command_is_sent_twice_at_most() {
    for operation in [read(), write(), Operation::new(Kind::EndTransaction)] {
        let now = Instant::now();
        let mut retry = start(BOTH, operation, primary());
        assert_eq!(retry.on_failure(&broken(), now, unjittered).next, AT_ONCE);
        retry.server_selected(primary()).unwrap();
        assert!(matches!(retry.on_failure(&broken(), now, unjittered).next, Next::GiveUp(_)));
        assert_eq!(retry.failed_attempts(), 2);
    }
}

/// Row 3: the pool was cleared again while the retry waited for a connection.
#[test]
fn an_attempt_that_was_not_sent_does_not_use_up_the_retry() {
    for operation in [read(), write(), Operation::new(Kind::EndTransaction)] {
        let now = Instant::now();
        let mut retry = start(BOTH, operation, primary());
        assert_eq!(retry.on_failure(&pool_cleared(), now, unjittered).next, AT_ONCE);
        for failure in [pool_cleared(), broken(), pool_cleared(), pool_cleared()] {
            retry.server_selected(primary()).unwrap();
            let next = retry.on_failure(&failure, now, unjittered).next;
            assert!(matches!(next, Next::Retry { wait } if !wait.is_zero()), "{next:?}");
        }
        retry.server_selected(primary()).unwrap();
        assert!(matches!(retry.on_failure(&broken(), now, unjittered).next, Next::GiveUp(_)));
    }
}

#[test]
fn attempts_that_are_not_sent_end_with_the_selection_time_out() {
    let now = Instant::now();
    let settings = RetrySettings { server_selection_timeout: 2 * MINUTE, ..BOTH };
    let mut retry = start(settings, write(), primary());
    for second in 0..120 {
        let then = now + Duration::from_secs(second);
        let next = retry.on_failure(&pool_cleared(), then, unjittered).next;
        assert!(matches!(next, Next::Retry { .. }), "after {second} s: {next:?}");
        retry.server_selected(primary()).unwrap();
    }
    let next = retry.on_failure(&pool_cleared(), now + 2 * MINUTE, unjittered).next;
    let Next::GiveUp(end) = next else { panic!("{next:?}") };
    assert_eq!((end.raise, end.outcome), (Raise::Attempt(0), Outcome::NotSent));
}

#[test]
fn between_ordinary_retries_there_is_a_growing_wait_but_before_the_first() {
    let now = Instant::now();
    let operation = Operation { deadline: Some(now + 60 * MINUTE), ..write() };
    let mut retry = start(BOTH, operation, primary());
    let mut waits = Vec::new();
    for _ in 0..10 {
        let next = retry.on_failure(&broken(), now, unjittered).next;
        let Next::Retry { wait } = next else { panic!("{next:?}") };
        waits.push(wait.as_millis());
    }
    assert_eq!(waits, [0, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    let next = retry.on_failure(&broken(), now, || 0.5).next;
    assert_eq!(next, Next::Retry { wait: Duration::from_millis(500) });
}

/// Rows 2 of the commands: the handshake of the connection is what counts.
#[test]
fn a_write_through_a_connection_without_sessions_has_no_transaction_id_and_no_retry() {
    let now = Instant::now();
    let mut retry = start(BOTH, write(), primary());
    retry.sessions_unsupported();
    assert_eq!(retry.begin_sending(now).unwrap(), TransactionId::None);
    let verdict = retry.on_failure(&broken(), now, unjittered);
    assert!(matches!(verdict.next, Next::GiveUp(_)), "{verdict:?}");
    assert!(!verdict.add_retryable_write_label);
}

/// Row 4.
#[test]
fn with_a_deadline_it_is_tried_until_that_passes() {
    let now = Instant::now();
    let operation = Operation { deadline: Some(now + MINUTE), ..read() };
    let mut retry = start(BOTH, operation, primary());
    for second in 0..59 {
        let verdict = retry.on_failure(&broken(), now + Duration::from_secs(second), unjittered);
        assert!(matches!(verdict.next, Next::Retry { .. }), "{verdict:?}");
        retry.server_selected(primary()).unwrap();
    }
    assert!(matches!(retry.on_failure(&broken(), now + MINUTE, unjittered).next, Next::GiveUp(_)));
}

/// Row 5; pitfall 9.
#[test]
fn a_write_is_not_sent_again_once_the_server_may_have_forgotten_the_session() {
    let now = Instant::now();
    let sent = || {
        let mut retry = start(BOTH, write(), primary());
        let _ = retry.begin_sending(now).unwrap();
        retry
    };
    let last_moment = now + 29 * MINUTE - Duration::from_nanos(1);

    let mut retry = sent();
    assert!(matches!(
        retry.on_failure(&broken(), now + 29 * MINUTE, unjittered).next,
        Next::GiveUp(_)
    ));

    let mut retry = sent();
    assert_eq!(retry.on_failure(&broken(), last_moment, unjittered).next, AT_ONCE);
    retry.server_selected(primary()).unwrap();
    assert_eq!(retry.begin_sending(last_moment).unwrap(), TransactionId::Same);

    // Selecting and connecting took too long.
    let mut retry = sent();
    assert_eq!(retry.on_failure(&broken(), now, unjittered).next, AT_ONCE);
    retry.server_selected(primary()).unwrap();
    let end = retry.begin_sending(now + 29 * MINUTE).unwrap_err();
    assert_eq!(end.raise, Raise::Attempt(0));
    assert_eq!(end.outcome, Outcome::MaybeApplied);
}

/// pitfall 9: the shortest memory of all servers involved counts.
#[test]
fn a_server_with_a_shorter_memory_shortens_the_time_for_a_retry() {
    let now = Instant::now();
    let forgetful = ServerFacts {
        logical_session_timeout: Some(2 * MINUTE),
        ..server("b", ServerType::RsPrimary)
    };
    let mut retry = start(BOTH, write(), primary());
    let _ = retry.begin_sending(now).unwrap();
    assert_eq!(retry.on_failure(&broken(), now + MINUTE, unjittered).next, AT_ONCE);
    retry.server_selected(forgetful).unwrap();
    assert!(retry.begin_sending(now + MINUTE).is_err());
}

#[test]
fn what_was_never_sent_and_what_only_reads_can_wait() {
    let now = Instant::now();
    let late = now + 60 * MINUTE;
    let mut retry = start(BOTH, write(), primary());
    assert_eq!(retry.on_failure(&pool_cleared(), late, unjittered).next, AT_ONCE);
    retry.server_selected(primary()).unwrap();
    assert_eq!(retry.begin_sending(late + late.duration_since(now)).unwrap(), TransactionId::New);

    let mut retry = start(BOTH, read(), primary());
    let _ = retry.begin_sending(now).unwrap();
    assert_eq!(retry.on_failure(&broken(), late, unjittered).next, AT_ONCE);
    retry.server_selected(primary()).unwrap();
    assert_eq!(retry.begin_sending(late).unwrap(), TransactionId::None);
}

/// Row 8: a router is avoided after any failure, another server only if it sheds load.
#[test]
fn the_failed_server_is_avoided_where_another_can_serve() {
    let overloaded = labelled(broken(), &["SystemOverloadedError"]);
    let retargeting = |on| RetrySettings { overload_retargeting: on, ..BOTH };
    let cases = [
        (None, router(), broken(), vec![address("r")]),
        (None, router(), pool_cleared(), vec![address("r")]),
        (None, primary(), broken(), vec![]),
        (None, primary(), overloaded, vec![address("a")]),
        (Some(true), primary(), overloaded, vec![address("a")]),
        (Some(true), primary(), broken(), vec![]),
        (Some(false), primary(), overloaded, vec![]),
        (Some(false), router(), overloaded, vec![address("r")]),
    ];
    for (on, server, failure, expected) in cases {
        for operation in [read(), write()] {
            let mut retry = start(retargeting(on), operation, server.clone());
            let verdict = retry.on_failure(&failure, Instant::now(), unjittered);
            assert!(matches!(verdict.next, Next::Retry { .. }));
            assert_eq!(retry.deprioritised(), expected, "{on:?} {failure:?}");
        }
    }
}

#[test]
fn every_failed_router_is_avoided_and_named_once() {
    let now = Instant::now();
    let operation = Operation { deadline: Some(now + MINUTE), ..write() };
    let mut retry = Retry::new(BOTH, operation, &Arc::default());
    for host in ["r", "q", "r"] {
        retry.server_selected(server(host, ServerType::Mongos)).unwrap();
        assert!(matches!(retry.on_failure(&broken(), now, unjittered).next, Next::Retry { .. }));
    }
    assert_eq!(retry.deprioritised(), [address("r"), address("q")]);
}
