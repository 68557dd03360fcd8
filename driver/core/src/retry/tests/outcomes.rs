//! The tables of [`Outcome`], row by row.

use super::{Outcome::*, *};

const RETRYABLE: &[&str] = &["RetryableWriteError"];
const OVERLOAD: &[&str] = &["SystemOverloadedError", "RetryableError"];
const NO_WRITES: &[&str] = &["RetryableWriteError", "NoWritesPerformed"];

/// Returns the outcome of a single attempt.
fn once(operation: CommandFacts, at: &ServerFacts, failure: AttemptFailure<'_>) -> Outcome {
    let mut retry = start(RetrySettings::default(), operation, at.clone());
    let _ = retry.begin_send(Instant::now()).unwrap();
    let _ = retry.on_failure(&failure, Instant::now(), unjittered);
    retry.outcome()
}

/// Returns the outcome of a single-document write on one server after one or two attempts.
fn outcome(failures: &[AttemptFailure<'_>]) -> Outcome {
    run(write(), &primary(), failures).outcome
}

fn batch() -> CommandFacts {
    CommandFacts::new(CommandKind::RetryableWrite)
}

fn many() -> CommandFacts {
    CommandFacts::new(CommandKind::Write)
}

fn write_errors(codes: &[i32], any_applied: bool) -> AttemptFailure<'_> {
    sent(FailureCause::WriteErrors { codes, any_applied })
}

#[test]
fn row_1_failure_before_sending_is_not_sent() {
    let causes = [
        FailureCause::Network { aborted_by_client: false },
        FailureCause::Network { aborted_by_client: true },
        FailureCause::PoolCleared,
        FailureCause::CommandError { code: 91, message: "" },
        FailureCause::Driver,
    ];
    for cause in causes {
        for operation in [read(), write(), batch(), many()] {
            assert_eq!(once(operation, &primary(), before_send(cause)), NotSent, "{cause:?}");
        }
    }
}

#[test]
fn row_2_a_read_writes_nothing() {
    for operation in [read(), CommandFacts::new(CommandKind::GetMore)] {
        for failure in
            [broken(), timed_out(), command_error(91), sent(FailureCause::MalformedReply)]
        {
            assert_eq!(once(operation, &primary(), failure), NotApplied);
        }
    }
}

#[test]
fn row_3_write_without_a_reply_is_maybe_applied() {
    let unacknowledged = CommandFacts { acknowledged: false, ..write() };
    let generic = CommandFacts::new(CommandKind::Generic);
    for operation in [write(), batch(), many(), unacknowledged, generic] {
        for failure in
            [broken(), timed_out(), sent(FailureCause::MalformedReply), sent(FailureCause::Driver)]
        {
            assert_eq!(once(operation, &primary(), failure), MaybeApplied, "{failure:?}");
        }
    }
}

#[test]
fn row_4_partially_failed_batch_is_maybe_applied() {
    assert_eq!(once(batch(), &primary(), write_errors(&[11000], true)), MaybeApplied);
    let labelled = labelled(write_errors(&[11000], true), NO_WRITES);
    assert_eq!(once(batch(), &primary(), labelled), MaybeApplied);
}

#[test]
fn row_5_no_writes_performed_is_not_applied() {
    for operation in [write(), batch(), many()] {
        for server in [primary(), mongos()] {
            for failure in
                [command_error(91), command_error(10107), command_error(0), write_concern(91)]
            {
                let failure = labelled(failure, NO_WRITES);
                assert_eq!(once(operation, &server, failure), NotApplied, "{failure:?}");
            }
        }
    }
}

