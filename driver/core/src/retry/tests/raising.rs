//! Which error a caller gets.

use super::*;

const RETRYABLE: &[&str] = &["RetryableWriteError"];
const NO_WRITES: &[&str] = &["RetryableWriteError", "NoWritesPerformed"];

/// Row 1.
#[test]
fn a_first_selection_that_fails_is_raised_itself() {
    for operation in [read(), write()] {
        let end = Retry::new(RetrySettings::default(), operation, &Arc::default()).no_server();
        assert_eq!(end.raise, Raise::Selection);
        assert_eq!(end.outcome, Outcome::NotSent);
    }
}

/// Row 2.
#[test]
fn the_latest_error_that_tells_of_an_attempt_is_raised() {
    for operation in [read(), write()] {
        assert_eq!(run(operation, &primary(), &[broken(), broken()]).raise, Raise::Attempt(1));
        assert_eq!(run(operation, &primary(), &[broken(), refused(13)]).raise, Raise::Attempt(1));
        let end = run(operation, &primary(), &[pool_cleared(), broken()]);
        assert_eq!(end.raise, Raise::Attempt(1));
    }
}

#[test]
fn an_error_of_our_own_never_hides_an_earlier_attempt() {
    for operation in [read(), write()] {
        // No server for the retry.
        assert_eq!(run(operation, &primary(), &[broken()]).raise, Raise::Attempt(0));
        for second in [
            pool_cleared(),
            before_sending(Cause::Network { ended_by_us: false }),
            before_sending(Cause::Driver),
        ] {
            let end = run(operation, &primary(), &[broken(), second]);
            assert_eq!(end.raise, Raise::Attempt(0), "{second:?}");
        }
    }
}

#[test]
fn a_retrys_server_that_is_too_old_is_not_asked_and_the_earlier_error_raised() {
    for operation in [write(), Operation::new(Kind::EndTransaction)] {
        for unfit in [standalone(), ServerFacts { max_wire_version: 5, ..primary() }] {
            let mut retry = start(RetrySettings::default(), operation, primary());
            assert_eq!(retry.on_failure(&broken(), Instant::now(), unjittered).next, AT_ONCE);
            let end = retry.server_selected(unfit).unwrap_err();
            assert_eq!(end.raise, Raise::Attempt(0));
            assert_eq!(end.outcome, Outcome::MaybeApplied);
        }
    }
    let mut retry = start(RetrySettings::default(), read(), primary());
    assert_eq!(retry.on_failure(&broken(), Instant::now(), unjittered).next, AT_ONCE);
    retry.server_selected(standalone()).unwrap();
}

/// Row 3; pitfall 1: it is the first that is raised, not nothing.
#[test]
fn if_no_attempt_wrote_anything_the_first_error_is_raised() {
    let end = run(
        write(),
        &primary(),
        &[labelled(refused(91), NO_WRITES), labelled(refused(10107), NO_WRITES)],
    );
    assert_eq!(end.raise, Raise::Attempt(0));
    assert_eq!(end.outcome, Outcome::NotApplied);
    let end = run(write(), &primary(), &[pool_cleared(), pool_cleared()]);
    assert_eq!(end.raise, Raise::Attempt(0));
    assert_eq!(end.outcome, Outcome::NotSent);
    let end = run(write(), &primary(), &[labelled(refused(91), NO_WRITES), pool_cleared()]);
    assert_eq!(end.raise, Raise::Attempt(0));
}

/// pitfall 2.
#[test]
fn if_only_the_first_attempt_wrote_nothing_the_second_error_is_raised() {
    let first = labelled(refused(91), NO_WRITES);
    for second in [broken(), labelled(refused(189), RETRYABLE), refused(11601)] {
        let end = run(write(), &primary(), &[first, second]);
        assert_eq!(end.raise, Raise::Attempt(1), "{second:?}");
    }
    // No server for the second: the first is all there is.
    assert_eq!(run(write(), &primary(), &[first]).raise, Raise::Attempt(0));
}

#[test]
fn a_later_error_that_wrote_nothing_does_not_hide_one_that_may_have() {
    for first in
        [broken(), labelled(write_concern(91), RETRYABLE), labelled(refused(91), RETRYABLE)]
    {
        for labels in [NO_WRITES, &["NoWritesPerformed"]] {
            let end = run(write(), &primary(), &[first, labelled(refused(10107), labels)]);
            assert_eq!(end.raise, Raise::Attempt(0), "{first:?}");
            assert!(!end.outcome.is_certainly_not_applied(), "{first:?}");
        }
    }
}

#[test]
fn with_a_deadline_the_latest_that_may_have_written_is_found_among_many() {
    let operation = Operation { deadline: Some(Instant::now() + MINUTE), ..write() };
    let nothing = labelled(refused(10107), NO_WRITES);
    let failures = [nothing, broken(), nothing, broken(), pool_cleared(), nothing];
    let end = run(operation, &primary(), &failures);
    assert_eq!(end.raise, Raise::Attempt(3));
    assert_eq!(end.outcome, Outcome::MaybeApplied);
}

#[test]
fn a_storage_engine_without_transaction_numbers_gets_the_message_that_helps() {
    let message = "Transaction numbers are only allowed on a replica set member or mongos";
    let failure = sending(Cause::Refused { code: 20, message });
    let end = run(write(), &primary(), &[failure]);
    assert_eq!(
        end.message,
        Some(
            "This MongoDB deployment does not support retryable writes. Please add \
             retryWrites=false to your connection string."
        )
    );
    assert_eq!(end.outcome, Outcome::NotApplied);
    // On the retry, too.
    let end = run(write(), &primary(), &[broken(), failure]);
    assert_eq!((end.raise, end.message.is_some()), (Raise::Attempt(1), true));

    let other = sending(Cause::Refused { code: 20, message: "no such thing" });
    assert_eq!(run(write(), &primary(), &[other]).message, None);
    // A number that the user sent is the user's.
    assert_eq!(run(Operation::new(Kind::Generic), &primary(), &[failure]).message, None);
}
