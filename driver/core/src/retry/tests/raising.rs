//! The error that is raised.

use super::*;

const RETRYABLE: &[&str] = &["RetryableWriteError"];
const NO_WRITES: &[&str] = &["RetryableWriteError", "NoWritesPerformed"];

/// Row 1.
#[test]
fn error_of_the_first_server_selection_is_raised() {
    for operation in [read(), write()] {
        let end = Retry::new(RetrySettings::default(), operation, &Arc::default()).no_server();
        assert_eq!(end.raise, RaisedError::Selection);
        assert_eq!(end.outcome, Outcome::NotSent);
    }
}

/// Row 2.
#[test]
fn latest_error_of_a_sent_attempt_is_raised() {
    for operation in [read(), write()] {
        assert_eq!(
            run(operation, &primary(), &[broken(), broken()]).raise,
            RaisedError::Attempt(1)
        );
        assert_eq!(
            run(operation, &primary(), &[broken(), command_error(13)]).raise,
            RaisedError::Attempt(1)
        );
        let end = run(operation, &primary(), &[pool_cleared(), broken()]);
        assert_eq!(end.raise, RaisedError::Attempt(1));
    }
}

#[test]
fn driver_error_never_hides_an_earlier_attempt() {
    for operation in [read(), write()] {
        // There is no server for the retry.
        assert_eq!(run(operation, &primary(), &[broken()]).raise, RaisedError::Attempt(0));
        for second in [
            pool_cleared(),
            before_send(FailureCause::Network { aborted_by_client: false }),
            before_send(FailureCause::Driver),
        ] {
            let end = run(operation, &primary(), &[broken(), second]);
            assert_eq!(end.raise, RaisedError::Attempt(0), "{second:?}");
        }
    }
}

#[test]
fn earlier_error_is_raised_if_the_retry_server_lacks_retryable_writes() {
    for operation in [write(), CommandFacts::new(CommandKind::EndTransaction)] {
        for unfit in [standalone(), ServerFacts { max_wire_version: 5, ..primary() }] {
            let mut retry = start(RetrySettings::default(), operation, primary());
            assert_eq!(retry.on_failure(&broken(), Instant::now(), unjittered).next, AT_ONCE);
            let end = retry.server_selected(unfit).unwrap_err();
            assert_eq!(end.raise, RaisedError::Attempt(0));
            assert_eq!(end.outcome, Outcome::MaybeApplied);
        }
    }
    let mut retry = start(RetrySettings::default(), read(), primary());
    assert_eq!(retry.on_failure(&broken(), Instant::now(), unjittered).next, AT_ONCE);
    retry.server_selected(standalone()).unwrap();
}

/// Row 3; pitfall 1: the first error is raised, instead of none.
#[test]
fn first_error_is_raised_if_no_attempt_wrote() {
    let end = run(
        write(),
        &primary(),
        &[labelled(command_error(91), NO_WRITES), labelled(command_error(10107), NO_WRITES)],
    );
    assert_eq!(end.raise, RaisedError::Attempt(0));
    assert_eq!(end.outcome, Outcome::NotApplied);
    let end = run(write(), &primary(), &[pool_cleared(), pool_cleared()]);
    assert_eq!(end.raise, RaisedError::Attempt(0));
    assert_eq!(end.outcome, Outcome::NotSent);
    let end = run(write(), &primary(), &[labelled(command_error(91), NO_WRITES), pool_cleared()]);
    assert_eq!(end.raise, RaisedError::Attempt(0));
}

/// pitfall 2.
#[test]
fn second_error_is_raised_if_only_the_first_attempt_wrote_nothing() {
    let first = labelled(command_error(91), NO_WRITES);
    for second in [broken(), labelled(command_error(189), RETRYABLE), command_error(11601)] {
        let end = run(write(), &primary(), &[first, second]);
        assert_eq!(end.raise, RaisedError::Attempt(1), "{second:?}");
    }
    // There is no server for the second attempt: the first is the only error.
    assert_eq!(run(write(), &primary(), &[first]).raise, RaisedError::Attempt(0));
}

#[test]
fn no_writes_performed_never_hides_an_earlier_error() {
    for first in
        [broken(), labelled(write_concern(91), RETRYABLE), labelled(command_error(91), RETRYABLE)]
    {
        for labels in [NO_WRITES, &["NoWritesPerformed"]] {
            let end = run(write(), &primary(), &[first, labelled(command_error(10107), labels)]);
            assert_eq!(end.raise, RaisedError::Attempt(0), "{first:?}");
            assert!(!end.outcome.is_certainly_not_applied(), "{first:?}");
        }
    }
}

#[test]
fn latest_error_that_may_have_written_is_raised_with_a_deadline() {
    let operation = CommandFacts { deadline: Some(Instant::now() + MINUTE), ..write() };
    let nothing = labelled(command_error(10107), NO_WRITES);
    let failures = [nothing, broken(), nothing, broken(), pool_cleared(), nothing];
    let end = run(operation, &primary(), &failures);
    assert_eq!(end.raise, RaisedError::Attempt(3));
    assert_eq!(end.outcome, Outcome::MaybeApplied);
}

#[test]
fn unsupported_transaction_numbers_get_a_helpful_message() {
    let message = "Transaction numbers are only allowed on a replica set member or mongos";
    let failure = sent(FailureCause::CommandError { code: 20, message });
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
    assert_eq!((end.raise, end.message.is_some()), (RaisedError::Attempt(1), true));

    let other = sent(FailureCause::CommandError { code: 20, message: "no such thing" });
    assert_eq!(run(write(), &primary(), &[other]).message, None);
    // A `txnNumber` of the user's own command is the user's.
    assert_eq!(run(CommandFacts::new(CommandKind::Generic), &primary(), &[failure]).message, None);
}
