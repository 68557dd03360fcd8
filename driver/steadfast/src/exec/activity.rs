//! Counter of operations in progress, for the shutdown of a client.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::Executor;

/// Highest bit: the client is shutting down, and nothing begins any more.
const CLOSING: usize = 1 << (usize::BITS - 1);

/// Counter of operations in progress. A single number, so that no operation begins unnoticed during
/// a shutdown.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    state: AtomicUsize,
    ended: Notify,
}

impl Activity {
    /// Counts an operation. `None` if the client is shutting down.
    pub(super) fn begin(&self) -> Option<OperationGuard<'_>> {
        let active = OperationGuard(self);
        let before = self.state.fetch_add(1, Ordering::AcqRel);
        // Dropping `active` decrements the counter.
        (before & CLOSING == 0).then_some(active)
    }

    /// Rejects new operations.
    pub(crate) fn close(&self) {
        self.state.fetch_or(CLOSING, Ordering::AcqRel);
    }

    /// Waits until no operation is in progress.
    pub(crate) async fn wait_until_idle(&self) {
        loop {
            let ended = self.ended.notified();
            if self.state.load(Ordering::Acquire) & !CLOSING == 0 {
                return;
            }
            ended.await;
        }
    }
}

/// Operation in progress.
#[derive(Debug)]
pub(crate) struct OperationGuard<'a>(&'a Activity);

impl Drop for OperationGuard<'_> {
    fn drop(&mut self) {
        let before = self.0.state.fetch_sub(1, Ordering::AcqRel);
        if before & CLOSING != 0 {
            self.0.ended.notify_waiters();
        }
    }
}

/// Operation in progress in a task, which owns its executor.
#[derive(Debug)]
pub(crate) struct OwnedOperationGuard(Executor);

impl OwnedOperationGuard {
    /// Counts an operation. `None` if the client is shutting down.
    pub(super) fn begin(executor: &Executor) -> Option<Self> {
        // Decremented by the `drop` below.
        std::mem::forget(executor.inner.activity.begin()?);
        Some(Self(executor.clone()))
    }

    /// Returns the executor, whose shutdown waits for this operation.
    pub(crate) fn executor(&self) -> &Executor {
        &self.0
    }
}

impl Drop for OwnedOperationGuard {
    fn drop(&mut self) {
        drop(OperationGuard(&self.0.inner.activity));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn shutdown_rejects_new_operations_and_waits_for_pending_ones() {
        let activity = Activity::default();
        let first = activity.begin().unwrap();
        activity.close();
        assert!(activity.begin().is_none());
        let idle = activity.wait_until_idle();
        tokio::pin!(idle);
        tokio::select! {
            biased;
            () = &mut idle => panic!("the first operation is still in progress"),
            () = tokio::task::yield_now() => {}
        }
        drop(first);
        idle.await;
    }
}
