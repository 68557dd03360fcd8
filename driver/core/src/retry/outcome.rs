//! What became of a write that failed, concluded from all its attempts.

use std::fmt;

use super::{
    codes,
    facts::{Cause, Failure, Kind, Operation, Phase},
};

/// What became of a write that did not succeed.
///
/// It speaks of the whole command and of all its attempts, not only of the one whose error is
/// raised. [`NotSent`](Self::NotSent) and [`NotApplied`](Self::NotApplied) are promises: nothing of
/// it was written, and nothing of it will be. A read writes nothing and so is
/// [`NotApplied`](Self::NotApplied) at worst.
///
/// # What each attempt tells
///
/// The first row that fits decides.
///
/// | #  | the attempt failed with                                                | it tells       | because |
/// |----|------------------------------------------------------------------------|----------------|---------|
/// | 1  | anything before a byte was sent                                        | nothing sent   | no server has seen it |
/// | 2  | anything, and the command only reads                                   | wrote nothing  | there was nothing to write |
/// | 3  | the network, a time-out, an unreadable reply, our own shutting down    | unknown        | the server may have carried it out before, or may do so yet; also with `w: 0` |
/// | 4  | a reply that tells of statements carried out, beside others that failed | unknown       | some of it was applied; the partial result says what |
/// | 5  | a reply labelled `NoWritesPerformed`                                   | wrote nothing  | the server says so, of this attempt only |
/// | 6  | a refusal labelled `RetryableError`                                   | wrote nothing  | the server says that any command may be sent again after it |
/// | 7  | only a write concern error, a time-out of it included                  | not durable    | it was applied; not waiting any longer does not undo it |
/// | 8  | a commit or an abort refused with `TransientTransactionError`          | refused        | the server knows the transaction to be aborted |
/// | 9  | a commit or an abort refused otherwise                                 | unknown        | an earlier one may have been carried out |
/// | 10 | a duplicate key or a failed validation, of a retryable write           | refused        | the server looked into its session record first |
/// | 11 | another command error, of a command that may write several documents   | unknown        | any code can come half-way: `$merge`, `applyOps` and `update` raise `FailedToParse` after documents were written |
/// | 12 | a command error that comes before execution (`Unauthorized`, `FailedToParse`, …) | wrote nothing | nothing was begun; nothing is said of earlier attempts |
/// | 13 | another refusal, through a router                                      | unknown        | the router may have sent it twice itself, and met with a lost reply first |
/// | 14 | an interruption, a shutdown, a server's own time-out, codes 217 and 225, no code | unknown | it may have come after the write; a session record that is gone says neither yes nor no |
/// | 15 | another refusal, of one document (`NotWritablePrimary` too)            | wrote nothing  | one document is written wholly or not at all |
///
/// Rows 10 and 12 to 15 speak of a retryable write of a single document: `insert_one`, `update_one`,
/// `replace_one`, `delete_one`, `findAndModify`. Every other command that writes is of row 11:
/// batches, `update_many` and `delete_many`, `aggregate` with `$out` or `$merge`, commands on
/// collections and indexes, and whatever `run_command` sends.
///
/// A listed statement error (`writeErrors`) of a retryable write counts like a refusal of that
/// statement alone, so row 11 does not apply to it; of several, the least certain counts. Of a
/// multi-document write it tells nothing, because documents before the failing one may be changed.
///
/// The error of a rate limiter (449, 462) of a retryable write counts like a refusal of one document,
/// however many statements it has: it admits or rejects a command as a whole, before execution. Through
/// a mongos, row 13 applies.
///
/// Of an operation in a transaction the outcome says what the transaction holds, which takes effect
/// if the transaction is committed. A refusal of it, or a listed statement error, tells that it wrote
/// nothing whichever row would fit: the server has aborted the transaction. What became of the
/// transaction, the error of the commit says, over all calls of commit.
///
/// # What the attempts tell together
///
/// | so far \ this attempt | nothing sent | wrote nothing | refused                      | unknown      | not durable       |
/// |-----------------------|--------------|---------------|------------------------------|--------------|-------------------|
/// | `NotSent`             | `NotSent`    | `NotApplied`  | `NotApplied`                 | `MaybeApplied` | `AppliedNotDurable` |
/// | `NotApplied`          | as before    | `NotApplied`  | `NotApplied`                 | `MaybeApplied` | `AppliedNotDurable` |
/// | `MaybeApplied`        | as before    | as before     | `NotApplied` if that settles it, else as before | as before | `AppliedNotDurable` |
/// | `AppliedNotDurable`   | as before    | as before     | `NotApplied` if that settles it, else as before | as before | as before         |
///
/// A refusal *settles* what became of earlier attempts if the command bore a transaction id, so
/// that the server would have answered from its record had it applied one of them; if the server
/// is no router, whose shards may still be at it; and if of no earlier attempt it was us who stopped
/// waiting (a time-out), so that its request may still wait to be carried out. A request whose
/// connection *broke* is taken to be carried out or gone by the time that the next attempt is
/// answered: a new connection and its handshake lie between. What a former primary applied and the
/// present one has no record of is undone when the former comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// No server was sent any of it.
    #[default]
    NotSent,
    /// It was sent, and nothing of it was applied.
    NotApplied,
    /// It was sent, and all of it, a part of it or nothing of it was applied, or will be.
    MaybeApplied,
    /// A server applied it, but it is not known to be as durable as its write concern asked: it
    /// may yet be undone by a failover.
    AppliedNotDurable,
}

