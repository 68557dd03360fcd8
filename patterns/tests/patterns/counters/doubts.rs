//! Increments that nobody wrote down before their caller ended: they may be counted or not, and never twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Each is a digit of a counter in base four, so that it can be told of each how often it was counted.
const DIGITS: usize = 31;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    begun: AtomicUsize,
    acknowledged: Mutex<BTreeSet<usize>>,
}

impl Doubts {
    /// A new one, with the counter and the amount that are its own.
    pub(super) fn begin(&self) -> (usize, String, i64) {
        let number = self.begun.fetch_add(1, Relaxed);
        (number, document(number / DIGITS), digit(number))
    }

    /// It was acknowledged after all.
    pub(super) fn acknowledged(&self, number: usize) {
        self.acknowledged.lock().unwrap().insert(number);
    }

    /// What is wrong with these counters; and how many were counted.
    pub(super) fn judge(&self, found: &BTreeMap<String, i64>) -> (Vec<String>, usize) {
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
    format!("in doubt {number}")
}

fn digit(number: usize) -> i64 {
    1 << (2 * (number % DIGITS))
}
