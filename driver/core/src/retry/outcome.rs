//! Outcome of a write that failed, derived from all its attempts.

use std::fmt;

use super::{
    codes,
    facts::{AttemptFailure, AttemptPhase, CommandFacts, CommandKind, FailureCause},
};

/// Outcome of a write that did not succeed.
///
/// It covers the whole command and all its attempts, not only the attempt whose error is raised.
/// [`NotSent`](Self::NotSent) and [`NotApplied`](Self::NotApplied) are guarantees: nothing was
/// written, and nothing will be. A read writes nothing, so its outcome is one of these two.
///
/// # Evidence of one attempt
///
/// The first row that applies decides.
///
/// | #  | failure of the attempt                                                 | evidence       | reason |
/// |----|------------------------------------------------------------------------|----------------|--------|
/// | 1  | any failure before a byte was sent                                     | not sent       | no server has received it |
/// | 2  | any failure of a read                                                  | wrote nothing  | there was nothing to write |
/// | 3  | network error, time-out, malformed reply, driver error                 | unknown        | the server may have executed it, or may still do so; also with `w: 0` |
/// | 4  | reply that reports executed statements along with failed ones          | unknown        | a part was applied; the partial result lists it |
/// | 5  | reply with the label `NoWritesPerformed`                               | wrote nothing  | the server guarantees it, for this attempt only |
/// | 6  | command error with the label `RetryableError`                          | wrote nothing  | the server guarantees that any command can be retried |
/// | 7  | write concern error only, including `wtimeout`                         | not durable    | it was applied; a time-out of the write concern does not undo it |
/// | 8  | end of a transaction: command error with `TransientTransactionError`   | rejected       | the server has aborted the transaction |
/// | 9  | end of a transaction: any other command error                          | unknown        | an earlier attempt may have been executed |
/// | 10 | duplicate key or failed validation of a retryable write                | rejected       | the server has checked the session's transaction record first |
/// | 11 | any other command error of a command that can write several documents  | unknown        | every code can occur midway: `$merge`, `applyOps` and `update` return `FailedToParse` after documents were written |
/// | 12 | command error before execution (`Unauthorized`, `FailedToParse`, …)    | wrote nothing  | execution has not started; earlier attempts are not covered |
/// | 13 | any other command error through a mongos or load balancer              | unknown        | a mongos may have retried internally after a lost reply |
/// | 14 | interruption, shutdown, time-out of the server, codes 217 and 225, no code | unknown    | it can occur after the write; a missing transaction record proves nothing |
/// | 15 | any other command error of one document (also `NotWritablePrimary`)    | wrote nothing  | one document is written completely or not at all |
///
/// Rows 10 and 12 to 15 apply to retryable writes of a single document: `insert_one`, `update_one`,
/// `replace_one`, `delete_one`, `findAndModify`. Row 11 applies to all other commands that write:
/// batches, `update_many` and `delete_many`, `aggregate` with `$out` or `$merge`, commands on
/// collections and indexes, and `run_command`.
///
/// A statement error (`writeErrors`) of a retryable write counts like a command error of that
/// statement alone, so row 11 does not apply; of several, the least certain counts. A statement
/// error of a multi-document write proves nothing, because documents before the failed one may be
/// modified.
///
/// The error of a rate limiter (449, 462) of a retryable write counts like a command error of one
/// document, whatever the number of statements: the rate limiter admits or rejects a command as a
/// whole before execution. Through a mongos, row 13 applies.
///
/// For an operation in a transaction, the outcome describes the content of the transaction, which
/// takes effect with the commit. A command error or statement error means that it wrote nothing,
/// whichever row would apply: the server has aborted the transaction. The outcome of the
/// transaction itself is in the error of the commit, over all calls of commit.
///
/// # Outcome of all attempts
///
/// | so far \ this attempt | not sent     | wrote nothing | rejected                     | unknown      | not durable       |
/// |-----------------------|--------------|---------------|------------------------------|--------------|-------------------|
/// | `NotSent`             | `NotSent`    | `NotApplied`  | `NotApplied`                 | `MaybeApplied` | `AppliedNotDurable` |
/// | `NotApplied`          | unchanged    | `NotApplied`  | `NotApplied`                 | `MaybeApplied` | `AppliedNotDurable` |
/// | `MaybeApplied`        | unchanged    | unchanged     | `NotApplied` if decisive, else unchanged | unchanged | `AppliedNotDurable` |
/// | `AppliedNotDurable`   | unchanged    | unchanged     | `NotApplied` if decisive, else unchanged | unchanged | unchanged         |
///
/// A rejected attempt is *decisive* for earlier attempts under three conditions. The command had a
/// `txnNumber`, so that the server would have answered from its transaction record after an earlier
/// success. The server is not a mongos or load balancer, whose shards may still execute an earlier
/// attempt. And the client did not stop waiting for an earlier attempt (time-out), whose request
/// may still wait for execution. A request whose connection *broke* is assumed to be executed or
/// lost when the next attempt gets its reply: a new connection and its handshake lie between. A
/// write of a former primary that the current one has no record of is rolled back when the former
/// one rejoins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// No server received any part of it.
    #[default]
    NotSent,
    /// It was sent, and nothing of it was applied.
    NotApplied,
    /// It was sent, and all, a part or nothing of it was applied or will be.
    MaybeApplied,
    /// A server applied it, but its write concern was not confirmed: a failover may roll it back.
    AppliedNotDurable,
}

