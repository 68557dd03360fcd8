//! Random numbers that are the same in every run with the same seed.

/// A generator of the kind SplitMix64: a counter, well stirred.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// A stream of its own for each seed and purpose.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        let mut random = Self { state: seed ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03) };
        random.state = random.next_u64();
        random
    }

    /// Evenly from all of `u64`.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Evenly from 0 to 1, without 1 itself.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Evenly from 0 to `n - 1`.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        let product = u128::from(self.next_u64()) * u128::from(n);
        u32::try_from(product >> 64).unwrap_or_default()
    }

    /// The time until the next of events that come independently of each other, so many a second on
    /// average; in nanoseconds.
    pub(crate) fn until_next(&mut self, per_second: f64) -> f64 {
        -(1.0 - self.unit()).ln() / per_second * 1e9
    }
}
