//! Overloaded servers: what is tried again, how often, after which wait and for what price.

use std::panic;

use super::*;

const OVERLOAD: &[&str] = &["SystemOverloadedError", "RetryableError"];

/// What a server says that sheds load.
fn shed() -> Failure<'static> {
    labelled(refused(462), OVERLOAD)
}

/// The same, without asking for patience.
fn turned_away() -> Failure<'static> {
    labelled(refused(91), &["RetryableError", "RetryableWriteError"])
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

fn waits(millis: u64) -> Next {
    Next::Retry { wait: Duration::from_millis(millis) }
}

/// Fails attempts at a primary, one after the other; the waits of the retries, until it gives up.
fn retries(
    settings: RetrySettings,
    operation: Operation,
    budget: &Arc<Budget>,
    failures: impl IntoIterator<Item = Failure<'static>>,
) -> Vec<Duration> {
    let now = Instant::now();
    let mut retry = Retry::new(settings, operation, budget);
    let mut waits = Vec::new();
    for failure in failures {
        retry.server_selected(primary()).unwrap();
        if failure.phase == Phase::Sending {
            let _ = retry.begin_sending(now).unwrap();
        }
        match retry.on_failure(&failure, now, unjittered).next {
            Next::Retry { wait } => waits.push(wait),
            Next::GiveUp(_) => break,
        }
    }
    waits
}

fn count(
    settings: RetrySettings,
    operation: Operation,
    failures: impl IntoIterator<Item = Failure<'static>>,
) -> usize {
    retries(settings, operation, &Arc::default(), failures).len()
}

