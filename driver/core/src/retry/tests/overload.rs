//! Overload errors: retries, their number, backoffs and tokens.

use std::panic;

use super::*;

const OVERLOAD: &[&str] = &["SystemOverloadedError", "RetryableError"];

/// An overload error of a server.
fn overload_error() -> AttemptFailure<'static> {
    labelled(command_error(462), OVERLOAD)
}

/// A retryable error without a backoff.
fn immediate_retry_error() -> AttemptFailure<'static> {
    labelled(command_error(91), &["RetryableError", "RetryableWriteError"])
}

fn only_reads() -> RetrySettings {
    RetrySettings { retry_writes: false, ..BOTH }
}

fn only_writes() -> RetrySettings {
    RetrySettings { retry_reads: false, ..BOTH }
}

fn at_most(retries: u32) -> RetrySettings {
    RetrySettings { max_adaptive_retries: Some(retries), ..BOTH }
}

fn waits(millis: u64) -> NextStep {
    NextStep::Retry { wait: Duration::from_millis(millis) }
}

/// Fails the attempts on a primary one after another, until it gives up. Returns the backoffs.
fn retries(
    settings: RetrySettings,
    operation: CommandFacts,
    budget: &Arc<RetryBudget>,
    failures: impl IntoIterator<Item = AttemptFailure<'static>>,
) -> Vec<Duration> {
    let now = Instant::now();
    let mut retry = Retry::new(settings, operation, budget);
    let mut waits = Vec::new();
    for failure in failures {
        retry.server_selected(primary()).unwrap();
        if failure.phase == AttemptPhase::Sent {
            let _ = retry.begin_send(now).unwrap();
        }
        match retry.on_failure(&failure, now, unjittered).next {
            NextStep::Retry { wait } => waits.push(wait),
            NextStep::GiveUp(_) => break,
        }
    }
    waits
}

fn count(
    settings: RetrySettings,
    operation: CommandFacts,
    failures: impl IntoIterator<Item = AttemptFailure<'static>>,
) -> usize {
    retries(settings, operation, &Arc::default(), failures).len()
}

