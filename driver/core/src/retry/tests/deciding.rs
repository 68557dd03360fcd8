//! Retryable failures, and the limits of retries.

use super::*;

fn txn_number(settings: RetrySettings, operation: CommandFacts, at: ServerFacts) -> TxnNumber {
    start(settings, operation, at).begin_send(Instant::now()).unwrap()
}

#[test]
fn each_command_kind_is_retried_by_its_row() {
    for kind in KINDS {
        let expected = match kind {
            // Rows 1 to 3.
            CommandKind::Read | CommandKind::RetryableWrite | CommandKind::EndTransaction => true,
            // Rows 4 to 6; pitfall 30: `getMore` is never retried after a network error.
            CommandKind::Write | CommandKind::Generic | CommandKind::GetMore => false,
        };
        for failure in [broken(), timed_out(), pool_cleared()] {
            let operation = CommandFacts::new(kind);
            assert_eq!(is_retried(BOTH, operation, primary(), &failure), expected, "{kind:?}");
        }
    }
}

#[test]
fn options_disable_retries_except_for_the_end_of_a_transaction() {
    for kind in KINDS {
        let operation = CommandFacts::new(kind);
        let retried = is_retried(NEITHER, operation, primary(), &broken());
        assert_eq!(retried, kind == CommandKind::EndTransaction, "{kind:?}");
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
fn in_a_transaction_only_commit_and_abort_are_retried() {
    for kind in KINDS {
        let operation = CommandFacts { in_transaction: true, ..CommandFacts::new(kind) };
        let retried = is_retried(BOTH, operation, primary(), &broken());
        assert_eq!(retried, kind == CommandKind::EndTransaction, "{kind:?}");
    }
    let operation = CommandFacts { in_transaction: true, ..write() };
    assert_eq!(txn_number(BOTH, operation, primary()), TxnNumber::Omit);
    // Not even with the server's label.
    let retryable_error = labelled(command_error(189), &["RetryableWriteError"]);
    assert!(!is_retried(BOTH, operation, primary(), &retryable_error));
}

#[test]
fn unacknowledged_write_has_no_txn_number_and_no_retry() {
    let operation = CommandFacts { acknowledged: false, ..write() };
    assert_eq!(txn_number(BOTH, operation, primary()), TxnNumber::Omit);
    assert!(!is_retried(BOTH, operation, primary(), &broken()));
    assert!(!is_retried(BOTH, operation, primary(), &pool_cleared()));
}

/// pitfall 14, and the specification's other conditions.
#[test]
fn server_without_retryable_writes_gets_no_txn_number_and_no_retry() {
    let unfit = [
        standalone(),
        ServerFacts { max_wire_version: 5, ..primary() },
        ServerFacts { logical_session_timeout: None, ..primary() },
    ];
    for server in unfit {
        assert_eq!(txn_number(BOTH, write(), server.clone()), TxnNumber::Omit);
        let retryable_error = labelled(command_error(189), &["RetryableWriteError"]);
        for failure in [broken(), pool_cleared(), retryable_error] {
            assert!(!is_retried(BOTH, write(), server.clone(), &failure), "{server:?}");
        }
    }
    let fit = [
        primary(),
        mongos(),
        ServerFacts { max_wire_version: 6, ..primary() },
        // A load balancer reports nothing.
        ServerFacts {
            max_wire_version: 0,
            logical_session_timeout: None,
            ..server("l", ServerType::LoadBalancer)
        },
    ];
    for server in fit {
        assert_eq!(txn_number(BOTH, write(), server.clone()), TxnNumber::Assign);
        assert!(is_retried(BOTH, write(), server.clone(), &broken()), "{server:?}");
    }
}

#[test]
fn reads_are_retried_on_every_server_type() {
    for server in [standalone(), old(primary()), mongos()] {
        assert!(is_retried(BOTH, read(), server, &broken()));
    }
}

#[test]
fn only_retryable_writes_get_a_txn_number() {
    for kind in KINDS {
        let expected = match kind {
            CommandKind::RetryableWrite => TxnNumber::Assign,
            CommandKind::Read
            | CommandKind::Write
            | CommandKind::Generic
            | CommandKind::GetMore
            | CommandKind::EndTransaction => TxnNumber::Omit,
        };
        assert_eq!(txn_number(BOTH, CommandFacts::new(kind), primary()), expected, "{kind:?}");
    }
    assert_eq!(txn_number(NEITHER, write(), primary()), TxnNumber::Omit);
}

#[test]
fn every_attempt_has_the_same_txn_number() {
    let now = Instant::now();
    let operation = CommandFacts { deadline: Some(now + MINUTE), ..write() };
    let mut retry = start(BOTH, operation, primary());
    assert_eq!(retry.begin_send(now).unwrap(), TxnNumber::Assign);
    for _ in 0..3 {
        assert!(matches!(
            retry.on_failure(&broken(), now, unjittered).next,
            NextStep::Retry { .. }
        ));
        retry.server_selected(server("b", ServerType::RsPrimary)).unwrap();
        assert_eq!(retry.begin_send(now).unwrap(), TxnNumber::Reuse);
    }
}

/// pitfall 18: without a connection there is no session, and so no `txnNumber` to reuse.
#[test]
fn txn_number_is_assigned_after_a_failed_check_out() {
    let now = Instant::now();
    let mut retry = start(BOTH, write(), primary());
    assert_eq!(retry.on_failure(&pool_cleared(), now, unjittered).next, AT_ONCE);
    retry.server_selected(primary()).unwrap();
    assert_eq!(retry.begin_send(now).unwrap(), TxnNumber::Assign);
}

/// Row 1 of the failures, for writes: only the label decides.
#[test]
fn since_4_4_only_the_label_makes_a_command_error_retryable() {
    for code in [91, 189, 10107, 11600, 1, 11000] {
        assert!(!is_retried(BOTH, write(), primary(), &command_error(code)), "{code}");
        let retryable_error = labelled(command_error(code), &["RetryableWriteError"]);
        assert!(is_retried(BOTH, write(), primary(), &retryable_error), "{code}");
    }
}

/// pitfall 15.
#[test]
fn retryable_write_concern_error_is_retried() {
    let retryable_error = labelled(write_concern(91), &["RetryableWriteError"]);
    assert!(is_retried(BOTH, write(), primary(), &retryable_error));
    assert!(is_retried(BOTH, write(), mongos(), &retryable_error));
    assert!(is_retried(BOTH, write(), old(primary()), &write_concern(91)));
    // A write concern time-out is not retryable.
    assert!(!is_retried(BOTH, write(), primary(), &write_concern(64)));
    assert!(!is_retried(BOTH, write(), old(primary()), &write_concern(64)));
}

/// pitfall 28, its first half.
#[test]
fn pool_cleared_and_handshake_errors_are_retried() {
    let handshake = [
        pool_cleared(),
        before_send(FailureCause::Network { aborted_by_client: false }),
        before_send(FailureCause::Network { aborted_by_client: true }),
        before_send(FailureCause::CommandError { code: 91, message: "shutting down" }),
    ];
    for failure in handshake {
        assert!(is_retried(BOTH, write(), primary(), &failure), "{failure:?}");
        assert!(is_retried(BOTH, read(), primary(), &failure), "{failure:?}");
    }
    for failure in [
        before_send(FailureCause::Driver),
        before_send(FailureCause::CommandError { code: 18, message: "wrong password" }),
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
            assert!(is_retried(BOTH, read(), server, &command_error(code)), "{code}");
        }
    }
    for failure in [
        command_error(0),
        command_error(11601),
        command_error(50),
        labelled(command_error(1), &["RetryableWriteError"]),
        sent(FailureCause::MalformedReply),
        sent(FailureCause::Driver),
    ] {
        assert!(!is_retried(BOTH, read(), primary(), &failure), "{failure:?}");
    }
}

/// Row 3.
#[test]
fn without_a_deadline_a_command_is_sent_at_most_twice() {
    for operation in [read(), write(), CommandFacts::new(CommandKind::EndTransaction)] {
        let now = Instant::now();
        let mut retry = start(BOTH, operation, primary());
        assert_eq!(retry.on_failure(&broken(), now, unjittered).next, AT_ONCE);
        retry.server_selected(primary()).unwrap();
        assert!(matches!(retry.on_failure(&broken(), now, unjittered).next, NextStep::GiveUp(_)));
        assert_eq!(retry.failed_attempts(), 2);
    }
}

/// Row 3: the pool was cleared again while the retry waited for a connection.
#[test]
fn unsent_attempt_does_not_use_up_the_retry() {
    for operation in [read(), write(), CommandFacts::new(CommandKind::EndTransaction)] {
        let now = Instant::now();
        let mut retry = start(BOTH, operation, primary());
        assert_eq!(retry.on_failure(&pool_cleared(), now, unjittered).next, AT_ONCE);
        for failure in [pool_cleared(), broken(), pool_cleared(), pool_cleared()] {
            retry.server_selected(primary()).unwrap();
            let next = retry.on_failure(&failure, now, unjittered).next;
            assert!(matches!(next, NextStep::Retry { wait } if !wait.is_zero()), "{next:?}");
        }
        retry.server_selected(primary()).unwrap();
        assert!(matches!(retry.on_failure(&broken(), now, unjittered).next, NextStep::GiveUp(_)));
    }
}

#[test]
fn unsent_attempts_end_after_server_selection_timeout() {
    let now = Instant::now();
    let settings = RetrySettings { server_selection_timeout: 2 * MINUTE, ..BOTH };
    let mut retry = start(settings, write(), primary());
    for second in 0..120 {
        let then = now + Duration::from_secs(second);
        let next = retry.on_failure(&pool_cleared(), then, unjittered).next;
        assert!(matches!(next, NextStep::Retry { .. }), "after {second} s: {next:?}");
        retry.server_selected(primary()).unwrap();
    }
    let next = retry.on_failure(&pool_cleared(), now + 2 * MINUTE, unjittered).next;
    let NextStep::GiveUp(end) = next else { panic!("{next:?}") };
    assert_eq!((end.raise, end.outcome), (RaisedError::Attempt(0), Outcome::NotSent));
}

#[test]
fn ordinary_retries_back_off_after_the_first() {
    let now = Instant::now();
    let operation = CommandFacts { deadline: Some(now + 60 * MINUTE), ..write() };
    let mut retry = start(BOTH, operation, primary());
    let mut waits = Vec::new();
    for _ in 0..10 {
        let next = retry.on_failure(&broken(), now, unjittered).next;
        let NextStep::Retry { wait } = next else { panic!("{next:?}") };
        waits.push(wait.as_millis());
    }
    assert_eq!(waits, [0, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    let next = retry.on_failure(&broken(), now, || 0.5).next;
    assert_eq!(next, NextStep::Retry { wait: Duration::from_millis(500) });
}

/// Row 2 of the commands: the handshake of the connection counts.
#[test]
fn write_on_a_connection_without_sessions_has_no_txn_number_and_no_retry() {
    let now = Instant::now();
    let mut retry = start(BOTH, write(), primary());
    retry.sessions_unsupported();
    assert_eq!(retry.begin_send(now).unwrap(), TxnNumber::Omit);
    let verdict = retry.on_failure(&broken(), now, unjittered);
    assert!(matches!(verdict.next, NextStep::GiveUp(_)), "{verdict:?}");
    assert!(!verdict.add_retryable_write_label);
}

/// Row 4.
#[test]
fn with_a_deadline_commands_are_retried_until_it_passes() {
    let now = Instant::now();
    let operation = CommandFacts { deadline: Some(now + MINUTE), ..read() };
    let mut retry = start(BOTH, operation, primary());
    for second in 0..59 {
        let verdict = retry.on_failure(&broken(), now + Duration::from_secs(second), unjittered);
        assert!(matches!(verdict.next, NextStep::Retry { .. }), "{verdict:?}");
        retry.server_selected(primary()).unwrap();
    }
    assert!(matches!(
        retry.on_failure(&broken(), now + MINUTE, unjittered).next,
        NextStep::GiveUp(_)
    ));
}

/// Row 5; pitfall 9.
#[test]
fn write_is_not_retried_once_its_session_may_have_expired() {
    let now = Instant::now();
    let sent = || {
        let mut retry = start(BOTH, write(), primary());
        let _ = retry.begin_send(now).unwrap();
        retry
    };
    let last_moment = now + 29 * MINUTE - Duration::from_nanos(1);

    let mut retry = sent();
    assert!(matches!(
        retry.on_failure(&broken(), now + 29 * MINUTE, unjittered).next,
        NextStep::GiveUp(_)
    ));

    let mut retry = sent();
    assert_eq!(retry.on_failure(&broken(), last_moment, unjittered).next, AT_ONCE);
    retry.server_selected(primary()).unwrap();
    assert_eq!(retry.begin_send(last_moment).unwrap(), TxnNumber::Reuse);

    // Server selection and connecting took too long.
    let mut retry = sent();
    assert_eq!(retry.on_failure(&broken(), now, unjittered).next, AT_ONCE);
    retry.server_selected(primary()).unwrap();
    let end = retry.begin_send(now + 29 * MINUTE).unwrap_err();
    assert_eq!(end.raise, RaisedError::Attempt(0));
    assert_eq!(end.outcome, Outcome::MaybeApplied);
}

/// pitfall 9: the shortest session lifetime of all selected servers counts.
#[test]
fn shortest_session_lifetime_of_all_servers_bounds_retries() {
    let now = Instant::now();
    let short_lived_sessions = ServerFacts {
        logical_session_timeout: Some(2 * MINUTE),
        ..server("b", ServerType::RsPrimary)
    };
    let mut retry = start(BOTH, write(), primary());
    let _ = retry.begin_send(now).unwrap();
    assert_eq!(retry.on_failure(&broken(), now + MINUTE, unjittered).next, AT_ONCE);
    retry.server_selected(short_lived_sessions).unwrap();
    assert!(retry.begin_send(now + MINUTE).is_err());
}

#[test]
fn unsent_writes_and_reads_are_not_bound_by_the_session_lifetime() {
    let now = Instant::now();
    let late = now + 60 * MINUTE;
    let mut retry = start(BOTH, write(), primary());
    assert_eq!(retry.on_failure(&pool_cleared(), late, unjittered).next, AT_ONCE);
    retry.server_selected(primary()).unwrap();
    assert_eq!(retry.begin_send(late + late.duration_since(now)).unwrap(), TxnNumber::Assign);

    let mut retry = start(BOTH, read(), primary());
    let _ = retry.begin_send(now).unwrap();
    assert_eq!(retry.on_failure(&broken(), late, unjittered).next, AT_ONCE);
    retry.server_selected(primary()).unwrap();
    assert_eq!(retry.begin_send(late).unwrap(), TxnNumber::Omit);
}

/// Row 8: a mongos is deprioritized after any failure, another server only under overload.
#[test]
fn failed_mongos_or_overloaded_server_is_deprioritized() {
    let overloaded = labelled(broken(), &["SystemOverloadedError"]);
    let retargeting = |on| RetrySettings { overload_retargeting: on, ..BOTH };
    let cases = [
        (None, mongos(), broken(), vec![address("r")]),
        (None, mongos(), pool_cleared(), vec![address("r")]),
        (None, primary(), broken(), vec![]),
        (None, primary(), overloaded, vec![address("a")]),
        (Some(true), primary(), overloaded, vec![address("a")]),
        (Some(true), primary(), broken(), vec![]),
        (Some(false), primary(), overloaded, vec![]),
        (Some(false), mongos(), overloaded, vec![address("r")]),
    ];
    for (on, server, failure, expected) in cases {
        for operation in [read(), write()] {
            let mut retry = start(retargeting(on), operation, server.clone());
            let verdict = retry.on_failure(&failure, Instant::now(), unjittered);
            assert!(matches!(verdict.next, NextStep::Retry { .. }));
            assert_eq!(retry.deprioritized(), expected, "{on:?} {failure:?}");
        }
    }
}

#[test]
fn every_failed_mongos_is_deprioritized_once() {
    let now = Instant::now();
    let operation = CommandFacts { deadline: Some(now + MINUTE), ..write() };
    let mut retry = Retry::new(BOTH, operation, &Arc::default());
    for host in ["r", "q", "r"] {
        retry.server_selected(server(host, ServerType::Mongos)).unwrap();
        assert!(matches!(
            retry.on_failure(&broken(), now, unjittered).next,
            NextStep::Retry { .. }
        ));
    }
    assert_eq!(retry.deprioritized(), [address("r"), address("q")]);
}