/// Applies to this attempt only, with any code and any command.
#[test]
fn row_6_retryable_error_is_not_applied() {
    let commit =
        CommandFacts { in_transaction: true, ..CommandFacts::new(CommandKind::EndTransaction) };
    for operation in [write(), batch(), many(), CommandFacts::new(CommandKind::Generic), commit] {
        for server in [primary(), mongos(), standalone()] {
            for code in [462, 91, 10107, 0, 50] {
                let overload_error = labelled(command_error(code), OVERLOAD);
                assert_eq!(once(operation, &server, overload_error), NotApplied, "{code}");
            }
        }
    }
    // It proves nothing about an earlier attempt, and is not trusted for a reply that reports
    // writes.
    let overload_error = labelled(command_error(462), OVERLOAD);
    assert_eq!(outcome(&[broken(), overload_error, overload_error]), MaybeApplied);
    assert_eq!(
        run(commit, &primary(), &[broken(), overload_error, overload_error]).outcome,
        MaybeApplied
    );
    let found = once(many(), &primary(), labelled(write_concern(91), OVERLOAD));
    assert_eq!(found, AppliedNotDurable);
    let found = once(many(), &primary(), labelled(write_errors(&[462], false), OVERLOAD));
    assert_eq!(found, MaybeApplied);
}

/// pitfall 11.
#[test]
fn row_7_write_concern_error_is_applied_not_durable() {
    for operation in [write(), batch(), many()] {
        for server in [primary(), mongos(), old(primary())] {
            for code in [64, 91, 100, 189, 11600] {
                let found = once(operation, &server, write_concern(code));
                assert_eq!(found, AppliedNotDurable, "{code}");
            }
        }
    }
}

#[test]
fn row_8_and_9_commit_is_not_applied_only_after_transient_transaction_error() {
    let commit =
        CommandFacts { in_transaction: true, ..CommandFacts::new(CommandKind::EndTransaction) };
    let aborted = labelled(command_error(251), &["TransientTransactionError"]);
    assert_eq!(once(commit, &primary(), aborted), NotApplied);
    for code in [251, 50, 91, 225, 11601] {
        assert_eq!(once(commit, &primary(), command_error(code)), MaybeApplied, "{code}");
    }
    assert_eq!(run(commit, &primary(), &[broken(), aborted]).outcome, NotApplied);
    assert_eq!(run(commit, &primary(), &[timed_out(), aborted]).outcome, MaybeApplied);
    assert_eq!(run(commit, &primary(), &[write_concern(64)]).outcome, AppliedNotDurable);
}

#[test]
fn repeated_commit_continues_from_earlier_outcomes() {
    let commit =
        CommandFacts { in_transaction: true, ..CommandFacts::new(CommandKind::EndTransaction) };
    let aborted = labelled(command_error(251), &["TransientTransactionError"]);
    let again = |earlier: &OutcomeTracker, failure: Option<AttemptFailure<'_>>| {
        let retry = Retry::new(RetrySettings::default(), commit, &Arc::default())
            .continuing_from(earlier.clone());
        let Some(failure) = failure else { return retry.no_server().outcome };
        let mut retry = retry;
        retry.server_selected(primary()).unwrap();
        let _ = retry.begin_send(Instant::now()).unwrap();
        let _ = retry.on_failure(&failure, Instant::now(), || 1.0);
        retry.outcome()
    };
    let mut lost = start(RetrySettings::default(), commit, primary());
    let _ = lost.begin_send(Instant::now()).unwrap();
    let _ = lost.on_failure(&broken(), Instant::now(), || 1.0);
    assert_eq!(again(lost.outcomes(), None), MaybeApplied);
    assert_eq!(again(lost.outcomes(), Some(aborted)), NotApplied);
    // The request of a dropped future may still wait for execution.
    let mut dropped = OutcomeTracker::default();
    dropped.record_pending_attempt();
    assert_eq!(again(&dropped, None), MaybeApplied);
    assert_eq!(again(&dropped, Some(aborted)), MaybeApplied);
    let mut done = OutcomeTracker::default();
    done.record_success();
    assert_eq!(again(&done, Some(broken())), AppliedNotDurable);
    assert_eq!(again(&OutcomeTracker::default(), None), NotSent);
}

#[test]
fn command_error_in_a_transaction_is_not_applied() {
    for operation in [write(), batch(), many(), CommandFacts::new(CommandKind::Generic)] {
        let operation = CommandFacts { in_transaction: true, ..operation };
        for server in [primary(), mongos()] {
            for failure in [
                command_error(112),
                command_error(50),
                command_error(91),
                write_errors(&[11000], true),
                write_errors(&[91], false),
            ] {
                assert_eq!(once(operation, &server, failure), NotApplied, "{failure:?}");
            }
            // The transaction may contain the write, and may still be committed.
            assert_eq!(once(operation, &server, broken()), MaybeApplied);
        }
    }
}

