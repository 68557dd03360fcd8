//! Transactions: states, fields of their commands, and effects of failures.
//!
//! One [`Transaction`] lives as long as its session and serves its transactions one after another.
//! It has no sockets: the driver reports calls and commands, and adds the resulting fields and
//! labels to commands and errors.
//!
//! # States
//!
//! | state \ call     | `start`    | `commit`              | `abort`              | any other operation |
//! |------------------|------------|-----------------------|----------------------|---------------------|
//! | none             | starting   | error                 | error                | none                |
//! | starting         | error      | committed, empty; no command | aborted; no command | in progress, once it is sent |
//! | in progress      | error      | committed             | aborted              | in progress         |
//! | committed, empty | starting   | unchanged; no command | error                | none                |
//! | committed        | starting   | unchanged; sends `commitTransaction` again | error | none          |
//! | aborted          | starting   | error                 | error                | none                |
//!
//! An error does not change the state. The state is committed, or aborted, from the call on,
//! whatever the result of the command. After a lost reply or a dropped future, a commit can
//! therefore be repeated.

mod commit;
mod failure;
#[cfg(test)]
mod tests;
mod with_transaction;

use std::time::Duration;

use bson::RawDocumentBuf;

pub use self::{
    commit::commit_write_concern,
    failure::{TransactionPosition, UNKNOWN_TRANSACTION_COMMIT_RESULT, unpins},
    with_transaction::{AfterCommit, WithTransaction, WithTransactionTimeout},
};
use crate::{
    concern::{ReadConcern, WriteConcern},
    retry::{ErrorLabels, OutcomeTracker},
    selection::SelectionCriteria,
};

/// Options of a transaction, with all inherited values.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TransactionSettings {
    /// Read concern, sent with the first command (`readConcern`).
    pub read_concern: Option<ReadConcern>,
    /// Write concern of the commit or abort (`writeConcern`).
    pub write_concern: Option<WriteConcern>,
    /// Selection criteria of reads. Only the read preference primary is valid; the first read
    /// checks it.
    pub criteria: Option<SelectionCriteria>,
    /// Time limit of the commit on the server (`maxTimeMS`).
    pub max_commit_time: Option<Duration>,
}

impl TransactionSettings {
    /// Returns these settings, with missing ones taken from `others`.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            read_concern: self.read_concern.or(others.read_concern),
            write_concern: self.write_concern.or(others.write_concern),
            criteria: self.criteria.or(others.criteria),
            max_commit_time: self.max_commit_time.or(others.max_commit_time),
        }
    }
}

/// State of a session's transaction. See the [module](self) for the transitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransactionState {
    /// There is no transaction.
    #[default]
    None,
    /// The transaction was started; no command was sent.
    Starting,
    /// A command of the transaction was sent.
    InProgress,
    /// The commit was called.
    Committed {
        /// `true` if the transaction sent no command before.
        empty: bool,
    },
    /// The abort was called.
    Aborted,
}

/// Error of a call that the state does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// A transaction is already in progress.
    #[error("transaction already in progress")]
    AlreadyInProgress,
    /// There is no transaction to commit or abort.
    #[error("no transaction started")]
    NotStarted,
    /// The transaction was aborted, so it cannot be committed.
    #[error("Cannot call commitTransaction after calling abortTransaction")]
    CommitAfterAbort,
    /// The transaction was committed, so it cannot be aborted.
    #[error("Cannot call abortTransaction after calling commitTransaction")]
    AbortAfterCommit,
    /// The transaction was already aborted.
    #[error("cannot call abortTransaction twice")]
    AbortTwice,
    /// The write concern is unacknowledged (`w: 0`).
    #[error("transactions do not support unacknowledged write concerns")]
    Unacknowledged,
    /// The session has no `txnNumber` left.
    #[error("the session has no transaction numbers left; use a new session")]
    NoNumberLeft,
    /// The command was created in a transaction that has ended since.
    #[error(
        "the transaction of this command ended before the command was sent; start a new \
         transaction and repeat its operations"
    )]
    Ended,
}

/// Command needed to end a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum TransactionEnd {
    /// No command: no server has received an operation of the transaction.
    Nothing,
    /// `commitTransaction` or `abortTransaction`.
    Send,
}