fn always(failure: AttemptFailure<'static>) -> impl Iterator<Item = AttemptFailure<'static>> {
    std::iter::repeat_n(failure, 100)
}

/// Table 1, column "by label". pitfall 30: `getMore`, too.
#[test]
fn every_command_kind_is_retried_after_an_overload_error() {
    for kind in KINDS {
        for in_transaction in [false, true] {
            let operation = CommandFacts { in_transaction, ..CommandFacts::new(kind) };
            for at in [primary(), standalone(), mongos(), old(primary())] {
                assert!(is_retried(BOTH, operation, at, &overload_error()), "{operation:?}");
            }
            assert_eq!(count(BOTH, operation, always(overload_error())), 5, "{operation:?}");
        }
    }
}

/// pitfall 31.
#[test]
fn overload_retries_respect_retry_reads_and_retry_writes() {
    for kind in KINDS {
        let (reads, writes) = match kind {
            CommandKind::Read | CommandKind::GetMore => (true, false),
            CommandKind::RetryableWrite | CommandKind::Write => (false, true),
            CommandKind::Generic => (false, false),
            CommandKind::EndTransaction => (true, true),
        };
        for failure in
            [overload_error(), labelled(pool_cleared(), OVERLOAD), immediate_retry_error()]
        {
            let retried =
                |settings| is_retried(settings, CommandFacts::new(kind), primary(), &failure);
            assert_eq!(retried(only_reads()), reads, "{kind:?}");
            assert_eq!(retried(only_writes()), writes, "{kind:?}");
            assert_eq!(retried(NEITHER), kind == CommandKind::EndTransaction, "{kind:?}");
            assert!(retried(BOTH), "{kind:?}");
            assert!(!retried(at_most(0)), "{kind:?}");
        }
    }
}

#[test]
fn unacknowledged_write_is_not_retried_after_overload() {
    for kind in [CommandKind::RetryableWrite, CommandKind::Write, CommandKind::Generic] {
        let operation = CommandFacts { acknowledged: false, ..CommandFacts::new(kind) };
        let unreachable = labelled(before_send(FailureCause::PoolCleared), OVERLOAD);
        assert!(!is_retried(BOTH, operation, primary(), &unreachable));
    }
}

/// Row 1.
#[test]
fn retryable_error_label_is_ignored_after_possible_writes() {
    let causes = [
        FailureCause::Network { aborted_by_client: false },
        FailureCause::Network { aborted_by_client: true },
        FailureCause::WriteConcern { code: 91 },
        FailureCause::WriteErrors { codes: &[462], any_applied: false },
        FailureCause::WriteErrors { codes: &[462], any_applied: true },
        FailureCause::MalformedReply,
    ];
    for cause in causes {
        for kind in [CommandKind::Write, CommandKind::Generic] {
            let failure = labelled(sent(cause), OVERLOAD);
            assert!(!is_retried(BOTH, CommandFacts::new(kind), primary(), &failure), "{cause:?}");
        }
    }
    // A connection that was not established has sent nothing.
    let unreachable =
        labelled(before_send(FailureCause::Network { aborted_by_client: false }), OVERLOAD);
    assert!(is_retried(BOTH, CommandFacts::new(CommandKind::Write), primary(), &unreachable));
}

#[test]
fn overload_error_without_retryable_error_is_retried_only_by_code() {
    let overloaded = labelled(command_error(91), &["SystemOverloadedError"]);
    let budget = Arc::default();
    assert_eq!(retries(BOTH, read(), &budget, always(overloaded)).len(), 5);
    assert_eq!(budget.withdrawn(), 5, "it is paid for all the same");
    for kind in [
        CommandKind::RetryableWrite,
        CommandKind::Write,
        CommandKind::Generic,
        CommandKind::GetMore,
    ] {
        assert!(!is_retried(BOTH, CommandFacts::new(kind), primary(), &overloaded), "{kind:?}");
    }
    let other = labelled(command_error(2), &["SystemOverloadedError"]);
    assert!(!is_retried(BOTH, read(), primary(), &other));
}

/// Row 8: 100, 200, 400, 800 and 1600 ms before jitter, and no sixth retry.
#[test]
fn overload_backoff_doubles_over_five_retries() {
    for kind in KINDS {
        let waits =
            retries(BOTH, CommandFacts::new(kind), &Arc::default(), always(overload_error()));
        assert_eq!(waits, [100, 200, 400, 800, 1600].map(Duration::from_millis));
    }
}

#[test]
fn jitter_is_drawn_only_before_a_backoff() {
    let now = Instant::now();
    for (jitter, expected) in [(0.0, 0), (0.5, 50), (0.99, 99)] {
        let mut retry = start(BOTH, read(), primary());
        assert_eq!(retry.on_failure(&overload_error(), now, || jitter).next, waits(expected));
    }
    for failure in [broken(), pool_cleared(), immediate_retry_error(), command_error(2)] {
        let mut retry = start(BOTH, write(), primary());
        let verdict = retry.on_failure(&failure, now, || panic!("there is no wait"));
        assert_eq!(verdict.next == AT_ONCE, failure != command_error(2));
    }
    let mut retry = start(at_most(0), read(), primary());
    let verdict = retry.on_failure(&overload_error(), now, || panic!("there is no retry"));
    assert!(matches!(verdict.next, NextStep::GiveUp(_)));
}

/// pitfall 37.
#[test]
fn overload_backoff_never_exceeds_ten_seconds() {
    let waits = retries(at_most(u32::MAX), read(), &Arc::default(), always(overload_error()));
    assert_eq!(waits.len(), 100);
    assert_eq!(waits[6], Duration::from_millis(6400));
    assert!(waits[7..].iter().all(|&wait| wait == Duration::from_secs(10)));
    let far = backoff::after_overload(u32::MAX, Some(Duration::MAX), 1.0);
    assert_eq!(far, Duration::from_secs(10));
}

#[test]
fn invalid_jitter_is_clamped() {
    for (jitter, expected) in
        [(-1.0, 0), (f64::NEG_INFINITY, 0), (2.0, 100), (f64::INFINITY, 100), (f64::NAN, 100)]
    {
        assert_eq!(
            backoff::after_overload(0, None, jitter),
            Duration::from_millis(expected),
            "{jitter}"
        );
    }
}

#[test]
fn base_backoff_ms_replaces_the_base() {
    let with_base_backoff = |millis| AttemptFailure {
        base_backoff: Some(Duration::from_millis(millis)),
        ..overload_error()
    };
    let waits = |failures: &[AttemptFailure<'static>]| {
        retries(BOTH, read(), &Arc::default(), failures.iter().copied())
    };
    assert_eq!(waits(&[with_base_backoff(50); 4]), [50, 100, 200, 400].map(Duration::from_millis));
    assert_eq!(waits(&[with_base_backoff(0); 2]), [100, 200].map(Duration::from_millis));
    assert_eq!(waits(&[with_base_backoff(60_000)]), [Duration::from_secs(10)]);
    // `baseBackoffMS` applies to its own error only.
    assert_eq!(
        waits(&[with_base_backoff(10), overload_error(), with_base_backoff(10)]),
        [10, 200, 40].map(Duration::from_millis)
    );
}

/// Only backoffs lengthen the next backoff.
#[test]
fn retry_without_backoff_does_not_lengthen_the_next_backoff() {
    let failures = [broken(), overload_error(), immediate_retry_error(), overload_error()];
    let waits = retries(BOTH, write(), &Arc::default(), failures);
    assert_eq!(waits, [0, 100, 0, 200].map(Duration::from_millis));
}

/// Row 2.
#[test]
fn max_adaptive_retries_limits_retries() {
    for retries in [0, 1, 2, 7] {
        for kind in KINDS {
            let made = count(at_most(retries), CommandFacts::new(kind), always(overload_error()));
            assert_eq!(made, retries as usize, "{kind:?}");
        }
    }
    // Ordinary errors alone are not limited by it.
    assert_eq!(count(at_most(0), read(), always(broken())), 1);
}

/// pitfall 33, and the specification's prose tests of mixed errors.
#[test]
fn mixed_errors_respect_both_retry_limits() {
    for operation in [read(), write()] {
        for most in [1, 2, 5] {
            let settings = at_most(most);
            // Rejections without a backoff count, too.
            let mix = std::iter::once(overload_error()).chain(always(immediate_retry_error()));
            assert_eq!(count(settings, operation, mix), most as usize);
            // One ordinary retry, before or after.
            let mix = std::iter::once(broken()).chain(always(overload_error()));
            assert_eq!(count(settings, operation, mix), most as usize);
            let mix = std::iter::once(overload_error()).chain(always(broken()));
            assert_eq!(count(settings, operation, mix), (most as usize).min(2));
            let mix = [broken(), overload_error()].into_iter().cycle().take(100);
            assert_eq!(count(settings, operation, mix), (most as usize).min(2));
        }
        let mix = [broken(), overload_error(), overload_error()];
        assert_eq!(count(at_most(0), operation, mix), 1);
        // A retry by label does not make later errors retryable by code.
        let many = CommandFacts::new(CommandKind::Write);
        assert_eq!(
            count(BOTH, many, [overload_error(), overload_error(), broken(), overload_error()]),
            2
        );
    }
}

/// pitfall 33, with a deadline: without an overload error there is no other limit.
#[test]
fn overload_error_bounds_retries_with_a_deadline() {
    let deadline = Some(Instant::now() + 60 * MINUTE);
    let operation = CommandFacts { deadline, ..read() };
    assert_eq!(count(BOTH, operation, always(broken())), 100);
    let mix = std::iter::once(overload_error()).chain(always(broken()));
    assert_eq!(count(BOTH, operation, mix), 5);
    let mix = std::iter::repeat_n(broken(), 3).chain(always(overload_error()));
    assert_eq!(count(BOTH, operation, mix), 5);
    let mix = std::iter::repeat_n(broken(), 20).chain(always(overload_error()));
    assert_eq!(count(BOTH, operation, mix), 20);
}

/// Row 6; pitfall 32.
#[test]
fn backoff_beyond_the_deadline_is_not_started_and_takes_no_token() {
    let now = Instant::now();
    let within = |millis| {
        let deadline = Some(now + Duration::from_millis(millis));
        let budget = Arc::default();
        let mut retry = Retry::new(BOTH, CommandFacts { deadline, ..write() }, &budget);
        retry.server_selected(primary()).unwrap();
        let _ = retry.begin_send(now).unwrap();
        let verdict = retry.on_failure(&overload_error(), now, unjittered);
        (verdict.next, verdict.budget_exhausted, budget.withdrawn())
    };
    assert_eq!(within(101), (waits(100), false, 1));
    for millis in [0, 1, 99, 100] {
        let (next, budget_exhausted, withdrawn) = within(millis);
        assert!(matches!(next, NextStep::GiveUp(_)), "{millis}");
        assert_eq!((budget_exhausted, withdrawn), (false, 0));
    }
}

/// Row 7.
#[test]
fn without_tokens_only_ordinary_errors_are_retried() {
    let now = Instant::now();
    let empty = Arc::new(RetryBudget::with_capacity(0));
    for failure in [overload_error(), immediate_retry_error()] {
        for kind in KINDS {
            let mut retry = Retry::new(BOTH, CommandFacts::new(kind), &empty);
            retry.server_selected(primary()).unwrap();
            let verdict = retry.on_failure(&failure, now, unjittered);
            assert!(matches!(verdict.next, NextStep::GiveUp(_)), "{kind:?}");
            assert!(verdict.budget_exhausted);
        }
    }
    assert_eq!(empty.denied(), 12);
    assert_eq!(retries(BOTH, write(), &empty, always(broken())), [Duration::ZERO]);
    assert_eq!((empty.withdrawn(), empty.denied()), (0, 12));
}

#[test]
fn token_is_spent_only_by_another_overload_error() {
    let now = Instant::now();
    // After the attempt of the first retry has failed.
    let left_after = |second: &AttemptFailure<'_>| {
        let budget = Arc::new(RetryBudget::with_capacity(10));
        let mut retry = Retry::new(at_most(1), write(), &budget);
        retry.server_selected(primary()).unwrap();
        assert_eq!(retry.on_failure(&overload_error(), now, unjittered).next, waits(100));
        assert_eq!(budget.tokens_left(), 9.0);
        retry.server_selected(primary()).unwrap();
        let _ = retry.on_failure(second, now, unjittered);
        budget.tokens_left()
    };
    assert_eq!(left_after(&overload_error()), 9.0);
    assert_eq!(left_after(&labelled(command_error(2), &["SystemOverloadedError"])), 9.0);
    for second in
        [broken(), command_error(11000), pool_cleared(), write_concern(64), immediate_retry_error()]
    {
        assert_eq!(left_after(&second), 10.0, "{second:?}");
    }
}

