//! Order of the operations of a transaction, also when a future is dropped.
//!
//! If the request of a dropped operation arrived after the abort that follows it, it would start
//! the transaction on the server again, and no client would end it. An operation of a transaction
//! therefore runs in a task with a limit, and the next command of the transaction waits for it.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::sync::{OwnedMutexGuard, oneshot};

use super::{execution::Execution, transaction::TransactionContext};
use crate::{
    command::{Command, CommandKind, Reply},
    deadline::Deadline,
    error::{Error, ErrorKind, Result},
    exec::Executor,
    session::{self, Session, TransactionScope},
};

/// For how long an operation goes on that nobody waits for, and is waited for by the next.
const FORGOTTEN_OPERATION_LIMIT: Duration = Duration::from_secs(3);

/// The session whose transaction the command is to wait its turn in.
pub(super) fn session_of(executor: &Executor, command: &Command) -> Option<Arc<Session>> {
    let session = command.session.as_ref().filter(|it| it.kind != session::Kind::Implicit)?;
    if command.scope == TransactionScope::Outside && command.kind != CommandKind::EndTransaction {
        executor.abort_unexecuted_end(session);
    }
    let takes_part = matches!(command.scope, TransactionScope::Inside(_))
        || command.kind == CommandKind::EndTransaction
        || session.is_aborting();
    takes_part.then(|| Arc::clone(session))
}

impl Executor {
    /// Carries out a command of a transaction when what went before it in the transaction is over.
    pub(super) async fn carry_out_in_turn(
        &self,
        session: Arc<Session>,
        operation_id: i64,
        mut command: Box<Command>,
    ) -> Result<Reply> {
        // Waiting takes of the command's own time. If that is over then, it finds so by itself.
        let left = command.start_clock().and_then(Deadline::remaining);
        let limit = left.unwrap_or(Duration::MAX).min(FORGOTTEN_OPERATION_LIMIT);
        let turn = async {
            // An abort ends what it would wait for.
            if command.kind != CommandKind::EndTransaction {
                session.background_abort(None).await;
            }
            session.turn().await
        };
        let turn = tokio::time::timeout(limit, turn).await.ok();
        // The end of a transaction may be asked for again, and is the same each time.
        if !matches!(command.scope, TransactionScope::Inside(_)) {
            return self.carry_out(operation_id, command).await;
        }
        // Decided before the hand-over: the session may be dropped before the task runs.
        let transaction = TransactionContext::of(&command)?;
        let (sender, answer) = oneshot::channel();
        self.spawn(operate(self.clone(), turn, operation_id, command, transaction, sender));
        answer.await.unwrap_or_else(|_| {
            let message = "the runtime of the client ended before the operation".to_owned();
            Err(Error::new(ErrorKind::Internal { message }))
        })
    }
}

async fn operate(
    executor: Executor,
    turn: Option<OwnedMutexGuard<()>>,
    operation_id: i64,
    command: Box<Command>,
    transaction: TransactionContext,
    mut sender: oneshot::Sender<Result<Reply>>,
) {
    let mut run = pin!(Execution::new(&executor, operation_id, command, None, transaction).run());
    let outcome = tokio::select! {
        outcome = &mut run => Some(outcome),
        () = sender.closed() => {
            let _ = tokio::time::timeout(FORGOTTEN_OPERATION_LIMIT, run).await;
            None
        }
    };
    drop(turn);
    if let Some(outcome) = outcome {
        let _ = sender.send(outcome);
    }
}
