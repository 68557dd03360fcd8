//! Chances that come from a seed: the same seed, the same chances.

use std::time::Duration;

/// SplitMix64, from this state on.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one; 0 if there is none.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound.max(1)
    }

    /// A place in a list that is so long.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or_default()
    }

    /// A time between these two, to the millisecond.
    pub(crate) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let span = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(u64::MAX);
        least + Duration::from_millis(self.below(span.saturating_add(1)))
    }
}
