//! Queue of future events that stays fast with a million of them.
//!
//! A calendar queue: one page for each quarter of a millisecond. Adding an event appends it to a page; only the
//! events of the current page are sorted.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use crate::{MILLISECOND, Nanos};

const PAGE: Nanos = MILLISECOND / 4;

/// Future events by their time.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    /// Events of the current page, the earliest first.
    current: BinaryHeap<Reverse<(Nanos, u32)>>,
    current_page: u64,
    /// Later pages, without gaps.
    later: VecDeque<Vec<(Nanos, u32)>>,
    /// Allocations of past pages, for reuse.
    unused: Vec<Vec<(Nanos, u32)>>,
    len: usize,
}

impl EventQueue {
    /// Adds an event. An event before the current page is due at once.
    pub(crate) fn push(&mut self, at: Nanos, event: u32) {
        self.len += 1;
        let page = at / PAGE;
        let Some(ahead) = page.checked_sub(self.current_page + 1) else {
            self.current.push(Reverse((at, event)));
            return;
        };
        let ahead = usize::try_from(ahead).expect("a simulation is not that long");
        while self.later.len() <= ahead {
            self.later.push_back(self.unused.pop().unwrap_or_default());
        }
        self.later[ahead].push((at, event));
    }

    /// Returns the time of the next event.
    pub(crate) fn next_time(&mut self) -> Option<Nanos> {
        while self.current.is_empty() {
            let mut page = self.later.pop_front()?;
            self.current_page += 1;
            self.current.extend(page.drain(..).map(Reverse));
            self.unused.push(page);
        }
        self.current.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes the next event and returns it with its time.
    pub(crate) fn pop(&mut self) -> Option<(Nanos, u32)> {
        self.next_time()?;
        let Reverse(next) = self.current.pop()?;
        self.len -= 1;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadfast_report::random::Rng;

    #[test]
    fn events_come_in_order_of_their_times() {
        let mut random = Rng::stream(1, 1);
        let mut queue = EventQueue::default();
        let mut expected = Vec::new();
        let mut now = 0;
        for round in 0..20_000_u32 {
            let at = now + random.next_u64() % (5 * PAGE + u64::from(round));
            queue.push(at, round);
            expected.push(Reverse((at, round)));
            if round % 3 == 0 {
                let next = expected.iter().max().copied().unwrap();
                expected.retain(|it| *it != next);
                assert_eq!(queue.pop(), Some(next.0));
                now = next.0.0;
            }
            if expected.len() > 40 {
                let next = expected.iter().max().copied().unwrap();
                expected.retain(|it| *it != next);
                assert_eq!(queue.next_time(), Some(next.0.0));
                assert_eq!(queue.pop(), Some(next.0));
                now = next.0.0;
            }
            assert_eq!(queue.len, expected.len());
        }
    }
}
