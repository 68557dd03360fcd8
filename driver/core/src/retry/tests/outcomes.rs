//! The tables of [`Outcome`], row by row.

use super::{Outcome::*, *};

const RETRYABLE: &[&str] = &["RetryableWriteError"];
const OVERLOAD: &[&str] = &["SystemOverloadedError", "RetryableError"];
const NO_WRITES: &[&str] = &["RetryableWriteError", "NoWritesPerformed"];

/// The outcome of a single attempt.
fn once(operation: Operation, at: &ServerFacts, failure: Failure<'_>) -> Outcome {
    let mut retry = start(RetrySettings::default(), operation, at.clone());
    let _ = retry.begin_sending(Instant::now()).unwrap();
    let _ = retry.on_failure(&failure, Instant::now(), unjittered);
    retry.outcome()
}

/// The outcome of a write to one document, at one server, after one attempt or two.
fn outcome(failures: &[Failure<'_>]) -> Outcome {
    run(write(), &primary(), failures).outcome
}

fn batch() -> Operation {
    Operation::new(Kind::RecognisableWrite)
}

fn many() -> Operation {
    Operation::new(Kind::Write)
}

fn write_errors(codes: &[i32], any_applied: bool) -> Failure<'_> {
    sending(Cause::WriteErrors { codes, any_applied })
}

#[test]
fn row_1_what_failed_before_sending_was_not_sent() {
    let causes = [
        Cause::Network { ended_by_us: false },
        Cause::Network { ended_by_us: true },
        Cause::PoolCleared,
        Cause::Refused { code: 91, message: "" },
        Cause::Driver,
    ];
    for cause in causes {
        for operation in [read(), write(), batch(), many()] {
            assert_eq!(once(operation, &primary(), before_sending(cause)), NotSent, "{cause:?}");
        }
    }
}

#[test]
fn row_2_a_read_writes_nothing() {
    for operation in [read(), Operation::new(Kind::GetMore)] {
        for failure in [broken(), timed_out(), refused(91), sending(Cause::UnreadableReply)] {
            assert_eq!(once(operation, &primary(), failure), NotApplied);
        }
    }
}

#[test]
fn row_3_an_unanswered_write_may_be_applied() {
    let unacknowledged = Operation { acknowledged: false, ..write() };
    let generic = Operation::new(Kind::Generic);
    for operation in [write(), batch(), many(), unacknowledged, generic] {
        for failure in
            [broken(), timed_out(), sending(Cause::UnreadableReply), sending(Cause::Driver)]
        {
            assert_eq!(once(operation, &primary(), failure), MaybeApplied, "{failure:?}");
        }
    }
}

#[test]
fn row_4_a_batch_that_failed_in_part_was_applied_in_part() {
    assert_eq!(once(batch(), &primary(), write_errors(&[11000], true)), MaybeApplied);
    let labelled = labelled(write_errors(&[11000], true), NO_WRITES);
    assert_eq!(once(batch(), &primary(), labelled), MaybeApplied);
}

#[test]
fn row_5_the_server_knows_that_it_wrote_nothing() {
    for operation in [write(), batch(), many()] {
        for server in [primary(), router()] {
            for failure in [refused(91), refused(10107), refused(0), write_concern(91)] {
                let failure = labelled(failure, NO_WRITES);
                assert_eq!(once(operation, &server, failure), NotApplied, "{failure:?}");
            }
        }
    }
}

/// Whatever the code and whatever the command: nothing was done, of this attempt.
#[test]
fn row_6_what_may_be_sent_again_whatever_it_is_was_not_carried_out() {
    let commit = Operation { in_transaction: true, ..Operation::new(Kind::EndTransaction) };
    for operation in [write(), batch(), many(), Operation::new(Kind::Generic), commit] {
        for server in [primary(), router(), standalone()] {
            for code in [462, 91, 10107, 0, 50] {
                let shed = labelled(refused(code), OVERLOAD);
                assert_eq!(once(operation, &server, shed), NotApplied, "{code}");
            }
        }
    }
    // It says nothing of an earlier attempt, and is not believed of a reply that tells of writes.
    let shed = labelled(refused(462), OVERLOAD);
    assert_eq!(outcome(&[broken(), shed, shed]), MaybeApplied);
    assert_eq!(run(commit, &primary(), &[broken(), shed, shed]).outcome, MaybeApplied);
    let told = once(many(), &primary(), labelled(write_concern(91), OVERLOAD));
    assert_eq!(told, AppliedNotDurable);
    let told = once(many(), &primary(), labelled(write_errors(&[462], false), OVERLOAD));
    assert_eq!(told, MaybeApplied);
}