impl Outcome {
    /// Returns `true` if nothing was written for certain, so that the call can be repeated.
    ///
    /// ```
    /// use steadfast_core::retry::Outcome;
    ///
    /// assert!(Outcome::NotSent.is_certainly_not_applied());
    /// assert!(!Outcome::MaybeApplied.is_certainly_not_applied());
    /// ```
    pub fn is_certainly_not_applied(self) -> bool {
        match self {
            Self::NotSent | Self::NotApplied => true,
            Self::MaybeApplied | Self::AppliedNotDurable => false,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSent => "not sent",
            Self::NotApplied => "not applied",
            Self::MaybeApplied => "maybe applied",
            Self::AppliedNotDurable => "applied, not yet durable",
        })
    }
}

/// Evidence of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttemptEvidence {
    NothingSent,
    WroteNothing,
    /// Rejected by a server that would have recognised an earlier attempt.
    Rejected,
    Unknown,
    NotDurable,
}

/// Outcome of all attempts so far. It can continue with the outcome of an earlier command of the
/// same effect: a repeated commit.
#[derive(Clone, Debug, Default)]
pub struct OutcomeTracker {
    outcome: Outcome,
    /// `true` if the request of an earlier attempt may still wait for execution.
    pending: bool,
}

impl OutcomeTracker {
    /// Returns the outcome so far.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Records an attempt that is sent and may never get a result.
    pub fn record_pending_attempt(&mut self) {
        self.outcome = self.outcome.max(Outcome::MaybeApplied);
        self.pending = true;
    }

    /// Records a successful attempt. The write is applied; a repeated commit only confirms its
    /// durability.
    pub fn record_success(&mut self) {
        *self = Self { outcome: Outcome::AppliedNotDurable, pending: false };
    }

    /// Records a failed attempt.
    pub(super) fn record_failure(
        &mut self,
        operation: &CommandFacts,
        failure: &AttemptFailure<'_>,
        through_mongos: bool,
        uses_txn_number: bool,
    ) {
        let recorded = uses_txn_number || operation.kind == CommandKind::EndTransaction;
        let evidence = evidence_of(operation, failure, through_mongos);
        self.outcome = match evidence {
            AttemptEvidence::NothingSent => self.outcome,
            AttemptEvidence::Rejected if recorded && !through_mongos && !self.pending => {
                Outcome::NotApplied
            }
            AttemptEvidence::WroteNothing | AttemptEvidence::Rejected => {
                self.outcome.max(Outcome::NotApplied)
            }
            AttemptEvidence::Unknown => self.outcome.max(Outcome::MaybeApplied),
            AttemptEvidence::NotDurable => Outcome::AppliedNotDurable,
        };
        self.pending |= evidence == AttemptEvidence::Unknown && may_be_pending(failure.cause);
    }
}

