//! Effects of a failure on a transaction: labels of the error, and unpinning of the server.

use crate::retry::{
    AttemptFailure, AttemptPhase, ErrorLabels, FailureCause, TRANSIENT_TRANSACTION_ERROR,
};

/// Error label: the outcome of the commit is unknown.
pub const UNKNOWN_TRANSACTION_COMMIT_RESULT: &str = "UnknownTransactionCommitResult";

/// `MaxTimeMSExpired`: the command exceeded its `maxTimeMS`.
const MAX_TIME_MS_EXPIRED: i32 = 50;
/// Codes of write concerns that cannot be satisfied: `UnknownReplWriteConcern`,
/// `UnsatisfiableWriteConcern`. A retry does not help.
const UNSATISFIABLE_WRITE_CONCERNS: [i32; 2] = [79, 100];

/// Position of a command in the transaction of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionPosition {
    /// Outside of a transaction.
    Outside,
    /// First operation, which starts the transaction on the server (`startTransaction: true`).
    First,
    /// Later operation.
    Later,
    /// `commitTransaction`.
    Commit,
    /// `abortTransaction`.
    Abort,
}

impl TransactionPosition {
    /// Returns `true` for an operation of the transaction.
    pub fn is_inside(self) -> bool {
        match self {
            Self::First | Self::Later => true,
            Self::Outside | Self::Commit | Self::Abort => false,
        }
    }

    /// Returns the label that the driver adds to an error at this position.
    ///
    /// | failure                                                 | operation or abort     | commit      |
    /// |---------------------------------------------------------|------------------------|-------------|
    /// | network error or PoolCleared                            | `TransientTransactionError` | `UnknownTransactionCommitResult` |
    /// | command error with the label `RetryableWriteError`      | none: the server adds it | `UnknownTransactionCommitResult` |
    /// | command error `MaxTimeMSExpired`                        | none                   | `UnknownTransactionCommitResult` |
    /// | write concern error that a retry can resolve            | none                   | `UnknownTransactionCommitResult` |
    /// | any other                                               | none                   | none        |
    ///
    /// `retryable` is `true` if the error has the label `RetryableWriteError`, from the server or
    /// the driver.
    pub fn label(self, failure: &AttemptFailure<'_>, retryable: bool) -> Option<&'static str> {
        match self {
            Self::Outside => None,
            Self::First | Self::Later | Self::Abort => {
                is_network_error(failure).then_some(TRANSIENT_TRANSACTION_ERROR)
            }
            Self::Commit => (retryable || is_network_error(failure) || is_commit_open(failure))
                .then_some(UNKNOWN_TRANSACTION_COMMIT_RESULT),
        }
    }

    /// Returns the label that the driver adds to an error of server selection.
    pub fn label_without_server(self) -> Option<&'static str> {
        match self {
            Self::Outside => None,
            Self::First | Self::Later | Self::Abort => Some(TRANSIENT_TRANSACTION_ERROR),
            // The application must be able to repeat the commit, even though nothing was sent.
            Self::Commit => Some(UNKNOWN_TRANSACTION_COMMIT_RESULT),
        }
    }
}

fn is_network_error(failure: &AttemptFailure<'_>) -> bool {
    match failure.cause {
        FailureCause::Network { .. } | FailureCause::PoolCleared => true,
        FailureCause::CommandError { .. }
        | FailureCause::WriteErrors { .. }
        | FailureCause::WriteConcern { .. }
        | FailureCause::MalformedReply
        | FailureCause::Driver => false,
    }
}

/// Returns `true` if the server leaves the outcome of a commit open.
fn is_commit_open(failure: &AttemptFailure<'_>) -> bool {
    match failure.cause {
        FailureCause::CommandError { code, .. } => {
            failure.phase == AttemptPhase::Sent && code == MAX_TIME_MS_EXPIRED
        }
        FailureCause::WriteConcern { code } => !UNSATISFIABLE_WRITE_CONCERNS.contains(&code),
        FailureCause::Network { .. }
        | FailureCause::PoolCleared
        | FailureCause::WriteErrors { .. }
        | FailureCause::MalformedReply
        | FailureCause::Driver => false,
    }
}

/// Returns `true` if the session unpins its server or connection after a failure with these labels
/// and the `added` one. A session also unpins when the transaction is aborted, and when it begins
/// another operation.
pub fn unpins(
    position: TransactionPosition,
    labels: ErrorLabels,
    added: Option<&'static str>,
) -> bool {
    match position {
        TransactionPosition::Outside => false,
        TransactionPosition::Abort => true,
        TransactionPosition::First | TransactionPosition::Later | TransactionPosition::Commit => {
            labels.transient_transaction || added.is_some()
        }
    }
}