#[test]
fn row_10_duplicate_key_or_failed_validation_is_not_applied() {
    for code in [121, 11000, 11001, 12582] {
        for server in [primary(), mongos()] {
            assert_eq!(once(write(), &server, command_error(code)), NotApplied, "{code}");
            assert_eq!(once(write(), &server, write_errors(&[code], false)), NotApplied, "{code}");
        }
    }
    assert_eq!(once(batch(), &primary(), write_errors(&[11000, 121], false)), NotApplied);
}

#[test]
fn row_11_command_error_of_a_multi_document_write_is_maybe_applied() {
    let before_execution = [9, 13, 59, 72, 73, 322, 323, 40415];
    for operation in [batch(), many(), CommandFacts::new(CommandKind::Generic)] {
        for server in [primary(), mongos()] {
            for code in [10107, 112, 50, 11000, 12345].into_iter().chain(before_execution) {
                assert_eq!(once(operation, &server, command_error(code)), MaybeApplied, "{code}");
            }
        }
    }
    // A multi-document update lists one error, and may have modified documents before it.
    for code in [11000, 9, 13] {
        assert_eq!(once(many(), &primary(), write_errors(&[code], false)), MaybeApplied, "{code}");
    }
}

#[test]
fn row_12_a_single_document_write_rejected_before_execution_is_not_applied() {
    for server in [primary(), mongos()] {
        for code in [9, 13, 59, 72, 73, 322, 323, 40415] {
            assert_eq!(once(write(), &server, command_error(code)), NotApplied, "{code}");
            assert_eq!(once(write(), &server, write_errors(&[code], false)), NotApplied, "{code}");
        }
    }
    // Each listed statement of a retryable batch is a single-document write.
    assert_eq!(once(batch(), &primary(), write_errors(&[13, 9], false)), NotApplied);
}

#[test]
fn row_13_other_command_errors_through_a_mongos_are_maybe_applied() {
    for code in [10107, 6, 133, 12345] {
        assert_eq!(once(write(), &mongos(), command_error(code)), MaybeApplied, "{code}");
        assert_eq!(once(write(), &mongos(), write_errors(&[code], false)), MaybeApplied, "{code}");
    }
}

/// MongoDB 8.2 labels its rejection with `SystemOverloadedError` only.
#[test]
fn retryable_write_rejected_by_the_8_2_rate_limiter_is_not_applied() {
    let rejected = labelled(command_error(449), &["SystemOverloadedError"]);
    for operation in [write(), batch()] {
        assert_eq!(once(operation, &primary(), rejected), NotApplied, "{operation:?}");
        assert_eq!(once(operation, &primary(), command_error(462)), NotApplied, "{operation:?}");
        // A mongos may have sent it to the shard before.
        assert_eq!(once(operation, &mongos(), rejected), MaybeApplied, "{operation:?}");
        for codes in [&[449], &[462]] {
            assert_eq!(once(operation, &mongos(), write_errors(codes, false)), MaybeApplied);
        }
    }
    for operation in [many(), CommandFacts::new(CommandKind::Generic)] {
        assert_eq!(once(operation, &primary(), rejected), MaybeApplied, "{operation:?}");
    }
    assert_eq!(
        outcome(&[broken(), rejected]),
        MaybeApplied,
        "of the first attempt it with_base_backoff nothing"
    );
}

/// pitfall 10, codes 217 and 225.
#[test]
fn row_14_interrupted_write_is_maybe_applied() {
    for code in
        [0, 1, 6, 7, 8, 50, 64, 89, 91, 189, 202, 217, 225, 262, 9001, 11600, 11601, 11602, 13436]
    {
        assert_eq!(once(write(), &primary(), command_error(code)), MaybeApplied, "{code}");
        assert_eq!(once(write(), &primary(), write_errors(&[code], false)), MaybeApplied, "{code}");
    }
    assert_eq!(once(batch(), &primary(), write_errors(&[11000, 91], false)), MaybeApplied);
    assert_eq!(once(batch(), &primary(), write_errors(&[], false)), MaybeApplied);
}

