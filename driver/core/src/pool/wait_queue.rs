//! Wait queue of check-outs, first come, first served.

use std::{collections::BTreeMap, time::Instant};

/// Id of a waiting operation. Never reused within a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterId(u64);

/// Queue with logarithmic insertion and removal, so that ten thousand cancelled waiters do not
/// delay the others.
#[derive(Debug, Default)]
pub(super) struct WaitQueue {
    last: u64,
    line: BTreeMap<WaiterId, Instant>,
    /// Waiters that get the error of a failed connection. A clearing of the pool no longer affects
    /// them.
    reserved: BTreeMap<WaiterId, Instant>,
}

impl WaitQueue {
    pub(super) fn join(&mut self, now: Instant) -> WaiterId {
        self.last += 1;
        let waiter = WaiterId(self.last);
        self.line.insert(waiter, now);
        waiter
    }

    /// Removes the first waiter. Returns its id and the start of its wait.
    pub(super) fn next(&mut self) -> Option<(WaiterId, Instant)> {
        self.line.pop_first()
    }

    /// Reserves the first waiter for an error.
    pub(super) fn reserve_first(&mut self) -> Option<WaiterId> {
        let (waiter, since) = self.line.pop_first()?;
        self.reserved.insert(waiter, since);
        Some(waiter)
    }

    /// Removes a reserved waiter. Returns the start of its wait, or `None` if it has left.
    pub(super) fn take_reserved(&mut self, waiter: WaiterId) -> Option<Instant> {
        self.reserved.remove(&waiter)
    }

    /// Returns the reserved waiters to the queue.
    pub(super) fn release_reserved(&mut self) {
        self.line.append(&mut self.reserved);
    }

    /// Removes a waiter. Returns the start of its wait, or `None` if it was served.
    pub(super) fn leave(&mut self, waiter: WaiterId) -> Option<Instant> {
        self.line.remove(&waiter).or_else(|| self.reserved.remove(&waiter))
    }

    /// Returns the number of waiters in the queue.
    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    /// Returns the number of waiters without a result, the reserved ones included.
    pub(super) fn waiting(&self) -> usize {
        self.line.len() + self.reserved.len()
    }
}
