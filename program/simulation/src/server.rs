//! Server of limited capacity with a bounded queue.

use std::collections::VecDeque;

use crate::Nanos;

/// A server that serves in order of arrival and rejects operations if its queue is full. The documentation of
/// the crate describes the model.
///
/// Calls have ascending times. [`advance`](Self::advance) to a time comes before [`accept`](Self::accept) at it.
#[derive(Debug)]
pub(crate) struct Server {
    now: Nanos,
    /// Work of serving an operation.
    serving: Nanos,
    /// Work of rejecting an operation.
    shedding: Nanos,
    queue_capacity: usize,
    /// Work of rejections that is not done yet.
    pending_shedding: Nanos,
    /// Time spent serving or idle, which is the clock of the queue.
    worked: Nanos,
    /// Queued operations, each with the value of `worked` at which it is done.
    queue: VecDeque<(Nanos, u32)>,
    last_done: Nanos,
}

/// Decision of the server about an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The operation is in the queue.
    Queued,
    /// The operation is rejected; the reply is sent at this time.
    Rejected(Nanos),
}

impl Server {
    /// Returns an idle server.
    pub(crate) fn new(serving: Nanos, shedding: Nanos, queue_capacity: usize) -> Self {
        Self {
            now: 0,
            serving,
            shedding,
            queue_capacity,
            pending_shedding: 0,
            worked: 0,
            queue: VecDeque::new(),
            last_done: 0,
        }
    }

    /// Advances the time. Calls `served` with each operation that was served, and the time of its reply.
    pub(crate) fn advance(&mut self, to: Nanos, mut served: impl FnMut(u32, Nanos)) {
        let shed_for = self.pending_shedding.min(to - self.now);
        self.pending_shedding -= shed_for;
        let free_since = self.now + shed_for;
        let can_work = self.worked + (to - free_since);
        while let Some(&(done, operation)) = self.queue.front()
            && done <= can_work
        {
            self.queue.pop_front();
            served(operation, free_since + (done - self.worked));
        }
        self.worked = can_work;
        self.now = to;
    }

    /// Queues an operation or rejects it.
    pub(crate) fn accept(&mut self, operation: u32) -> Admission {
        if self.queue.len() >= self.queue_capacity {
            self.pending_shedding += self.shedding;
            return Admission::Rejected(self.now + self.pending_shedding);
        }
        self.last_done = self.last_done.max(self.worked) + self.serving;
        self.queue.push_back((self.last_done, operation));
        Admission::Queued
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(server: &mut Server, to: Nanos) -> Vec<(u32, Nanos)> {
        let mut all = Vec::new();
        server.advance(to, |operation, at| all.push((operation, at)));
        all
    }

    #[test]
    fn operations_are_served_one_after_the_other() {
        let mut server = Server::new(100, 10, 3);
        assert_eq!(served(&mut server, 1000), []);
        assert_eq!(server.accept(1), Admission::Queued);
        assert_eq!(server.accept(2), Admission::Queued);
        assert_eq!(served(&mut server, 1099), []);
        assert_eq!(served(&mut server, 1100), [(1, 1100)]);
        assert_eq!(server.accept(3), Admission::Queued);
        assert_eq!(served(&mut server, 5000), [(2, 1200), (3, 1300)]);
    }

    #[test]
    fn rejections_delay_the_operations_in_the_queue() {
        let mut server = Server::new(100, 10, 2);
        assert_eq!(server.accept(1), Admission::Queued);
        assert_eq!(server.accept(2), Admission::Queued);
        assert_eq!(server.accept(3), Admission::Rejected(10));
        assert_eq!(server.accept(4), Admission::Rejected(20));
        assert_eq!(served(&mut server, 119), []);
        assert_eq!(served(&mut server, 120), [(1, 120)]);
        assert_eq!(server.accept(5), Admission::Queued);
        assert_eq!(server.accept(6), Admission::Rejected(130));
        assert_eq!(served(&mut server, 1000), [(2, 230), (5, 330)]);
    }
}
