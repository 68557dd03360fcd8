//! Background aborts of transactions that their sessions have left.

use std::{pin::pin, sync::Arc, time::Duration};

use steadfast_core::transaction::{Transaction, TransactionEnd};

use super::{Executor, transaction_end};
use crate::session::{ABORT_WAIT, Session};

/// Time-out of a background abort: the default of `transactionLifetimeLimitSeconds`, after which
/// the server aborts the transaction itself.
const TRANSACTION_LIFETIME: Duration = Duration::from_secs(60);

impl Executor {
    /// Aborts an active transaction in the background after its session, or the future that would
    /// have ended it, was dropped. If that fails, the server aborts it after its lifetime limit.
    pub(crate) fn abort_in_background(&self, session: &Arc<Session>, timeout: Option<Duration>) {
        self.abort_if(Transaction::abandon, session, timeout);
    }

    /// Aborts a transaction in the background if no server executed its commit or abort, before the
    /// session's state is overwritten.
    pub(crate) fn abort_unexecuted_end(&self, session: &Arc<Session>) {
        self.abort_if(Transaction::take_unexecuted_end, session, None);
    }

    fn abort_if(
        &self,
        end: impl FnOnce(&mut Transaction) -> TransactionEnd,
        session: &Arc<Session>,
        timeout: Option<Duration>,
    ) {
        let Some((abandoned, done)) = session.abandon(end) else { return };
        let mut abort = transaction_end::abort().limited(None, timeout);
        abort.session = Some(Arc::clone(session));
        abort.abandoned = Some(Box::new(abandoned));
        // After a shutdown nothing is sent. A later shutdown waits for the abort.
        let Some(active) = self.begin_owned_activity() else { return };
        let session = Arc::clone(session);
        self.spawn(async move {
            let _done = done;
            // The wait for the operation in progress is not part of the abort's time-out.
            drop(tokio::time::timeout(ABORT_WAIT, session.lock_operations()).await);
            let executor = active.executor().clone();
            let run = executor.execute(executor.begin_operation(), Box::new(abort));
            let mut run = pin!(tokio::time::timeout(TRANSACTION_LIFETIME, run));
            if tokio::time::timeout(ABORT_WAIT, &mut run).await.is_err() {
                drop(active);
                let _ = run.await;
            }
        });
    }
}
