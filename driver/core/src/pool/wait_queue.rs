//! Operations waiting for a connection, first come, first served.

use std::{collections::BTreeMap, time::Instant};

/// Names an operation that waits for a connection. Never used twice in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterId(u64);

/// Joining, leaving and being served each take logarithmic time, so that ten thousand operations
/// that gave up cost nothing to those behind them.
#[derive(Debug, Default)]
pub(super) struct WaitQueue {
    last: u64,
    line: BTreeMap<WaiterId, Instant>,
    /// Those about to be told that their connection could not be established. They are out of
    /// line: a clearing of the pool no longer concerns them.
    called_aside: BTreeMap<WaiterId, Instant>,
}

impl WaitQueue {
    pub(super) fn join(&mut self, now: Instant) -> WaiterId {
        self.last += 1;
        let waiter = WaiterId(self.last);
        self.line.insert(waiter, now);
        waiter
    }

    /// The first in line, and since when it waited.
    pub(super) fn next(&mut self) -> Option<(WaiterId, Instant)> {
        self.line.pop_first()
    }

    /// Takes the first in line aside.
    pub(super) fn call_aside(&mut self) -> Option<WaiterId> {
        let (waiter, since) = self.line.pop_first()?;
        self.called_aside.insert(waiter, since);
        Some(waiter)
    }

    /// A waiter that was called aside is dealt with; since when it waited, if it is still there.
    pub(super) fn dismiss(&mut self, waiter: WaiterId) -> Option<Instant> {
        self.called_aside.remove(&waiter)
    }

    /// Those called aside go back in line: nobody will come for them.
    pub(super) fn recall_aside(&mut self) {
        self.line.append(&mut self.called_aside);
    }

    /// A waiter goes; since when it waited, if it was here.
    pub(super) fn leave(&mut self, waiter: WaiterId) -> Option<Instant> {
        self.line.remove(&waiter).or_else(|| self.called_aside.remove(&waiter))
    }

    /// How many stand in line.
    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    /// How many have had no answer yet.
    pub(super) fn waiting(&self) -> usize {
        self.line.len() + self.called_aside.len()
    }
}
