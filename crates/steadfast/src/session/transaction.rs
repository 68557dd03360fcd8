//! The transaction that a session is in: what it makes of the commands, and where it is bound to.

use std::{pin::pin, sync::Arc, time::Duration};

use bson::{RawDocumentBuf, raw::cstr};
use steadfast_core::{
    read_preference::ReadPreference,
    selection::SelectionCriteria,
    transaction::{End, Misuse, Part, Settings, Transaction},
};

use tokio::sync::{OwnedMutexGuard, watch};

use super::{Session, lock};
use crate::{
    Client,
    command::{Command, Explicit, Kind, Target, TransactionScope},
    deadline::Deadline,
    error::{Error, ErrorKind, Result},
    operation,
    pin::Home,
};

/// A transaction that is aborted in the background. The session may be in another one by then.
#[derive(Debug)]
pub(crate) struct AbandonedTransaction {
    pub(crate) transaction: Transaction,
    /// Pinned server or connection.
    pub(crate) pin: Option<Home>,
}

/// Time that a shutdown, and the next operation in the session, wait for an abort in the background.
pub(crate) const ABORT_WAIT: Duration = Duration::from_secs(5);
/// Time limit of an abort in the background. A server aborts a transaction by itself when it is this old
/// (the default of `transactionLifetimeLimitSeconds`).
const TRANSACTION_LIFETIME: Duration = Duration::from_secs(60);

impl From<Misuse> for ErrorKind {
    fn from(misuse: Misuse) -> Self {
        Self::Transaction { message: misuse.to_string() }
    }
}

/// The error for an operation in a transaction that asks for a write concern of its own.
pub(crate) fn explicit_write_concern() -> Error {
    Error::invalid_argument("Cannot set write concern after starting a transaction")
}

/// The error that no server could be selected for an operation in this session, with the label that
/// it has in a transaction.
pub(crate) fn without_server(session: Option<&Session>, mut error: Error) -> Error {
    if let Some(session) = session.filter(|session| session.is_in_transaction()) {
        if let Some(label) = Part::Later.label_without_server() {
            error.add_label(label);
        }
        drop(session.unpin());
    }
    error
}

impl Session {
    /// Looks at the transaction, or changes it.
    pub(crate) fn transaction<T>(&self, look: impl FnOnce(&mut Transaction) -> T) -> T {
        look(&mut lock(&self.state).transaction)
    }