/// Returns `true` if the server may execute the request after the client has stopped waiting.
fn may_be_pending(cause: FailureCause<'_>) -> bool {
    match cause {
        FailureCause::Network { aborted_by_client } => aborted_by_client,
        FailureCause::PoolCleared | FailureCause::Driver => true,
        FailureCause::CommandError { .. }
        | FailureCause::WriteErrors { .. }
        | FailureCause::WriteConcern { .. }
        | FailureCause::MalformedReply => false,
    }
}

fn evidence_of(
    operation: &CommandFacts,
    failure: &AttemptFailure<'_>,
    through_mongos: bool,
) -> AttemptEvidence {
    if failure.phase == AttemptPhase::BeforeSend {
        return AttemptEvidence::NothingSent;
    }
    if !operation.kind.may_write() {
        return AttemptEvidence::WroteNothing;
    }
    match failure.cause {
        FailureCause::Network { .. }
        | FailureCause::PoolCleared
        | FailureCause::MalformedReply
        | FailureCause::Driver => AttemptEvidence::Unknown,
        FailureCause::CommandError { .. } | FailureCause::WriteErrors { .. }
            if operation.error_aborts_transaction() =>
        {
            AttemptEvidence::WroteNothing
        }
        FailureCause::WriteErrors { any_applied: true, .. } => AttemptEvidence::Unknown,
        _ if failure.labels.no_writes_performed => AttemptEvidence::WroteNothing,
        _ if failure.is_retryable_by_label() => AttemptEvidence::WroteNothing,
        FailureCause::WriteConcern { .. } => AttemptEvidence::NotDurable,
        FailureCause::CommandError { .. } if operation.kind == CommandKind::EndTransaction => {
            evidence_of_transaction_end(failure)
        }
        FailureCause::CommandError { code, .. } => {
            // A retryable write is one insert, update, delete, findAndModify or bulkWrite command,
            // which a rate limiter admits as a whole.
            let rejected =
                codes::is_rate_limit(code) && operation.kind == CommandKind::RetryableWrite;
            evidence_of_code(code, operation.single_document || rejected, through_mongos)
        }
        FailureCause::WriteErrors { codes, any_applied: false } => {
            let each_is_single_document =
                operation.single_document || operation.kind == CommandKind::RetryableWrite;
            evidence_of_statements(codes, each_is_single_document, through_mongos)
        }
    }
}

fn evidence_of_transaction_end(failure: &AttemptFailure<'_>) -> AttemptEvidence {
    if failure.labels.transient_transaction {
        AttemptEvidence::Rejected
    } else {
        AttemptEvidence::Unknown
    }
}

fn evidence_of_code(code: i32, single_document: bool, through_mongos: bool) -> AttemptEvidence {
    match code {
        _ if !single_document => AttemptEvidence::Unknown,
        code if codes::is_after_session_record(code) => AttemptEvidence::Rejected,
        code if codes::is_before_execution(code) => AttemptEvidence::WroteNothing,
        _ if through_mongos => AttemptEvidence::Unknown,
        code if codes::is_ambiguous(code) => AttemptEvidence::Unknown,
        _ => AttemptEvidence::WroteNothing,
    }
}

fn evidence_of_statements(
    codes: &[i32],
    each_is_single_document: bool,
    through_mongos: bool,
) -> AttemptEvidence {
    if !each_is_single_document {
        return AttemptEvidence::Unknown;
    }
    let evidence = codes.iter().map(|&code| evidence_of_code(code, true, through_mongos));
    evidence
        .reduce(|all, one| match (all, one) {
            (AttemptEvidence::Rejected, AttemptEvidence::Rejected) => AttemptEvidence::Rejected,
            (
                AttemptEvidence::Rejected | AttemptEvidence::WroteNothing,
                AttemptEvidence::Rejected | AttemptEvidence::WroteNothing,
            ) => AttemptEvidence::WroteNothing,
            _ => AttemptEvidence::Unknown,
        })
        .unwrap_or(AttemptEvidence::Unknown)
}
