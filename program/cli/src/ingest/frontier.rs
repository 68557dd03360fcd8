//! Up to where everything is done, when batches are done in any order.

use std::collections::BTreeMap;

/// What is done, by number, from zero on.
#[derive(Debug)]
pub(super) struct Frontier<T> {
    next: u64,
    waiting: BTreeMap<u64, T>,
}

impl<T> Default for Frontier<T> {
    fn default() -> Self {
        Self { next: 0, waiting: BTreeMap::new() }
    }
}

impl<T> Frontier<T> {
    /// Takes down that this is done; gives, in order, what now has nothing undone before it.
    pub(super) fn done(&mut self, number: u64, what: T) -> Vec<T> {
        self.waiting.insert(number, what);
        let mut reached = Vec::new();
        while let Some(what) = self.waiting.remove(&self.next) {
            reached.push(what);
            self.next += 1;
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_something_undone_before_it_has_to_wait() {
        let mut frontier = Frontier::default();
        assert!(frontier.done(1, 'b').is_empty());
        assert!(frontier.done(3, 'd').is_empty());
        assert_eq!(frontier.done(0, 'a'), ['a', 'b']);
        assert_eq!(frontier.done(2, 'c'), ['c', 'd']);
        assert_eq!(frontier.done(4, 'e'), ['e']);
    }
}
