//! What a failure means for the transaction: which labels its error gets, and whether the session
//! lets go of the server that the transaction is bound to.

use crate::retry::{Cause, Failure, Labels, Phase, TRANSIENT_TRANSACTION_ERROR};

/// On errors that leave open whether a transaction was committed.
pub const UNKNOWN_TRANSACTION_COMMIT_RESULT: &str = "UnknownTransactionCommitResult";

/// The code of a command that took longer than its `maxTimeMS`.
const MAX_TIME_MS_EXPIRED: i32 = 50;
/// The codes of write concerns that can never be met: `UnknownReplWriteConcern`,
/// `UnsatisfiableWriteConcern`. Asking again would not help.
const IMPOSSIBLE_WRITE_CONCERNS: [i32; 2] = [79, 100];

/// What a command is to the transaction of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Nothing: there is none.
    Outside,
    /// Its first operation, which starts it on the server.
    First,
    /// One of its further operations.
    Later,
    /// Its commit.
    Commit,
    /// Its abort.
    Abort,
}

impl Part {
    /// Whether it is an operation of the transaction.
    pub fn is_inside(self) -> bool {
        match self {
            Self::First | Self::Later => true,
            Self::Outside | Self::Commit | Self::Abort => false,
        }
    }

    /// The label that the driver puts on an error of this part.
    ///
    /// | the failure                                             | of an operation, or of an abort | of a commit |
    /// |---------------------------------------------------------|------------------------|-------------|
    /// | the network, or PoolCleared                             | `TransientTransactionError` | `UnknownTransactionCommitResult` |
    /// | a refusal labelled `RetryableWriteError`                | none: it is the server's to label | `UnknownTransactionCommitResult` |
    /// | a refusal with the code `MaxTimeMSExpired`              | none                   | `UnknownTransactionCommitResult` |
    /// | a write concern error that asking again may cure        | none                   | `UnknownTransactionCommitResult` |
    /// | any other                                               | none                   | none        |
    ///
    /// `retryable` says that the error is labelled `RetryableWriteError`, be it by the server or by
    /// the driver.
    pub fn label(self, failure: &Failure<'_>, retryable: bool) -> Option<&'static str> {
        match self {
            Self::Outside => None,
            Self::First | Self::Later | Self::Abort => {
                is_of_network(failure).then_some(TRANSIENT_TRANSACTION_ERROR)
            }
            Self::Commit => (retryable || is_of_network(failure) || is_open(failure))
                .then_some(UNKNOWN_TRANSACTION_COMMIT_RESULT),
        }
    }

    /// The label that the driver puts on the error that no server could be selected.
    pub fn label_without_server(self) -> Option<&'static str> {
        match self {
            Self::Outside => None,
            Self::First | Self::Later | Self::Abort => Some(TRANSIENT_TRANSACTION_ERROR),
            // That calling again may help is worth more than that the result is known.
            Self::Commit => Some(UNKNOWN_TRANSACTION_COMMIT_RESULT),
        }
    }
}

fn is_of_network(failure: &Failure<'_>) -> bool {
    match failure.cause {
        Cause::Network { .. } | Cause::PoolCleared => true,
        Cause::Refused { .. }
        | Cause::WriteErrors { .. }
        | Cause::WriteConcern { .. }
        | Cause::UnreadableReply
        | Cause::Driver => false,
    }
}

/// Whether the server leaves it open how a commit ended.
fn is_open(failure: &Failure<'_>) -> bool {
    match failure.cause {
        Cause::Refused { code, .. } => {
            failure.phase == Phase::Sending && code == MAX_TIME_MS_EXPIRED
        }
        Cause::WriteConcern { code } => !IMPOSSIBLE_WRITE_CONCERNS.contains(&code),
        Cause::Network { .. }
        | Cause::PoolCleared
        | Cause::WriteErrors { .. }
        | Cause::UnreadableReply
        | Cause::Driver => false,
    }
}

/// Whether the session lets go of the router, or the connection, that its transaction is bound to,
/// after a failure with these labels and the one that was `added`. (A session does so, too, when the
/// transaction is aborted, and when something else begins in it.)
pub fn unpins(part: Part, labels: Labels, added: Option<&'static str>) -> bool {
    match part {
        Part::Outside => false,
        Part::Abort => true,
        Part::First | Part::Later | Part::Commit => labels.transient_transaction || added.is_some(),
    }
}
