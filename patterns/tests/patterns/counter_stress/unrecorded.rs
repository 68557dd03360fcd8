//! Increments whose caller may end before it records them: counted at most once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Number of increments in one counter. Each is a digit in base four, so that the counter shows how often each
/// was counted.
const DIGITS: usize = 31;

/// All unrecorded increments.
#[derive(Debug, Default)]
pub(super) struct UnrecordedIncrements {
    begun: AtomicUsize,
    acknowledged: Mutex<BTreeSet<usize>>,
}

impl UnrecordedIncrements {
    /// Begins an increment. Returns its number, its counter and its amount.
    pub(super) fn begin(&self) -> (usize, String, i64) {
        let number = self.begun.fetch_add(1, Relaxed);
        (number, document(number / DIGITS), digit(number))
    }

    /// Records that an increment was acknowledged.
    pub(super) fn acknowledged(&self, number: usize) {
        self.acknowledged.lock().unwrap().insert(number);
    }

    /// Returns the differences, and the number of increments that were counted.
    pub(super) fn check(&self, found: &BTreeMap<String, i64>) -> (Vec<String>, usize) {
        let (mut wrong, mut counted) = (Vec::new(), 0);
        let acknowledged = self.acknowledged.lock().unwrap();
        for number in 0..self.begun.load(Relaxed) {
            let counter = found.get(&document(number / DIGITS)).copied().unwrap_or_default();
            match (counter / digit(number)) % 4 {
                0 if acknowledged.contains(&number) => {
                    wrong.push(format!("{number} was acknowledged and is not counted"));
                }
                0 => {}
                1 => counted += 1,
                times => wrong.push(format!("{number} was counted {times} times")),
            }
        }
        (wrong, counted)
    }
}

fn document(number: usize) -> String {
    format!("in count_unrecorded {number}")
}

fn digit(number: usize) -> i64 {
    1 << (2 * (number % DIGITS))
}
