//! What is to happen when: a queue of events that stays fast with a million of them.
//!
//! A calendar: a page for each quarter of a millisecond. Putting something down is appending to a page; only the
//! page of the present is kept in order.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use crate::{MILLISECOND, Nanos};

const PAGE: Nanos = MILLISECOND / 4;

/// What is to happen, by the time at which it is to.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// What happens on the present page, the earliest first.
    present: BinaryHeap<Reverse<(Nanos, u32)>>,
    present_page: u64,
    /// The pages after it.
    later: VecDeque<Vec<(Nanos, u32)>>,
    /// Pages that were used up, to be written on again.
    blank: Vec<Vec<(Nanos, u32)>>,
    len: usize,
}

impl Agenda {
    /// Puts something down. What lies before the present page happens at once.
    pub(crate) fn put(&mut self, at: Nanos, what: u32) {
        self.len += 1;
        let page = at / PAGE;
        let Some(ahead) = page.checked_sub(self.present_page + 1) else {
            self.present.push(Reverse((at, what)));
            return;
        };
        let ahead = usize::try_from(ahead).expect("a simulation is not that long");
        while self.later.len() <= ahead {
            self.later.push_back(self.blank.pop().unwrap_or_default());
        }
        self.later[ahead].push((at, what));
    }

    /// When the next thing happens.
    pub(crate) fn next_time(&mut self) -> Option<Nanos> {
        while self.present.is_empty() {
            let mut page = self.later.pop_front()?;
            self.present_page += 1;
            self.present.extend(page.drain(..).map(Reverse));
            self.blank.push(page);
        }
        self.present.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the next thing out.
    pub(crate) fn take(&mut self) -> Option<(Nanos, u32)> {
        self.next_time()?;
        let Reverse(next) = self.present.pop()?;
        self.len -= 1;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadfast_report::random::Rng;

    #[test]
    fn things_happen_in_the_order_of_their_times() {
        let mut random = Rng::stream(1, 1);
        let mut agenda = Agenda::default();
        let mut expected = Vec::new();
        let mut now = 0;
        for round in 0..20_000_u32 {
            let at = now + random.next_u64() % (5 * PAGE + u64::from(round));
            agenda.put(at, round);
            expected.push(Reverse((at, round)));
            if round % 3 == 0 {
                let next = expected.iter().max().copied().unwrap();
                expected.retain(|it| *it != next);
                assert_eq!(agenda.take(), Some(next.0));
                now = next.0.0;
            }
            if expected.len() > 40 {
                let next = expected.iter().max().copied().unwrap();
                expected.retain(|it| *it != next);
                assert_eq!(agenda.next_time(), Some(next.0.0));
                assert_eq!(agenda.take(), Some(next.0));
                now = next.0.0;
            }
            assert_eq!(agenda.len, expected.len());
        }
    }
}
