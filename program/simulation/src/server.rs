//! The server: serves what it can, and turns the rest away.

use std::collections::VecDeque;

use crate::Nanos;

/// A server that serves in order and sheds first; the documentation of the crate says why.
///
/// Calls come in the order of their times. [`advance`](Self::advance) to a time comes before
/// [`accept`](Self::accept) at it.
#[derive(Debug)]
pub(crate) struct Server {
    now: Nanos,
    /// The work of serving an operation, and of turning one away.
    serving: Nanos,
    shedding: Nanos,
    most_waiting: usize,
    /// The work of turning away that is still to be done.
    owed: Nanos,
    /// How much work has gone, or could have gone, into serving.
    worked: Nanos,
    /// What waits or is served: when it is done, on the clock of `worked`.
    waiting: VecDeque<(Nanos, u32)>,
    last_done: Nanos,
}

/// What becomes of an operation that comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// It waits to be served.
    Waits,
    /// It is turned away; the answer goes out at this time.
    Shed(Nanos),
}

impl Server {
    /// A server that has nothing to do.
    pub(crate) fn new(serving: Nanos, shedding: Nanos, most_waiting: usize) -> Self {
        Self {
            now: 0,
            serving,
            shedding,
            most_waiting,
            owed: 0,
            worked: 0,
            waiting: VecDeque::new(),
            last_done: 0,
        }
    }

    /// Lets time pass; tells of each operation that was served, and when.
    pub(crate) fn advance(&mut self, to: Nanos, mut served: impl FnMut(u32, Nanos)) {
        let shed_for = self.owed.min(to - self.now);
        self.owed -= shed_for;
        let free_since = self.now + shed_for;
        let can_work = self.worked + (to - free_since);
        while let Some(&(done, operation)) = self.waiting.front()
            && done <= can_work
        {
            self.waiting.pop_front();
            served(operation, free_since + (done - self.worked));
        }
        self.worked = can_work;
        self.now = to;
    }

    /// Takes an operation in, or turns it away.
    pub(crate) fn accept(&mut self, operation: u32) -> Accepted {
        if self.waiting.len() >= self.most_waiting {
            self.owed += self.shedding;
            return Accepted::Shed(self.now + self.owed);
        }
        self.last_done = self.last_done.max(self.worked) + self.serving;
        self.waiting.push_back((self.last_done, operation));
        Accepted::Waits
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
    fn it_serves_one_after_the_other() {
        let mut server = Server::new(100, 10, 3);
        assert_eq!(served(&mut server, 1000), []);
        assert_eq!(server.accept(1), Accepted::Waits);
        assert_eq!(server.accept(2), Accepted::Waits);
        assert_eq!(served(&mut server, 1099), []);
        assert_eq!(served(&mut server, 1100), [(1, 1100)]);
        assert_eq!(server.accept(3), Accepted::Waits);
        assert_eq!(served(&mut server, 5000), [(2, 1200), (3, 1300)]);
    }

    #[test]
    fn what_is_too_much_is_turned_away_and_that_takes_time_from_the_others() {
        let mut server = Server::new(100, 10, 2);
        assert_eq!(server.accept(1), Accepted::Waits);
        assert_eq!(server.accept(2), Accepted::Waits);
        assert_eq!(server.accept(3), Accepted::Shed(10));
        assert_eq!(server.accept(4), Accepted::Shed(20));
        assert_eq!(served(&mut server, 119), []);
        assert_eq!(served(&mut server, 120), [(1, 120)]);
        assert_eq!(server.accept(5), Accepted::Waits);
        assert_eq!(server.accept(6), Accepted::Shed(130));
        assert_eq!(served(&mut server, 1000), [(2, 230), (5, 330)]);
    }
}