#[test]
fn success_returns_the_token_and_adds_a_tenth() {
    let now = Instant::now();
    let budget = Arc::new(RetryBudget::with_capacity(10));
    let mut retry = Retry::new(BOTH, read(), &budget);
    retry.server_selected(primary()).unwrap();
    for _ in 0..2 {
        assert!(matches!(
            retry.on_failure(&overload_error(), now, unjittered).next,
            NextStep::Retry { .. }
        ));
    }
    assert_eq!(budget.tokens_left(), 8.0);
    retry.succeeded();
    assert_eq!(budget.tokens_left(), 9.1);
    drop(retry);
    assert_eq!(budget.tokens_left(), 9.1);

    Retry::new(BOTH, read(), &budget).succeeded();
    assert_eq!(budget.tokens_left(), 9.2);
    // An unacknowledged write has no reply.
    let unacknowledged = CommandFacts { acknowledged: false, ..write() };
    Retry::new(BOTH, unacknowledged, &budget).succeeded();
    assert_eq!(budget.tokens_left(), 9.2);
}

/// pitfall 37.
#[test]
fn token_is_returned_when_the_retry_is_not_sent() {
    let now = Instant::now();
    let budget = Arc::new(RetryBudget::with_capacity(10));
    let waiting = || {
        let mut retry = Retry::new(BOTH, write(), &budget);
        retry.server_selected(primary()).unwrap();
        assert_eq!(retry.on_failure(&overload_error(), now, unjittered).next, waits(100));
        assert_eq!(budget.tokens_left(), 9.0);
        retry
    };
    drop(waiting());
    assert_eq!(budget.tokens_left(), 10.0);
    let _ = waiting().no_server();
    assert_eq!(budget.tokens_left(), 10.0);
    let _ = waiting().server_selected(standalone()).unwrap_err();
    assert_eq!(budget.tokens_left(), 10.0);
    let panicked = panic::catch_unwind(panic::AssertUnwindSafe(|| {
        let _retry = waiting();
        panic::resume_unwind(Box::new("as if by accident"));
    }));
    assert!(panicked.is_err());
    assert_eq!(budget.tokens_left(), 10.0);
}

