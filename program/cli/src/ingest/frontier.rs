//! Position up to which all batches are done, when they end in any order.

use std::collections::BTreeMap;

/// Numbered items that are done, from zero on.
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
    /// Marks an item as done. Returns, in order, the items that have no open item before them any more.
    pub(super) fn done(&mut self, number: u64, item: T) -> Vec<T> {
        self.waiting.insert(number, item);
        let mut reached = Vec::new();
        while let Some(item) = self.waiting.remove(&self.next) {
            reached.push(item);
            self.next += 1;
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_returned_in_order() {
        let mut frontier = Frontier::default();
        assert!(frontier.done(1, 'b').is_empty());
        assert!(frontier.done(3, 'd').is_empty());
        assert_eq!(frontier.done(0, 'a'), ['a', 'b']);
        assert_eq!(frontier.done(2, 'c'), ['c', 'd']);
        assert_eq!(frontier.done(4, 'e'), ['e']);
    }
}