/// pitfall 11.
#[test]
fn row_7_a_write_concern_error_does_not_undo_the_write() {
    for operation in [write(), batch(), many()] {
        for server in [primary(), router(), old(primary())] {
            for code in [64, 91, 100, 189, 11600] {
                let told = once(operation, &server, write_concern(code));
                assert_eq!(told, AppliedNotDurable, "{code}");
            }
        }
    }
}

#[test]
fn row_8_and_9_a_commit_is_known_to_have_failed_only_if_its_transaction_is_known_to_be_aborted() {
    let commit = Operation { in_transaction: true, ..Operation::new(Kind::EndTransaction) };
    let aborted = labelled(refused(251), &["TransientTransactionError"]);
    assert_eq!(once(commit, &primary(), aborted), NotApplied);
    for code in [251, 50, 91, 225, 11601] {
        assert_eq!(once(commit, &primary(), refused(code)), MaybeApplied, "{code}");
    }
    assert_eq!(run(commit, &primary(), &[broken(), aborted]).outcome, NotApplied);
    assert_eq!(run(commit, &primary(), &[timed_out(), aborted]).outcome, MaybeApplied);
    assert_eq!(run(commit, &primary(), &[write_concern(64)]).outcome, AppliedNotDurable);
}

#[test]
fn a_commit_goes_on_from_what_is_known_of_earlier_ones() {
    let commit = Operation { in_transaction: true, ..Operation::new(Kind::EndTransaction) };
    let aborted = labelled(refused(251), &["TransientTransactionError"]);
    let again = |earlier: &Ledger, failure: Option<Failure<'_>>| {
        let retry = Retry::new(RetrySettings::default(), commit, &Arc::default())
            .following(earlier.clone());
        let Some(failure) = failure else { return retry.no_server().outcome };
        let mut retry = retry;
        retry.server_selected(primary()).unwrap();
        let _ = retry.begin_sending(Instant::now()).unwrap();
        let _ = retry.on_failure(&failure, Instant::now(), || 1.0);
        retry.outcome()
    };
    let mut lost = start(RetrySettings::default(), commit, primary());
    let _ = lost.begin_sending(Instant::now()).unwrap();
    let _ = lost.on_failure(&broken(), Instant::now(), || 1.0);
    assert_eq!(again(lost.ledger(), None), MaybeApplied);
    assert_eq!(again(lost.ledger(), Some(aborted)), NotApplied);
    // Of one whose future was dropped, the request may still wait to be carried out.
    let mut dropped = Ledger::default();
    dropped.send_off();
    assert_eq!(again(&dropped, None), MaybeApplied);
    assert_eq!(again(&dropped, Some(aborted)), MaybeApplied);
    let mut done = Ledger::default();
    done.succeed();
    assert_eq!(again(&done, Some(broken())), AppliedNotDurable);
    assert_eq!(again(&Ledger::default(), None), NotSent);
}

#[test]
fn a_refusal_in_a_transaction_leaves_nothing_behind() {
    for operation in [write(), batch(), many(), Operation::new(Kind::Generic)] {
        let operation = Operation { in_transaction: true, ..operation };
        for server in [primary(), router()] {
            for failure in [
                refused(112),
                refused(50),
                refused(91),
                write_errors(&[11000], true),
                write_errors(&[91], false),
            ] {
                assert_eq!(once(operation, &server, failure), NotApplied, "{failure:?}");
            }
            // The transaction may hold it, and may yet be committed.
            assert_eq!(once(operation, &server, broken()), MaybeApplied);
        }
    }
}