#[test]
fn token_is_spent_when_a_sent_retry_is_dropped() {
    let now = Instant::now();
    let budget = Arc::new(RetryBudget::with_capacity(10));
    let mut retry = Retry::new(BOTH, write(), &budget);
    retry.server_selected(primary()).unwrap();
    assert_eq!(retry.on_failure(&overload_error(), now, unjittered).next, waits(100));
    retry.server_selected(primary()).unwrap();
    let _ = retry.begin_send(now).unwrap();
    drop(retry);
    assert_eq!(budget.tokens_left(), 9.0);
}

#[test]
fn exhausted_budget_recovers_with_successes() {
    let budget = Arc::new(RetryBudget::with_capacity(12));
    let made: Vec<_> =
        (0..5).map(|_| retries(BOTH, read(), &budget, always(overload_error())).len()).collect();
    assert_eq!(made, [5, 5, 2, 0, 0]);
    for _ in 0..20 {
        Retry::new(BOTH, read(), &budget).succeeded();
    }
    assert_eq!(retries(BOTH, read(), &budget, always(overload_error())).len(), 2);
}

#[test]
fn overload_retries_keep_the_txn_number() {
    let now = Instant::now();
    let mut retry = start(BOTH, write(), primary());
    assert_eq!(retry.begin_send(now).unwrap(), TxnNumber::Assign);
    for failure in [overload_error(), broken(), overload_error(), immediate_retry_error()] {
        assert!(matches!(retry.on_failure(&failure, now, unjittered).next, NextStep::Retry { .. }));
        retry.server_selected(server("b", ServerType::RsPrimary)).unwrap();
        assert_eq!(retry.begin_send(now).unwrap(), TxnNumber::Reuse);
    }
    // Without a `txnNumber`, the retry has none, too.
    let in_transaction = CommandFacts { in_transaction: true, ..write() };
    for (operation, at) in [(write(), standalone()), (in_transaction, primary())] {
        let mut retry = start(BOTH, operation, at.clone());
        assert_eq!(retry.begin_send(now).unwrap(), TxnNumber::Omit);
        assert_eq!(retry.on_failure(&overload_error(), now, unjittered).next, waits(100));
        retry.server_selected(at).unwrap();
        assert_eq!(retry.begin_send(now).unwrap(), TxnNumber::Omit);
    }
}

