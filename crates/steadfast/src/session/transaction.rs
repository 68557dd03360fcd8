//! The transaction that a session is in: what it makes of the commands, and where it is bound to.

use std::sync::Arc;

use bson::{RawDocumentBuf, raw::cstr};
use steadfast_core::{
    read_preference::ReadPreference,
    selection::SelectionCriteria,
    transaction::{Misuse, Part, Settings, State as TransactionState, Transaction},
};

use tokio::sync::OwnedMutexGuard;

use super::{Session, lock};
use crate::{
    command::{Belongs, Command, Explicit, Kind, Target},
    cursor::Home,
    deadline::Deadline,
    error::{Error, ErrorKind, Result},
    operation,
};

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

    /// An operation begins that is neither a commit nor an abort.
    pub(crate) fn begin_operation(&self, belongs: Belongs) -> Part {
        let part = self.transaction(|transaction| match belongs {
            Belongs::Nowhere => None,
            Belongs::Present => Some(transaction.begin_operation()),
            Belongs::Cursor(made_in) if transaction.is_active() => {
                (made_in == Some(transaction.number())).then_some(Part::Later)
            }
            Belongs::Cursor(_) => Some(transaction.begin_operation()),
        });
        // What is beside a transaction leaves it as it is.
        let Some(part) = part else { return Part::Outside };
        if part == Part::Outside {
            drop(self.unpin());
        }
        part
    }

    /// The session is let go of: whether there is a transaction to be aborted.
    pub(super) fn abandon_transaction(&self) -> bool {
        let mut state = lock(&self.state);
        let open = state.transaction.state() == TransactionState::InProgress;
        open && state.transaction.abort().is_ok()
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
        if ends || command.belongs != Belongs::Present || !self.is_in_transaction() {
            return Ok(());
        }
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
        self.transaction(|transaction| {
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
        })
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
