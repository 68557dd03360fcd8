//! Wait queue of a pool.

use std::{sync::Arc, time::Instant};

use steadfast_core::pool::{WaitCancellation, WaiterId};
use tokio::{sync::oneshot, time::timeout_at};

use super::{Answer, PinnedBy, Pool, PooledConnection};
use crate::{
    deadline,
    error::{Error, ErrorKind, NetworkFailure, Result},
};

/// Position in the wait queue. Dropping it leaves the queue.
pub(super) struct Wait<'a> {
    pool: &'a Arc<Pool>,
    waiter: WaiterId,
    receiver: oneshot::Receiver<Answer>,
    over: bool,
}

impl<'a> Wait<'a> {
    pub(super) fn new(
        pool: &'a Arc<Pool>,
        waiter: WaiterId,
        receiver: oneshot::Receiver<Answer>,
    ) -> Self {
        Self { pool, waiter, receiver, over: false }
    }

    /// Waits for a connection.
    pub(super) async fn answer(mut self, until: Option<Instant>) -> Result<PooledConnection> {
        let until = match until {
            Some(until) => Some((until, "in the time that was left".to_owned())),
            None => self.pool.wait_queue_timeout.and_then(|limit| {
                let name = format!("within waitQueueTimeoutMS ({limit:?})");
                Some((deadline::now().checked_add(limit)?, name))
            }),
        };
        let answer = match until {
            None => (&mut self.receiver).await,
            Some((until, limit)) => {
                match Box::pin(timeout_at(until.into(), &mut self.receiver)).await {
                    Ok(answer) => answer,
                    Err(_elapsed) => {
                        self.leave(WaitCancellation::TimedOut);
                        // The connection may have arrived after the time-out.
                        match self.receiver.try_recv() {
                            Ok(answer) => Ok(answer),
                            Err(_) => return Err(self.too_late(&limit)),
                        }
                    }
                }
            }
        };
        self.over = true;
        match answer {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(self.pool.explain(error)),
            Err(_) => Err(Error::new(ErrorKind::Shutdown)),
        }
    }

    fn too_late(&self, limit: &str) -> Error {
        let counts = self.pool.counts();
        let text = if self.pool.load_balanced {
            let cursors = self.pool.pinned.get(PinnedBy::Cursor);
            let transactions = self.pool.pinned.get(PinnedBy::Transaction);
            // Message given by the specification.
            format!(
                "Timeout waiting for connection from the connection pool. maxPoolSize: {}, \
                 connections in use by cursors: {cursors}, connections in use by transactions: \
                 {transactions}, connections in use by other operations: {} (none came free {limit})",
                self.pool.max_size,
                counts.in_use.saturating_sub(cursors + transactions),
            )
        } else {
            format!(
                "no connection came free {limit}: of {} connections {} are in use and {} being \
                 opened",
                counts.total, counts.in_use, counts.pending
            )
        };
        Error::network(NetworkFailure::WaitQueueTimeout, text).with_server(&self.pool.address)
    }

    fn leave(&mut self, why: WaitCancellation) {
        self.over = true;
        self.pool.change(|state, effects| {
            state.pool.cancel(self.waiter, why, Instant::now(), effects);
            state.waiters.remove(&self.waiter);
        });
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.leave(WaitCancellation::Dropped);
        }
    }
}
