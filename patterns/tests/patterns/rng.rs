//! Seeded random number generator, so that a failed run can be repeated.

use std::{env, time::Duration};

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    /// Creates it with `STEADFAST_SEED`, or else `default`. Returns the seed as well.
    pub(crate) fn seeded(default: u64) -> (Self, u64) {
        let seed =
            env::var("STEADFAST_SEED").map_or(default, |seed| seed.parse().expect("a number"));
        (Self(seed), seed)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// Returns `true` with a probability of one in `many`.
    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }

    /// Returns the elements in random order.
    pub(crate) fn shuffled<T>(&mut self, mut all: Vec<T>) -> Vec<T> {
        for last in (1..all.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).unwrap();
            all.swap(last, other);
        }
        all
    }

    /// Returns an independent generator, whose numbers do not depend on the order of other uses.
    pub(crate) fn child(&mut self) -> Self {
        Self(self.next_u64())
    }
}