#[test]
fn row_15_other_command_errors_of_one_document_are_not_applied() {
    for code in [2, 10107, 13435, 112, 20, 12345] {
        assert_eq!(once(write(), &primary(), command_error(code)), NotApplied, "{code}");
        assert_eq!(once(write(), &primary(), write_errors(&[code], false)), NotApplied, "{code}");
    }
}

#[test]
fn unsent_attempt_does_not_change_the_outcome() {
    assert_eq!(outcome(&[pool_cleared(), pool_cleared()]), NotSent);
    assert_eq!(outcome(&[labelled(command_error(91), NO_WRITES), pool_cleared()]), NotApplied);
    assert_eq!(outcome(&[broken(), pool_cleared()]), MaybeApplied);
    assert_eq!(
        outcome(&[labelled(write_concern(91), RETRYABLE), pool_cleared()]),
        AppliedNotDurable
    );
    assert_eq!(outcome(&[pool_cleared(), broken()]), MaybeApplied);
    assert_eq!(outcome(&[pool_cleared(), command_error(13)]), NotApplied);
}

#[test]
fn attempt_that_wrote_nothing_does_not_change_earlier_outcomes() {
    for second in [
        labelled(command_error(10107), NO_WRITES),
        command_error(10107),
        command_error(13),
        command_error(2),
    ] {
        assert_eq!(outcome(&[broken(), second]), MaybeApplied, "{second:?}");
        let first = labelled(write_concern(91), RETRYABLE);
        assert_eq!(outcome(&[first, second]), AppliedNotDurable, "{second:?}");
        let first = labelled(command_error(10107), NO_WRITES);
        assert_eq!(outcome(&[first, second]), NotApplied, "{second:?}");
    }
}

#[test]
fn rejection_after_the_transaction_record_is_decisive() {
    for rejection in
        [command_error(11000), write_errors(&[11000], false), write_errors(&[121], false)]
    {
        for first in [
            broken(),
            labelled(command_error(91), RETRYABLE),
            labelled(write_concern(91), RETRYABLE),
            pool_cleared(),
        ] {
            assert_eq!(outcome(&[first, rejection]), NotApplied, "{first:?}");
        }
        // The first request may still wait at the server, to be executed after the second.
        assert_eq!(outcome(&[timed_out(), rejection]), MaybeApplied);
        // A shard may still execute it.
        assert_eq!(run(write(), &mongos(), &[broken(), rejection]).outcome, MaybeApplied);
    }
    let rejection = write_errors(&[11000], false);
    assert_eq!(run(batch(), &primary(), &[broken(), rejection]).outcome, NotApplied);
    let in_part = write_errors(&[11000], true);
    assert_eq!(run(batch(), &primary(), &[broken(), in_part]).outcome, MaybeApplied);
}

#[test]
fn rejection_without_a_txn_number_is_not_decisive() {
    for (uses_txn_number, expected) in [(true, NotApplied), (false, MaybeApplied)] {
        let mut outcomes = OutcomeTracker::default();
        outcomes.record_failure(&write(), &broken(), false, uses_txn_number);
        outcomes.record_failure(&write(), &command_error(11000), false, uses_txn_number);
        assert_eq!(outcomes.outcome(), expected);
    }
}

/// pitfall 10.
#[test]
fn missing_transaction_record_is_maybe_applied() {
    for code in [217, 225] {
        for first in [broken(), timed_out(), labelled(command_error(91), RETRYABLE)] {
            assert_eq!(outcome(&[first, command_error(code)]), MaybeApplied, "{code}");
            assert_eq!(outcome(&[first, write_errors(&[code], false)]), MaybeApplied, "{code}");
        }
    }
}

#[test]
fn maybe_applied_and_applied_outcomes_persist() {
    assert_eq!(outcome(&[broken(), broken()]), MaybeApplied);
    assert_eq!(outcome(&[broken(), write_concern(64)]), AppliedNotDurable);
    assert_eq!(outcome(&[labelled(write_concern(91), RETRYABLE), broken()]), AppliedNotDurable);
    assert_eq!(outcome(&[labelled(command_error(10107), NO_WRITES), broken()]), MaybeApplied);
}