/// The transaction of a session.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    state: TransactionState,
    number: i64,
    settings: TransactionSettings,
    recovery_token: Option<RawDocumentBuf>,
    /// `true` if the driver aborted the transaction because its session or future was dropped.
    abandoned: bool,
    /// `true` if an abort must still be sent, or was rejected by an overloaded server.
    abort_unsent: bool,
    /// `true` if the server reported that it has aborted the transaction.
    aborted_by_server: bool,
    /// `true` if a server may have executed a commit.
    commit_attempted: bool,
    /// `commit_attempted` before the current attempt.
    commit_attempted_before: bool,
    /// Outcome of the commits so far, over all calls.
    commits: OutcomeTracker,
}

impl Transaction {
    /// Returns the state.
    pub fn state(&self) -> TransactionState {
        self.state
    }

    /// Returns `true` if operations are part of the transaction now.
    pub fn is_active(&self) -> bool {
        match self.state {
            TransactionState::Starting | TransactionState::InProgress => true,
            TransactionState::None
            | TransactionState::Committed { .. }
            | TransactionState::Aborted => false,
        }
    }

    /// Returns the `txnNumber` of all commands of the transaction.
    pub fn number(&self) -> i64 {
        self.number
    }

    /// Returns the settings.
    pub fn settings(&self) -> &TransactionSettings {
        &self.settings
    }

    /// Returns the `recoveryToken`, with which another mongos can recover the outcome.
    pub fn recovery_token(&self) -> Option<&RawDocumentBuf> {
        self.recovery_token.as_ref()
    }

    /// Starts a transaction. Takes a `txnNumber` only if the state allows the start.
    ///
    /// # Errors
    ///
    /// An error if a transaction is active, the write concern is unacknowledged, or there is no
    /// number.
    pub fn start(
        &mut self,
        settings: TransactionSettings,
        next_number: impl FnOnce() -> Option<i64>,
    ) -> Result<(), TransactionError> {
        if self.is_active() {
            return Err(TransactionError::AlreadyInProgress);
        }
        if settings.write_concern.as_ref().is_some_and(|concern| !concern.is_acknowledged()) {
            return Err(TransactionError::Unacknowledged);
        }
        let number = next_number().ok_or(TransactionError::NoNumberLeft)?;
        *self = Self { state: TransactionState::Starting, number, settings, ..Self::default() };
        Ok(())
    }

    /// Returns the position of an operation that was created in the transaction with this number.
    ///
    /// # Errors
    ///
    /// [`TransactionError::Ended`] if that transaction has ended.
    pub fn begin_operation(
        &mut self,
        number: i64,
    ) -> Result<TransactionPosition, TransactionError> {
        match self.state {
            _ if self.number != number => Err(TransactionError::Ended),
            TransactionState::Starting => Ok(TransactionPosition::First),
            TransactionState::InProgress => Ok(TransactionPosition::Later),
            TransactionState::None
            | TransactionState::Committed { .. }
            | TransactionState::Aborted => Err(TransactionError::Ended),
        }
    }

    /// Begins an operation outside of any transaction. Resets the state of an ended transaction and
    /// returns `true`; does not change an active one.
    pub fn begin_outside(&mut self) -> bool {
        if self.is_active() {
            return false;
        }
        *self = Self::default();
        true
    }

    /// Records that a command at this position of the transaction with this number is about to be
    /// sent.
    ///
    /// # Errors
    ///
    /// [`TransactionError::Ended`] for an operation of a transaction that has ended: the server
    /// would execute it outside of the transaction, or start the transaction again.
    pub fn begin_send(
        &mut self,
        position: TransactionPosition,
        number: i64,
    ) -> Result<(), TransactionError> {
        match position {
            TransactionPosition::First | TransactionPosition::Later
                if self.begin_operation(number).is_err() =>
            {
                return Err(TransactionError::Ended);
            }
            // If the driver fails before this point, the next operation starts the transaction.
            TransactionPosition::First => self.state = TransactionState::InProgress,
            // If the future is dropped, this remains the outcome of the commit.
            TransactionPosition::Commit => self.commits.record_pending_attempt(),
            TransactionPosition::Abort => self.abort_unsent = false,
            TransactionPosition::Outside | TransactionPosition::Later => {}
        }
        Ok(())
    }

    /// Records a call of commit, the first one or a repeated one.
    ///
    /// # Errors
    ///
    /// An error if the state does not allow it.
    pub fn commit(&mut self) -> Result<TransactionEnd, TransactionError> {
        match self.state {
            TransactionState::None => Err(TransactionError::NotStarted),
            TransactionState::Aborted => Err(TransactionError::CommitAfterAbort),
            TransactionState::Starting | TransactionState::Committed { empty: true } => {
                self.state = TransactionState::Committed { empty: true };
                Ok(TransactionEnd::Nothing)
            }
            TransactionState::InProgress | TransactionState::Committed { empty: false } => {
                self.state = TransactionState::Committed { empty: false };
                Ok(TransactionEnd::Send)
            }
        }
    }

