//! Counting what a client has under way, so that a shutdown can wait for it.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::Executor;

/// The top bit: no more is begun.
const CLOSING: usize = 1 << (usize::BITS - 1);

/// Counter of operations in progress. It is one number, so that the start of an operation and
/// shutdown cannot miss each other.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    state: AtomicUsize,
    ended: Notify,
}

impl Activity {
    /// Counts something that begins; none if the client is shutting down.
    pub(super) fn begin(&self) -> Option<Active<'_>> {
        let active = Active(self);
        let before = self.state.fetch_add(1, Ordering::AcqRel);
        // Dropping `active` takes the count back.
        (before & CLOSING == 0).then_some(active)
    }

    /// Lets nothing begin any more.
    pub(crate) fn close(&self) {
        self.state.fetch_or(CLOSING, Ordering::AcqRel);
    }

    /// Waits until nothing is under way.
    pub(crate) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            if self.state.load(Ordering::Acquire) & !CLOSING == 0 {
                return;
            }
            ended.await;
        }
    }
}

/// Something under way.
#[derive(Debug)]
pub(crate) struct Active<'a>(&'a Activity);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        let before = self.0.state.fetch_sub(1, Ordering::AcqRel);
        if before & CLOSING != 0 {
            self.0.ended.notify_waiters();
        }
    }
}

/// Something under way in a task, which keeps its executor.
#[derive(Debug)]
pub(crate) struct OwnedActive(Executor);

impl OwnedActive {
    /// Counts something that begins; none if the client is shutting down.
    pub(super) fn begin(executor: &Executor) -> Option<Self> {
        // Counted until the drop below.
        std::mem::forget(executor.inner.activity.begin()?);
        Some(Self(executor.clone()))
    }

    /// The executor, whose shutdown waits for this.
    pub(crate) fn executor(&self) -> &Executor {
        &self.0
    }
}

impl Drop for OwnedActive {
    fn drop(&mut self) {
        drop(Active(&self.0.inner.activity));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_begins_once_closed_and_idle_waits_for_the_rest() {
        let activity = Activity::default();
        let first = activity.begin().unwrap();
        activity.close();
        assert!(activity.begin().is_none());
        let idle = activity.idle();
        tokio::pin!(idle);
        tokio::select! {
            biased;
            () = &mut idle => panic!("the first is still under way"),
            () = tokio::task::yield_now() => {}
        }
        drop(first);
        idle.await;
    }
}