/// Row 5.
#[test]
fn rejected_command_is_not_bound_by_the_session_lifetime() {
    let now = Instant::now();
    let late = now + 31 * MINUTE;
    let mut retry = start(BOTH, write(), primary());
    let _ = retry.begin_send(now).unwrap();
    assert_eq!(retry.on_failure(&overload_error(), late, unjittered).next, waits(100));
    retry.server_selected(primary()).unwrap();
    assert_eq!(retry.begin_send(late).unwrap(), TxnNumber::Reuse);
    // From now on it may be executed, so the session's lifetime counts from here.
    assert_eq!(retry.on_failure(&broken(), late, unjittered).next, AT_ONCE);
    retry.server_selected(primary()).unwrap();
    assert_eq!(retry.begin_send(late + 28 * MINUTE).unwrap(), TxnNumber::Reuse);
    let verdict = retry.on_failure(&overload_error(), late + 29 * MINUTE, unjittered);
    assert!(matches!(verdict.next, NextStep::GiveUp(_)));
}

/// The specification's prose tests of the raised error.
#[test]
fn latest_overload_error_is_raised_unless_labelled_no_writes_performed() {
    let silent = labelled(command_error(91), &[OVERLOAD, &["NoWritesPerformed"]].concat());
    let raised = |first: AttemptFailure<'static>, then: AttemptFailure<'static>| {
        let failures: Vec<_> = std::iter::once(first).chain([then; 5]).collect();
        run(write(), &primary(), &failures).raise
    };
    assert_eq!(
        raised(labelled(command_error(91), OVERLOAD), overload_error()),
        RaisedError::Attempt(5)
    );
    assert_eq!(raised(silent, silent), RaisedError::Attempt(0));
    assert_eq!(raised(labelled(command_error(91), OVERLOAD), silent), RaisedError::Attempt(0));
}
