//! Wait queue of a pool.

use std::{sync::Arc, time::Instant};

use steadfast_core::pool::{WaitCancellation, WaiterId};
use tokio::{sync::oneshot, time::timeout_at};

use super::{CheckOutAnswer, PinnedBy, Pool, PooledConnection};
use crate::{
    deadline,
    error::{Error, ErrorKind, NetworkFailure, Result},
};

/// Position in the wait queue. Dropping it leaves the queue.
pub(super) struct Wait<'a> {
    pool: &'a Arc<Pool>,
    waiter: WaiterId,
    receiver: oneshot::Receiver<CheckOutAnswer>,
    finished: bool,
}

impl<'a> Wait<'a> {
    pub(super) fn new(
        pool: &'a Arc<Pool>,
        waiter: WaiterId,
        receiver: oneshot::Receiver<CheckOutAnswer>,
    ) -> Self {
        Self { pool, waiter, receiver, finished: false }
    }

    /// Waits for a connection.
    pub(super) async fn connection(mut self, until: Option<Instant>) -> Result<PooledConnection> {
        let until = match until {
            Some(until) => Some((until, "before the deadline of the call".to_owned())),
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
                            Err(_) => return Err(self.timeout_error(&limit)),
                        }
                    }
                }
            }
        };
        self.finished = true;
        match answer {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(self.pool.check_out_error(error)),
            Err(_) => Err(Error::new(ErrorKind::Shutdown)),
        }
    }

    fn timeout_error(&self, limit: &str) -> Error {
        let counts = self.pool.counts();
        let text = if self.pool.load_balanced {
            let cursors = self.pool.pinned.get(PinnedBy::Cursor);
            let transactions = self.pool.pinned.get(PinnedBy::Transaction);
            // Message given by the specification.
            format!(
                "Timeout waiting for connection from the connection pool. maxPoolSize: {}, \
                 connections in use by cursors: {cursors}, connections in use by transactions: \
                 {transactions}, connections in use by other operations: {} (none became available {limit})",
                self.pool.max_size,
                counts.in_use.saturating_sub(cursors + transactions),
            )
        } else {
            format!(
                "no connection became available {limit}: of {} connections {} are in use and {} are being \
                 established; increase maxPoolSize if operations often wait",
                counts.total, counts.in_use, counts.pending
            )
        };
        Error::network(NetworkFailure::WaitQueueTimeout, text).with_server(&self.pool.address)
    }

    fn leave(&mut self, why: WaitCancellation) {
        self.finished = true;
        self.pool.change(|state, effects| {
            state.pool.cancel(self.waiter, why, Instant::now(), effects);
            state.waiters.remove(&self.waiter);
        });
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.leave(WaitCancellation::Dropped);
        }
    }
}