    /// Whether operations are part of a transaction now.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction(|transaction| transaction.is_active())
    }

    /// Starts a transaction with the session's next number.
    pub(crate) fn start_transaction(&self, settings: Settings) -> Result<()> {
        let mut state = lock(&self.state);
        let super::State { server, transaction, .. } = &mut *state;
        transaction.start(settings, || server.as_mut()?.next_txn_number())?;
        drop(state);
        drop(self.unpin());
        Ok(())
    }

    /// Begins an operation that is neither a commit nor an abort, and returns its position in the
    /// transaction.
    pub(crate) fn begin_operation(&self, scope: TransactionScope) -> Result<Part> {
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
        Ok(Part::Outside)
    }

    /// Aborts an active transaction in the background, if there is one, because the future or the
    /// session that would have ended it was dropped. The server aborts it by itself if that fails.
    pub(crate) fn abort_in_background(
        self: &Arc<Self>,
        client: &Client,
        timeout: Option<Duration>,
    ) {
        self.abort_if(Transaction::abandon, client, timeout);
    }

    /// Aborts a transaction in the background whose commit or abort no server executed, before its
    /// state is overwritten.
    pub(crate) fn abort_unexecuted_end(self: &Arc<Self>, client: &Client) {
        self.abort_if(Transaction::take_unexecuted_end, client, None);
    }

    fn abort_if(
        self: &Arc<Self>,
        end: impl FnOnce(&mut Transaction) -> End,
        client: &Client,
        timeout: Option<Duration>,
    ) {
        let mut state = lock(&self.state);
        if end(&mut state.transaction) == End::Nothing {
            return;
        }
        let (done, pending) = watch::channel(());
        state.pending_abort = Some(pending);
        let abandoned =
            AbandonedTransaction { transaction: state.transaction.clone(), pin: state.pin.take() };
        drop(state);
        let mut abort = operation::transaction::abort().limited(None, timeout);
        abort.session = Some(Arc::clone(self));
        abort.abandoned = Some(Box::new(abandoned));
        // After a shutdown nothing is sent; before it, the shutdown waits for the abort.
        let Some(active) = client.begin_owned_activity() else { return };
        let session = Arc::clone(self);
        client.spawn(async move {
            let _done = done;
            // The operation that is under way does not count towards the abort's time.
            drop(tokio::time::timeout(ABORT_WAIT, session.turn()).await);
            let client = active.client().clone();
            let run = client.carry_out(client.begin_operation(), Box::new(abort));
            let mut run = pin!(tokio::time::timeout(TRANSACTION_LIFETIME, run));
            if tokio::time::timeout(ABORT_WAIT, &mut run).await.is_err() {
                drop(active);
                let _ = run.await;
            }
        });
    }

    /// Returns `true` while a background abort has not ended.
    pub(crate) fn is_aborting(&self) -> bool {
        lock(&self.state).pending_abort.is_some()
    }

    /// Waits for a background abort, within this time, so that what follows in the session does not
    /// overtake it.
    pub(crate) async fn background_abort(&self, within: Option<Duration>) {
        let pending = lock(&self.state).pending_abort.clone();
        let Some(mut pending) = pending else { return };
        let within = within.unwrap_or(ABORT_WAIT).min(ABORT_WAIT);
        let _ = tokio::time::timeout(within, pending.changed()).await;
        lock(&self.state).pending_abort.take_if(|latest| latest.same_channel(&pending));
    }

    /// Gives the transaction this long, and with it all that is part of it; or takes that back.
    pub(crate) fn set_transaction_deadline(&self, deadline: Option<Deadline>) {
        lock(&self.state).transaction_deadline = deadline;
    }

    /// By when the transaction must be done.
    pub(crate) fn transaction_deadline(&self) -> Option<Deadline> {
        lock(&self.state).transaction_deadline
    }

    /// By when an operation must be done because the transaction must be that it is part of. The
    /// specification on time limits: it cannot have its `own`.
    pub(crate) fn operation_deadline(&self, own: bool) -> Result<Option<Deadline>> {
        let deadline = self.transaction_deadline().filter(|_| self.is_in_transaction());
        if own && deadline.is_some() {
            return Err(Error::invalid_argument(
                "an operation in a transaction that has a time limit cannot have one of its own",
            ));
        }
        Ok(deadline)
    }

    /// Waits until no other operation of its transaction is under way.
    pub(crate) async fn turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(self.turn.get_or_init(Arc::default)).lock_owned().await
    }

    /// Where the transaction is bound to.
    pub(crate) fn pin(&self) -> Option<Home> {
        lock(&self.state).pin.clone()
    }

    /// Binds the transaction to a server, or to a connection.
    pub(crate) fn set_pin(&self, home: Home) {
        let before = lock(&self.state).pin.replace(home);
        drop(before);
    }

    /// Lets go of what the transaction is bound to. To be dropped when no lock is held: a connection
    /// may return to its pool.
    pub(crate) fn unpin(&self) -> Option<Home> {
        lock(&self.state).pin.take()
    }

    /// Makes a command of the session part of its transaction, if there is one. Concerns that it
    /// inherited give way to the transaction's; its own are refused.
    pub(crate) fn adapt(&self, command: &mut Command) -> Result<()> {
        let own = command.time_limit.is_some_and(|limit| limit.own);
        let ends = command.kind == Kind::EndTransaction;
        let deadline = match ends {
            true => self.transaction_deadline(),
            false => self.operation_deadline(own)?,
        };
        if let Some(deadline) = deadline {
            command.share_deadline(deadline);
        }
        let number = self.transaction(|it| it.is_active().then(|| it.number()));
        let Some(number) = number.filter(|_| !ends) else { return Ok(()) };
        command.scope = TransactionScope::Inside(number);
        let Explicit { read_concern, write_concern, criteria } = command.explicit;
        if read_concern {
            return Err(Error::invalid_argument(
                "Cannot set read concern after starting a transaction",
            ));
        }
        if write_concern {
            return Err(explicit_write_concern());
        }
        command.acknowledged = true;
        // What an application wrote itself is left as it is.
        if command.kind != Kind::Generic {
            command.body = without_concerns(&command.body);
        }
        if let Target::Read(own) | Target::WritingAggregate(own) = &mut command.target {
            if !criteria {
                let of_transaction = self.transaction(|it| it.settings().criteria.clone());
                *own = of_transaction.unwrap_or_default();
            }
            if !matches!(own, SelectionCriteria::ReadPreference(ReadPreference::Primary)) {
                let message = "read preference in a transaction must be primary".to_owned();
                return Err(Error::new(ErrorKind::Transaction { message }));
            }
        }
        Ok(())
    }

    /// The fields of a commit or an abort, as they are for this attempt.
    pub(crate) fn end_of_transaction(
        &self,
        command: &Command,
        part: Part,
    ) -> Result<RawDocumentBuf> {
        let fields = |transaction: &mut Transaction| {
            let settings = transaction.settings();
            let (mut write_concern, mut max_time) = match part {
                Part::Commit => (transaction.commit_write_concern(), settings.max_commit_time),
                _ => (settings.write_concern.clone(), None),
            };
            // Beside a deadline, no other limit counts.
            if command.deadline.is_some() {
                max_time = None;
                if let Some(concern) = &mut write_concern {
                    concern.w_timeout = None;
                }
            }
            let token = transaction.recovery_token();
            operation::transaction::fields(command, write_concern.as_ref(), max_time, token)
        };
        match &command.abandoned {
            Some(abandoned) => fields(&mut abandoned.transaction.clone()),
            None => self.transaction(fields),
        }
    }
}

fn without_concerns(body: &bson::RawDocument) -> RawDocumentBuf {
    let concerns = [cstr!("readConcern"), cstr!("writeConcern")];
    let mut fields = RawDocumentBuf::new();
    for (key, value) in body.iter().flatten().filter(|(key, _)| !concerns.contains(key)) {
        fields.append(key, value);
    }
    fields
}