    /// Records a call of abort.
    ///
    /// # Errors
    ///
    /// An error if the state does not allow it.
    pub fn abort(&mut self) -> Result<TransactionEnd, TransactionError> {
        let end = match self.state {
            TransactionState::None => return Err(TransactionError::NotStarted),
            TransactionState::Committed { .. } => return Err(TransactionError::AbortAfterCommit),
            // The application has not called abort before.
            TransactionState::Aborted if std::mem::take(&mut self.abandoned) => {
                TransactionEnd::Nothing
            }
            TransactionState::Aborted => return Err(TransactionError::AbortTwice),
            TransactionState::Starting => TransactionEnd::Nothing,
            TransactionState::InProgress => TransactionEnd::Send,
        };
        self.abort_unsent = end == TransactionEnd::Send;
        self.state = TransactionState::Aborted;
        Ok(end)
    }

    /// Aborts an active transaction because its session, or the future that would end it, was
    /// dropped. From now on, only the returned abort is sent.
    pub fn abandon(&mut self) -> TransactionEnd {
        if self.take_unexecuted_end() == TransactionEnd::Send {
            return TransactionEnd::Send;
        }
        let end = match self.state {
            TransactionState::None
            | TransactionState::Committed { .. }
            | TransactionState::Aborted => return TransactionEnd::Nothing,
            TransactionState::Starting => TransactionEnd::Nothing,
            TransactionState::InProgress => TransactionEnd::Send,
        };
        (self.state, self.abandoned) = (TransactionState::Aborted, true);
        end
    }

    /// Converts a commit or abort that no server executed into an abort to send: its future was
    /// dropped before, or an overloaded server rejected it. The transaction would stay open on the
    /// server otherwise. Any other state is not changed.
    pub fn take_unexecuted_end(&mut self) -> TransactionEnd {
        match self.state {
            TransactionState::Committed { empty: false } if self.is_commit_unexecuted() => {
                (self.state, self.abandoned) = (TransactionState::Aborted, true);
                TransactionEnd::Send
            }
            TransactionState::Aborted if std::mem::take(&mut self.abort_unsent) => {
                TransactionEnd::Send
            }
            _ => TransactionEnd::Nothing,
        }
    }

    fn is_commit_unexecuted(&self) -> bool {
        self.commits.outcome().is_certainly_not_applied() && !self.aborted_by_server
    }

    /// Stores the `recoveryToken` of a reply to a command of the transaction with this number.
    /// Ignores late replies of earlier transactions.
    pub fn set_recovery_token(&mut self, number: i64, token: RawDocumentBuf) {
        if self.state == TransactionState::InProgress && self.number == number {
            self.recovery_token = Some(token);
        }
    }

    /// Begins an attempt of the commit.
    pub fn begin_commit_attempt(&mut self) {
        self.commit_attempted_before = std::mem::replace(&mut self.commit_attempted, true);
    }

    /// Records the labels of a failed commit or abort attempt. An overloaded server rejects the
    /// command without executing it: such a commit does not count as attempted, and an abort must
    /// still be sent.
    pub fn end_attempt_failed(&mut self, position: TransactionPosition, labels: ErrorLabels) {
        let rejected = labels.system_overloaded && labels.retryable;
        match position {
            TransactionPosition::Commit => {
                self.aborted_by_server = labels.transient_transaction;
                if rejected {
                    self.commit_attempted = self.commit_attempted_before;
                }
            }
            // An attempt that was not sent leaves it as it was.
            TransactionPosition::Abort => self.abort_unsent |= rejected,
            TransactionPosition::Outside
            | TransactionPosition::First
            | TransactionPosition::Later => {}
        }
    }

    /// Returns the write concern of the current commit attempt.
    pub fn commit_write_concern(&self) -> Option<WriteConcern> {
        commit_write_concern(self.settings.write_concern.as_ref(), self.commit_attempted_before)
    }

    /// Returns the outcome of the commits so far, to continue with.
    pub fn commits(&self) -> &OutcomeTracker {
        &self.commits
    }

    /// Stores the outcome of all commits so far, after each attempt.
    pub fn commit_ended(&mut self, commits: OutcomeTracker) {
        self.commits = commits;
    }
}