#[test]
fn row_10_a_refused_document_is_not_applied() {
    for code in [121, 11000, 11001, 12582] {
        for server in [primary(), router()] {
            assert_eq!(once(write(), &server, refused(code)), NotApplied, "{code}");
            assert_eq!(once(write(), &server, write_errors(&[code], false)), NotApplied, "{code}");
        }
    }
    assert_eq!(once(batch(), &primary(), write_errors(&[11000, 121], false)), NotApplied);
}

#[test]
fn row_11_any_code_can_come_after_some_of_many_documents_were_written() {
    let before_execution = [9, 13, 59, 72, 73, 322, 323, 40415];
    for operation in [batch(), many(), Operation::new(Kind::Generic)] {
        for server in [primary(), router()] {
            for code in [10107, 112, 50, 11000, 12345].into_iter().chain(before_execution) {
                assert_eq!(once(operation, &server, refused(code)), MaybeApplied, "{code}");
            }
        }
    }
    // An update of many documents lists one error, and may have changed documents before it.
    for code in [11000, 9, 13] {
        assert_eq!(once(many(), &primary(), write_errors(&[code], false)), MaybeApplied, "{code}");
    }
}

#[test]
fn row_12_a_single_document_write_rejected_before_execution_is_not_applied() {
    for server in [primary(), router()] {
        for code in [9, 13, 59, 72, 73, 322, 323, 40415] {
            assert_eq!(once(write(), &server, refused(code)), NotApplied, "{code}");
            assert_eq!(once(write(), &server, write_errors(&[code], false)), NotApplied, "{code}");
        }
    }
    // Each listed statement of a retryable batch is a single-document write.
    assert_eq!(once(batch(), &primary(), write_errors(&[13, 9], false)), NotApplied);
}

#[test]
fn row_13_a_router_may_have_sent_it_twice_itself() {
    for code in [10107, 6, 133, 12345] {
        assert_eq!(once(write(), &router(), refused(code)), MaybeApplied, "{code}");
        assert_eq!(once(write(), &router(), write_errors(&[code], false)), MaybeApplied, "{code}");
    }
}

/// MongoDB 8.2 labels its rejection `SystemOverloadedError` only.
#[test]
fn a_retryable_write_rejected_by_the_rate_limiter_of_8_2_is_not_applied() {
    let rejected = labelled(refused(449), &["SystemOverloadedError"]);
    for operation in [write(), batch()] {
        assert_eq!(once(operation, &primary(), rejected), NotApplied, "{operation:?}");
        assert_eq!(once(operation, &primary(), refused(462)), NotApplied, "{operation:?}");
        // A mongos may have sent it to the shard before.
        assert_eq!(once(operation, &router(), rejected), MaybeApplied, "{operation:?}");
        for codes in [&[449], &[462]] {
            assert_eq!(once(operation, &router(), write_errors(codes, false)), MaybeApplied);
        }
    }
    for operation in [many(), Operation::new(Kind::Generic)] {
        assert_eq!(once(operation, &primary(), rejected), MaybeApplied, "{operation:?}");
    }
    assert_eq!(
        outcome(&[broken(), rejected]),
        MaybeApplied,
        "of the first attempt it says nothing"
    );
}

/// pitfall 10 for 217 and 225.
#[test]
fn row_14_an_interruption_may_have_come_after_the_write() {
    for code in
        [0, 1, 6, 7, 8, 50, 64, 89, 91, 189, 202, 217, 225, 262, 9001, 11600, 11601, 11602, 13436]
    {
        assert_eq!(once(write(), &primary(), refused(code)), MaybeApplied, "{code}");
        assert_eq!(once(write(), &primary(), write_errors(&[code], false)), MaybeApplied, "{code}");
    }
    assert_eq!(once(batch(), &primary(), write_errors(&[11000, 91], false)), MaybeApplied);
    assert_eq!(once(batch(), &primary(), write_errors(&[], false)), MaybeApplied);
}

