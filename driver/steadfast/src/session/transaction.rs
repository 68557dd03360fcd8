//! Transaction of a session: scope of commands, deadline and pin.

use std::{sync::Arc, time::Duration};

use steadfast_core::transaction::{
    Transaction, TransactionEnd, TransactionError, TransactionPosition, TransactionSettings,
};

use tokio::sync::{OwnedMutexGuard, watch};

use super::{Session, lock};
use crate::{
    deadline::Deadline,
    error::{Error, ErrorKind, Result},
    pin::PinnedServer,
};

/// Transaction that is aborted in the background. The session may have started another one since.
#[derive(Debug)]
pub(crate) struct AbandonedTransaction {
    pub(crate) transaction: Transaction,
    /// Pinned server or connection.
    pub(crate) pin: Option<PinnedServer>,
}

/// Time that a shutdown, and the next operation in the session, wait for an abort in the background.
pub(crate) const ABORT_WAIT: Duration = Duration::from_secs(5);
impl From<TransactionError> for ErrorKind {
    fn from(misuse: TransactionError) -> Self {
        Self::Transaction { message: misuse.to_string() }
    }
}

/// Returns the error for an operation in a transaction with a write concern.
pub(crate) fn explicit_write_concern() -> Error {
    Error::invalid_argument("Cannot set write concern after starting a transaction")
}

/// Returns the error of a failed server selection in this session, with its label in a transaction.
pub(crate) fn without_server(session: Option<&Session>, mut error: Error) -> Error {
    if let Some(session) = session.filter(|session| session.is_in_transaction()) {
        if let Some(label) = TransactionPosition::Later.label_without_server() {
            error.add_label(label);
        }
        drop(session.unpin());
    }
    error
}

/// Relation of a command to the transaction of its session, decided when the command is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionScope {
    /// Built outside of a transaction. Resets the state of a transaction that has ended.
    Outside,
    /// Built in the transaction with this `txnNumber`. If it has ended, the command is not sent and
    /// fails.
    Inside(i64),
    /// Independent of transactions (`killCursors`).
    Independent,
}

impl From<Option<i64>> for TransactionScope {
    /// Returns the scope of a cursor's commands: that of the command that opened the cursor.
    fn from(number: Option<i64>) -> Self {
        number.map_or(Self::Outside, Self::Inside)
    }
}

impl Session {
    /// Reads or changes the transaction.
    pub(crate) fn transaction<T>(&self, look: impl FnOnce(&mut Transaction) -> T) -> T {
        look(&mut lock(&self.state).transaction)
    }

    /// Returns `true` if operations are part of a transaction now.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction(|transaction| transaction.is_active())
    }

    /// Starts a transaction with the next transaction number.
    pub(crate) fn start_transaction(&self, settings: TransactionSettings) -> Result<()> {
        let mut state = lock(&self.state);
        let super::SessionState { server, transaction, .. } = &mut *state;
        transaction.start(settings, || server.as_mut()?.next_txn_number())?;
        drop(state);
        drop(self.unpin());
        Ok(())
    }

    /// Begins an operation that is neither a commit nor an abort, and returns its position in the
    /// transaction.
    pub(crate) fn begin_operation(&self, scope: TransactionScope) -> Result<TransactionPosition> {
        match scope {
            TransactionScope::Independent => {}
            TransactionScope::Inside(number) => {
                return Ok(self.transaction(|transaction| transaction.begin_operation(number))?);
            }
            TransactionScope::Outside => {
                if self.transaction(Transaction::begin_outside) {
                    drop(self.unpin());
                }
            }
        }
        Ok(TransactionPosition::Outside)
    }

    /// Takes the transaction out of the session for a background abort, if `end` requires one.
    /// Dropping the sender marks the end of the abort.
    pub(crate) fn abandon(
        &self,
        end: impl FnOnce(&mut Transaction) -> TransactionEnd,
    ) -> Option<(AbandonedTransaction, watch::Sender<()>)> {
        let mut state = lock(&self.state);
        if end(&mut state.transaction) == TransactionEnd::Nothing {
            return None;
        }
        let (done, pending) = watch::channel(());
        state.pending_abort = Some(pending);
        let abandoned =
            AbandonedTransaction { transaction: state.transaction.clone(), pin: state.pin.take() };
        Some((abandoned, done))
    }

    /// Returns `true` while a background abort has not ended.
    pub(crate) fn is_aborting(&self) -> bool {
        lock(&self.state).pending_abort.is_some()
    }

    /// Waits for a background abort, with a time-out, so that later commands do not overtake it.
    pub(crate) async fn background_abort(&self, within: Option<Duration>) {
        let pending = lock(&self.state).pending_abort.clone();
        let Some(mut pending) = pending else { return };
        let within = within.unwrap_or(ABORT_WAIT).min(ABORT_WAIT);
        let _ = tokio::time::timeout(within, pending.changed()).await;
        lock(&self.state).pending_abort.take_if(|latest| latest.same_channel(&pending));
    }

    /// Sets or removes the deadline of the transaction and its operations.
    pub(crate) fn set_transaction_deadline(&self, deadline: Option<Deadline>) {
        lock(&self.state).transaction_deadline = deadline;
    }

    /// Returns the deadline of the transaction.
    pub(crate) fn transaction_deadline(&self) -> Option<Deadline> {
        lock(&self.state).transaction_deadline
    }

    /// Returns the deadline that an operation inherits from its transaction. The specification of
    /// client-side operations timeout forbids a time-out of the operation itself (`own`).
    pub(crate) fn operation_deadline(&self, own: bool) -> Result<Option<Deadline>> {
        let deadline = self.transaction_deadline().filter(|_| self.is_in_transaction());
        if own && deadline.is_some() {
            return Err(Error::invalid_argument(
                "timeout cannot be set on an operation of a transaction that has a timeout",
            ));
        }
        Ok(deadline)
    }

    /// Waits until no other operation of the transaction is in progress.
    pub(crate) async fn lock_operations(&self) -> OwnedMutexGuard<()> {
        Arc::clone(self.operation_lock.get_or_init(Arc::default)).lock_owned().await
    }

    /// Returns the pin of the transaction.
    pub(crate) fn pin(&self) -> Option<PinnedServer> {
        lock(&self.state).pin.clone()
    }

    /// Pins the transaction to a server or connection.
    pub(crate) fn set_pin(&self, pin: PinnedServer) {
        let before = lock(&self.state).pin.replace(pin);
        drop(before);
    }

    /// Unpins the transaction. The returned pin must be dropped without a lock: its connection may
    /// be checked in.
    pub(crate) fn unpin(&self) -> Option<PinnedServer> {
        lock(&self.state).pin.take()
    }
}