impl Outcome {
    /// Whether it is certain that nothing was written, so that the call can be made again.
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

/// What one attempt tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    NothingSent,
    WroteNothing,
    /// Refused by a server that would have known of an earlier attempt.
    Refused,
    Unknown,
    NotDurable,
}

/// What all attempts so far tell together. That of a command can go on with that of an earlier one,
/// if both mean the same: a commit that is asked for again.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    outcome: Outcome,
    /// Whether the request of an earlier attempt may still wait to be carried out.
    in_flight: bool,
}

impl Ledger {
    /// What became of the write.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// An attempt is sent of which nothing may be heard any more.
    pub fn send_off(&mut self) {
        self.outcome = self.outcome.max(Outcome::MaybeApplied);
        self.in_flight = true;
    }

    /// An attempt succeeded: it was applied, and whatever is asked for again is how durable it is.
    pub fn succeed(&mut self) {
        *self = Self { outcome: Outcome::AppliedNotDurable, in_flight: false };
    }

    /// Takes down another attempt.
    pub(super) fn enter(
        &mut self,
        operation: &Operation,
        failure: &Failure<'_>,
        through_router: bool,
        with_transaction_id: bool,
    ) {
        let recorded = with_transaction_id || operation.kind == Kind::EndTransaction;
        let told = told_by(operation, failure, through_router);
        self.outcome = match told {
            Told::NothingSent => self.outcome,
            Told::Refused if recorded && !through_router && !self.in_flight => Outcome::NotApplied,
            Told::WroteNothing | Told::Refused => self.outcome.max(Outcome::NotApplied),
            Told::Unknown => self.outcome.max(Outcome::MaybeApplied),
            Told::NotDurable => Outcome::AppliedNotDurable,
        };
        self.in_flight |= told == Told::Unknown && may_be_in_flight(failure.cause);
    }
}

/// Whether the server may come to carry the request out after we stopped waiting for it.
fn may_be_in_flight(cause: Cause<'_>) -> bool {
    match cause {
        Cause::Network { ended_by_us } => ended_by_us,
        Cause::PoolCleared | Cause::Driver => true,
        Cause::Refused { .. }
        | Cause::WriteErrors { .. }
        | Cause::WriteConcern { .. }
        | Cause::UnreadableReply => false,
    }
}

fn told_by(operation: &Operation, failure: &Failure<'_>, through_router: bool) -> Told {
    if failure.phase == Phase::BeforeSending {
        return Told::NothingSent;
    }
    if !operation.kind.may_write() {
        return Told::WroteNothing;
    }
    match failure.cause {
        Cause::Network { .. } | Cause::PoolCleared | Cause::UnreadableReply | Cause::Driver => {
            Told::Unknown
        }
        Cause::Refused { .. } | Cause::WriteErrors { .. } if operation.aborts_when_refused() => {
            Told::WroteNothing
        }
        Cause::WriteErrors { any_applied: true, .. } => Told::Unknown,
        _ if failure.labels.no_writes_performed => Told::WroteNothing,
        _ if failure.is_retryable_by_label() => Told::WroteNothing,
        Cause::WriteConcern { .. } => Told::NotDurable,
        Cause::Refused { .. } if operation.kind == Kind::EndTransaction => {
            told_of_transaction(failure)
        }
        Cause::Refused { code, .. } => {
            // A retryable write is one insert, update, delete, findAndModify or bulkWrite command, which
            // is admitted as a whole.
            let rejected = codes::is_rate_limit(code) && operation.kind == Kind::RecognisableWrite;
            told_by_code(code, operation.one_document || rejected, through_router)
        }
        Cause::WriteErrors { codes, any_applied: false } => {
            let each_is_one_document =
                operation.one_document || operation.kind == Kind::RecognisableWrite;
            told_by_statements(codes, each_is_one_document, through_router)
        }
    }
}

fn told_of_transaction(failure: &Failure<'_>) -> Told {
    if failure.labels.transient_transaction { Told::Refused } else { Told::Unknown }
}

fn told_by_code(code: i32, one_document: bool, through_router: bool) -> Told {
    match code {
        _ if !one_document => Told::Unknown,
        code if codes::is_after_session_record(code) => Told::Refused,
        code if codes::is_before_execution(code) => Told::WroteNothing,
        _ if through_router => Told::Unknown,
        code if codes::is_ambiguous(code) => Told::Unknown,
        _ => Told::WroteNothing,
    }
}

fn told_by_statements(codes: &[i32], each_is_one_document: bool, through_router: bool) -> Told {
    if !each_is_one_document {
        return Told::Unknown;
    }
    let told = codes.iter().map(|&code| told_by_code(code, true, through_router));
    told.reduce(|all, one| match (all, one) {
        (Told::Refused, Told::Refused) => Told::Refused,
        (Told::Refused | Told::WroteNothing, Told::Refused | Told::WroteNothing) => {
            Told::WroteNothing
        }
        _ => Told::Unknown,
    })
    .unwrap_or(Told::Unknown)
}