#[test]
fn row_15_one_document_is_written_wholly_or_not_at_all() {
    for code in [2, 10107, 13435, 112, 20, 12345] {
        assert_eq!(once(write(), &primary(), refused(code)), NotApplied, "{code}");
        assert_eq!(once(write(), &primary(), write_errors(&[code], false)), NotApplied, "{code}");
    }
}

#[test]
fn what_was_not_sent_changes_nothing() {
    assert_eq!(outcome(&[pool_cleared(), pool_cleared()]), NotSent);
    assert_eq!(outcome(&[labelled(refused(91), NO_WRITES), pool_cleared()]), NotApplied);
    assert_eq!(outcome(&[broken(), pool_cleared()]), MaybeApplied);
    assert_eq!(
        outcome(&[labelled(write_concern(91), RETRYABLE), pool_cleared()]),
        AppliedNotDurable
    );
    assert_eq!(outcome(&[pool_cleared(), broken()]), MaybeApplied);
    assert_eq!(outcome(&[pool_cleared(), refused(13)]), NotApplied);
}

#[test]
fn an_attempt_that_wrote_nothing_says_nothing_of_earlier_ones() {
    for second in [labelled(refused(10107), NO_WRITES), refused(10107), refused(13), refused(2)] {
        assert_eq!(outcome(&[broken(), second]), MaybeApplied, "{second:?}");
        let first = labelled(write_concern(91), RETRYABLE);
        assert_eq!(outcome(&[first, second]), AppliedNotDurable, "{second:?}");
        let first = labelled(refused(10107), NO_WRITES);
        assert_eq!(outcome(&[first, second]), NotApplied, "{second:?}");
    }
}

#[test]
fn a_refusal_by_the_session_record_settles_earlier_attempts() {
    for refusal in [refused(11000), write_errors(&[11000], false), write_errors(&[121], false)] {
        for first in [
            broken(),
            labelled(refused(91), RETRYABLE),
            labelled(write_concern(91), RETRYABLE),
            pool_cleared(),
        ] {
            assert_eq!(outcome(&[first, refusal]), NotApplied, "{first:?}");
        }
        // The first request may still wait at the server, to be carried out after the second.
        assert_eq!(outcome(&[timed_out(), refusal]), MaybeApplied);
        // A shard may still be at it.
        assert_eq!(run(write(), &router(), &[broken(), refusal]).outcome, MaybeApplied);
    }
    let refusal = write_errors(&[11000], false);
    assert_eq!(run(batch(), &primary(), &[broken(), refusal]).outcome, NotApplied);
    let in_part = write_errors(&[11000], true);
    assert_eq!(run(batch(), &primary(), &[broken(), in_part]).outcome, MaybeApplied);
}

#[test]
fn without_a_transaction_id_a_refusal_settles_nothing() {
    for (with_transaction_id, expected) in [(true, NotApplied), (false, MaybeApplied)] {
        let mut ledger = Ledger::default();
        ledger.enter(&write(), &broken(), false, with_transaction_id);
        ledger.enter(&write(), &refused(11000), false, with_transaction_id);
        assert_eq!(ledger.outcome(), expected);
    }
}

/// pitfall 10.
#[test]
fn a_session_record_that_is_gone_says_neither_yes_nor_no() {
    for code in [217, 225] {
        for first in [broken(), timed_out(), labelled(refused(91), RETRYABLE)] {
            assert_eq!(outcome(&[first, refused(code)]), MaybeApplied, "{code}");
            assert_eq!(outcome(&[first, write_errors(&[code], false)]), MaybeApplied, "{code}");
        }
    }
}

#[test]
fn what_may_be_applied_stays_so_and_what_was_applied_stays_so() {
    assert_eq!(outcome(&[broken(), broken()]), MaybeApplied);
    assert_eq!(outcome(&[broken(), write_concern(64)]), AppliedNotDurable);
    assert_eq!(outcome(&[labelled(write_concern(91), RETRYABLE), broken()]), AppliedNotDurable);
    assert_eq!(outcome(&[labelled(refused(10107), NO_WRITES), broken()]), MaybeApplied);
}