fn always(failure: Failure<'static>) -> impl Iterator<Item = Failure<'static>> {
    std::iter::repeat_n(failure, 100)
}

/// Table 1, its column of labels. pitfall 30: getMore too.
#[test]
fn any_command_is_retried_that_a_server_turned_away() {
    for kind in KINDS {
        for in_transaction in [false, true] {
            let operation = Operation { in_transaction, ..Operation::new(kind) };
            for at in [primary(), standalone(), router(), old(primary())] {
                assert!(is_retried(BOTH, operation, at, &shed()), "{operation:?}");
            }
            assert_eq!(count(BOTH, operation, always(shed())), 5, "{operation:?}");
        }
    }
}

/// pitfall 31.
#[test]
fn overload_is_not_retried_against_the_options() {
    for kind in KINDS {
        let (reads, writes) = match kind {
            Kind::Read | Kind::GetMore => (true, false),
            Kind::RecognisableWrite | Kind::Write => (false, true),
            Kind::Generic => (false, false),
            Kind::EndTransaction => (true, true),
        };
        for failure in [shed(), labelled(pool_cleared(), OVERLOAD), turned_away()] {
            let retried =
                |settings| is_retried(settings, Operation::new(kind), primary(), &failure);
            assert_eq!(retried(only_reads()), reads, "{kind:?}");
            assert_eq!(retried(only_writes()), writes, "{kind:?}");
            assert_eq!(retried(NEITHER), kind == Kind::EndTransaction, "{kind:?}");
            assert!(retried(BOTH), "{kind:?}");
            assert!(!retried(at_most(0)), "{kind:?}");
        }
    }
}

#[test]
fn an_unacknowledged_write_is_not_retried() {
    for kind in [Kind::RecognisableWrite, Kind::Write, Kind::Generic] {
        let operation = Operation { acknowledged: false, ..Operation::new(kind) };
        let unreachable = labelled(before_sending(Cause::PoolCleared), OVERLOAD);
        assert!(!is_retried(BOTH, operation, primary(), &unreachable));
    }
}

/// Row 1.
#[test]
fn the_label_is_not_believed_where_something_may_have_been_written() {
    let causes = [
        Cause::Network { ended_by_us: false },
        Cause::Network { ended_by_us: true },
        Cause::WriteConcern { code: 91 },
        Cause::WriteErrors { codes: &[462], any_applied: false },
        Cause::WriteErrors { codes: &[462], any_applied: true },
        Cause::UnreadableReply,
    ];
    for cause in causes {
        for kind in [Kind::Write, Kind::Generic] {
            let failure = labelled(sending(cause), OVERLOAD);
            assert!(!is_retried(BOTH, Operation::new(kind), primary(), &failure), "{cause:?}");
        }
    }
    // A connection that was not made carried nothing.
    let unreachable = labelled(before_sending(Cause::Network { ended_by_us: false }), OVERLOAD);
    assert!(is_retried(BOTH, Operation::new(Kind::Write), primary(), &unreachable));
}

#[test]
fn an_overloaded_server_that_does_not_call_it_retryable_is_asked_again_only_by_kind() {
    let overloaded = labelled(refused(91), &["SystemOverloadedError"]);
    let budget = Arc::default();
    assert_eq!(retries(BOTH, read(), &budget, always(overloaded)).len(), 5);
    assert_eq!(budget.withdrawn(), 5, "it is paid for all the same");
    for kind in [Kind::RecognisableWrite, Kind::Write, Kind::Generic, Kind::GetMore] {
        assert!(!is_retried(BOTH, Operation::new(kind), primary(), &overloaded), "{kind:?}");
    }
    let other = labelled(refused(2), &["SystemOverloadedError"]);
    assert!(!is_retried(BOTH, read(), primary(), &other));
}

/// Row 8: 100, 200, 400, 800 and 1600 ms before jitter, and no sixth retry.
#[test]
fn five_retries_wait_twice_as_long_each_time() {
    for kind in KINDS {
        let waits = retries(BOTH, Operation::new(kind), &Arc::default(), always(shed()));
        assert_eq!(waits, [100, 200, 400, 800, 1600].map(Duration::from_millis));
    }
}

#[test]
fn jitter_shortens_the_wait_and_is_asked_for_only_before_one() {
    let now = Instant::now();
    for (jitter, expected) in [(0.0, 0), (0.5, 50), (0.99, 99)] {
        let mut retry = start(BOTH, read(), primary());
        assert_eq!(retry.on_failure(&shed(), now, || jitter).next, waits(expected));
    }
    for failure in [broken(), pool_cleared(), turned_away(), refused(2)] {
        let mut retry = start(BOTH, write(), primary());
        let verdict = retry.on_failure(&failure, now, || panic!("there is no wait"));
        assert_eq!(verdict.next == AT_ONCE, failure != refused(2));
    }
    let mut retry = start(at_most(0), read(), primary());
    let verdict = retry.on_failure(&shed(), now, || panic!("there is no retry"));
    assert!(matches!(verdict.next, Next::GiveUp(_)));
}

/// pitfall 37.
#[test]
fn waits_are_never_longer_than_ten_seconds_however_many_there_are() {
    let waits = retries(at_most(u32::MAX), read(), &Arc::default(), always(shed()));
    assert_eq!(waits.len(), 100);
    assert_eq!(waits[6], Duration::from_millis(6400));
    assert!(waits[7..].iter().all(|&wait| wait == Duration::from_secs(10)));
    let far = backoff::after_overload(u32::MAX, Some(Duration::MAX), 1.0);
    assert_eq!(far, Duration::from_secs(10));
}

#[test]
fn a_jitter_that_is_none_does_no_harm() {
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
fn the_server_says_what_the_wait_begins_with() {
    let says = |millis| Failure { base_backoff: Some(Duration::from_millis(millis)), ..shed() };
    let waits = |failures: &[Failure<'static>]| {
        retries(BOTH, read(), &Arc::default(), failures.iter().copied())
    };
    assert_eq!(waits(&[says(50); 4]), [50, 100, 200, 400].map(Duration::from_millis));
    assert_eq!(waits(&[says(0); 2]), [100, 200].map(Duration::from_millis));
    assert_eq!(waits(&[says(60_000)]), [Duration::from_secs(10)]);
    // It holds for the error that it stands on.
    assert_eq!(waits(&[says(10), shed(), says(10)]), [10, 200, 40].map(Duration::from_millis));
}

/// Only waits make the next one longer.
#[test]
fn a_retry_without_a_wait_does_not_lengthen_the_next() {
    let failures = [broken(), shed(), turned_away(), shed()];
    let waits = retries(BOTH, write(), &Arc::default(), failures);
    assert_eq!(waits, [0, 100, 0, 200].map(Duration::from_millis));
}

/// Row 2.
#[test]
fn an_application_sets_the_number_of_retries() {
    for retries in [0, 1, 2, 7] {
        for kind in KINDS {
            let made = count(at_most(retries), Operation::new(kind), always(shed()));
            assert_eq!(made, retries as usize, "{kind:?}");
        }
    }
    // Ordinary errors alone are not its business.
    assert_eq!(count(at_most(0), read(), always(broken())), 1);
}

/// pitfall 33, and the specification's prose tests of mixed errors.
#[test]
fn a_mix_of_errors_keeps_within_both_limits() {
    for operation in [read(), write()] {
        for most in [1, 2, 5] {
            let settings = at_most(most);
            // Turned away without being told to wait counts all the same.
            let mix = std::iter::once(shed()).chain(always(turned_away()));
            assert_eq!(count(settings, operation, mix), most as usize);
            // One ordinary retry, before or after.
            let mix = std::iter::once(broken()).chain(always(shed()));
            assert_eq!(count(settings, operation, mix), most as usize);
            let mix = std::iter::once(shed()).chain(always(broken()));
            assert_eq!(count(settings, operation, mix), (most as usize).min(2));
            let mix = [broken(), shed()].into_iter().cycle().take(100);
            assert_eq!(count(settings, operation, mix), (most as usize).min(2));
        }
        let mix = [broken(), shed(), shed()];
        assert_eq!(count(at_most(0), operation, mix), 1);
        // What may not be tried again by kind is not because it was by label before.
        let many = Operation::new(Kind::Write);
        assert_eq!(count(BOTH, many, [shed(), shed(), broken(), shed()]), 2);
    }
}

/// pitfall 33, with a deadline: without an overload error there is no other limit.
#[test]
fn one_overload_error_bounds_the_retries_of_a_command_with_a_deadline() {
    let deadline = Some(Instant::now() + 60 * MINUTE);
    let operation = Operation { deadline, ..read() };
    assert_eq!(count(BOTH, operation, always(broken())), 100);
    let mix = std::iter::once(shed()).chain(always(broken()));
    assert_eq!(count(BOTH, operation, mix), 5);
    let mix = std::iter::repeat_n(broken(), 3).chain(always(shed()));
    assert_eq!(count(BOTH, operation, mix), 5);
    let mix = std::iter::repeat_n(broken(), 20).chain(always(shed()));
    assert_eq!(count(BOTH, operation, mix), 20);
}

/// Row 6; pitfall 32.
#[test]
fn a_wait_that_would_not_end_in_time_is_not_begun_and_costs_nothing() {
    let now = Instant::now();
    let within = |millis| {
        let deadline = Some(now + Duration::from_millis(millis));
        let budget = Arc::default();
        let mut retry = Retry::new(BOTH, Operation { deadline, ..write() }, &budget);
        retry.server_selected(primary()).unwrap();
        let _ = retry.begin_sending(now).unwrap();
        let verdict = retry.on_failure(&shed(), now, unjittered);
        (verdict.next, verdict.refused_by_budget, budget.withdrawn())
    };
    assert_eq!(within(101), (waits(100), false, 1));
    for millis in [0, 1, 99, 100] {
        let (next, refused_by_budget, withdrawn) = within(millis);
        assert!(matches!(next, Next::GiveUp(_)), "{millis}");
        assert_eq!((refused_by_budget, withdrawn), (false, 0));
    }
}

/// Row 7.
#[test]
fn without_a_token_an_overload_error_is_raised_and_an_ordinary_one_retried() {
    let now = Instant::now();
    let empty = Arc::new(Budget::with_capacity(0));
    for failure in [shed(), turned_away()] {
        for kind in KINDS {
            let mut retry = Retry::new(BOTH, Operation::new(kind), &empty);
            retry.server_selected(primary()).unwrap();
            let verdict = retry.on_failure(&failure, now, unjittered);
            assert!(matches!(verdict.next, Next::GiveUp(_)), "{kind:?}");
            assert!(verdict.refused_by_budget);
        }
    }
    assert_eq!(empty.refused(), 12);
    assert_eq!(retries(BOTH, write(), &empty, always(broken())), [Duration::ZERO]);
    assert_eq!((empty.withdrawn(), empty.refused()), (0, 12));
}

#[test]
fn a_token_is_spent_on_another_overload_error_alone() {
    let now = Instant::now();
    // After the first retry's attempt ended so.
    let left_after = |second: &Failure<'_>| {
        let budget = Arc::new(Budget::with_capacity(10));
        let mut retry = Retry::new(at_most(1), write(), &budget);
        retry.server_selected(primary()).unwrap();
        assert_eq!(retry.on_failure(&shed(), now, unjittered).next, waits(100));
        assert_eq!(budget.tokens_left(), 9.0);
        retry.server_selected(primary()).unwrap();
        let _ = retry.on_failure(second, now, unjittered);
        budget.tokens_left()
    };
    assert_eq!(left_after(&shed()), 9.0);
    assert_eq!(left_after(&labelled(refused(2), &["SystemOverloadedError"])), 9.0);
    for second in [broken(), refused(11000), pool_cleared(), write_concern(64), turned_away()] {
        assert_eq!(left_after(&second), 10.0, "{second:?}");
    }
}

#[test]
fn a_success_returns_the_token_and_brings_a_tenth() {
    let now = Instant::now();
    let budget = Arc::new(Budget::with_capacity(10));
    let mut retry = Retry::new(BOTH, read(), &budget);
    retry.server_selected(primary()).unwrap();
    for _ in 0..2 {
        assert!(matches!(retry.on_failure(&shed(), now, unjittered).next, Next::Retry { .. }));
    }
    assert_eq!(budget.tokens_left(), 8.0);
    retry.succeeded();
    assert_eq!(budget.tokens_left(), 9.1);
    drop(retry);
    assert_eq!(budget.tokens_left(), 9.1);

    Retry::new(BOTH, read(), &budget).succeeded();
    assert_eq!(budget.tokens_left(), 9.2);
    // Nobody answered it.
    let unacknowledged = Operation { acknowledged: false, ..write() };
    Retry::new(BOTH, unacknowledged, &budget).succeeded();
    assert_eq!(budget.tokens_left(), 9.2);
}

/// pitfall 37.
#[test]
fn a_command_that_is_dropped_or_finds_no_server_returns_its_token() {
    let now = Instant::now();
    let budget = Arc::new(Budget::with_capacity(10));
    let waiting = || {
        let mut retry = Retry::new(BOTH, write(), &budget);
        retry.server_selected(primary()).unwrap();
        assert_eq!(retry.on_failure(&shed(), now, unjittered).next, waits(100));
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
fn a_retry_that_was_sent_and_dropped_keeps_its_token() {
    let now = Instant::now();
    let budget = Arc::new(Budget::with_capacity(10));
    let mut retry = Retry::new(BOTH, write(), &budget);
    retry.server_selected(primary()).unwrap();
    assert_eq!(retry.on_failure(&shed(), now, unjittered).next, waits(100));
    retry.server_selected(primary()).unwrap();
    let _ = retry.begin_sending(now).unwrap();
    drop(retry);
    assert_eq!(budget.tokens_left(), 9.0);
}

#[test]
fn a_clients_retries_run_dry_and_come_back_with_success() {
    let budget = Arc::new(Budget::with_capacity(12));
    let made: Vec<_> =
        (0..5).map(|_| retries(BOTH, read(), &budget, always(shed())).len()).collect();
    assert_eq!(made, [5, 5, 2, 0, 0]);
    for _ in 0..20 {
        Retry::new(BOTH, read(), &budget).succeeded();
    }
    assert_eq!(retries(BOTH, read(), &budget, always(shed())).len(), 2);
}

#[test]
fn a_retry_after_overload_bears_the_same_transaction_id() {
    let now = Instant::now();
    let mut retry = start(BOTH, write(), primary());
    assert_eq!(retry.begin_sending(now).unwrap(), TransactionId::New);
    for failure in [shed(), broken(), shed(), turned_away()] {
        assert!(matches!(retry.on_failure(&failure, now, unjittered).next, Next::Retry { .. }));
        retry.server_selected(server("b", ServerType::RsPrimary)).unwrap();
        assert_eq!(retry.begin_sending(now).unwrap(), TransactionId::Same);
    }
    // Where there is none, there is none later either.
    let in_transaction = Operation { in_transaction: true, ..write() };
    for (operation, at) in [(write(), standalone()), (in_transaction, primary())] {
        let mut retry = start(BOTH, operation, at.clone());
        assert_eq!(retry.begin_sending(now).unwrap(), TransactionId::None);
        assert_eq!(retry.on_failure(&shed(), now, unjittered).next, waits(100));
        retry.server_selected(at).unwrap();
        assert_eq!(retry.begin_sending(now).unwrap(), TransactionId::None);
    }
}

/// Row 5.
#[test]
fn what_a_server_turned_away_does_not_need_its_session_record() {
    let now = Instant::now();
    let late = now + 31 * MINUTE;
    let mut retry = start(BOTH, write(), primary());
    let _ = retry.begin_sending(now).unwrap();
    assert_eq!(retry.on_failure(&shed(), late, unjittered).next, waits(100));
    retry.server_selected(primary()).unwrap();
    assert_eq!(retry.begin_sending(late).unwrap(), TransactionId::Same);
    // Now it may be carried out, and the time runs from here.
    assert_eq!(retry.on_failure(&broken(), late, unjittered).next, AT_ONCE);
    retry.server_selected(primary()).unwrap();
    assert_eq!(retry.begin_sending(late + 28 * MINUTE).unwrap(), TransactionId::Same);
    let verdict = retry.on_failure(&shed(), late + 29 * MINUTE, unjittered);
    assert!(matches!(verdict.next, Next::GiveUp(_)));
}

/// The specification's prose tests of which error is raised.
#[test]
fn the_latest_overload_error_is_raised_unless_it_says_that_nothing_was_written() {
    let silent = labelled(refused(91), &[OVERLOAD, &["NoWritesPerformed"]].concat());
    let raised = |first: Failure<'static>, then: Failure<'static>| {
        let failures: Vec<_> = std::iter::once(first).chain([then; 5]).collect();
        run(write(), &primary(), &failures).raise
    };
    assert_eq!(raised(labelled(refused(91), OVERLOAD), shed()), Raise::Attempt(5));
    assert_eq!(raised(silent, silent), Raise::Attempt(0));
    assert_eq!(raised(labelled(refused(91), OVERLOAD), silent), Raise::Attempt(0));
}
