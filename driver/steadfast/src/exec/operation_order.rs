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

/// Time-out of an operation whose future was dropped, for which the next operation waits.
const DROPPED_OPERATION_TIMEOUT: Duration = Duration::from_secs(3);

/// Returns the session if the command must wait for the operation before it in the transaction.
pub(super) fn ordered_session(executor: &Executor, command: &Command) -> Option<Arc<Session>> {
    let session =
        command.session.as_ref().filter(|it| it.kind != session::SessionKind::Implicit)?;
    if command.scope == TransactionScope::Outside && command.kind != CommandKind::EndTransaction {
        executor.abort_unexecuted_end(session);
    }
    let takes_part = matches!(command.scope, TransactionScope::Inside(_))
        || command.kind == CommandKind::EndTransaction
        || session.is_aborting();
    takes_part.then(|| Arc::clone(session))
}

impl Executor {
    /// Executes a command of a transaction after the operation before it has ended.
    pub(super) async fn execute_in_order(
        &self,
        session: Arc<Session>,
        operation_id: i64,
        mut command: Box<Command>,
    ) -> Result<Reply> {
        // The wait is part of the command's time-out. After it, the attempt detects a passed
        // deadline.
        let left = command.start_clock().and_then(Deadline::remaining);
        let limit = left.unwrap_or(Duration::MAX).min(DROPPED_OPERATION_TIMEOUT);
        let turn = async {
            // An abort does not wait for another abort.
            if command.kind != CommandKind::EndTransaction {
                session.background_abort(None).await;
            }
            session.lock_operations().await
        };
        let turn = tokio::time::timeout(limit, turn).await.ok();
        // The end of a transaction can be repeated and needs no task.
        if !matches!(command.scope, TransactionScope::Inside(_)) {
            return self.execute(operation_id, command).await;
        }
        // Determined before the task is spawned: the session may be dropped before it runs.
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
            let _ = tokio::time::timeout(DROPPED_OPERATION_TIMEOUT, run).await;
            None
        }
    };
    drop(turn);
    if let Some(outcome) = outcome {
        let _ = sender.send(outcome);
    }
}
