//! Pseudo-random numbers: the same seed gives the same sequence.

use std::time::Duration;

/// SplitMix64 generator with this state.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// Increment of the state from one number to the next.
    pub const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

    /// Returns a generator with a separate sequence for each seed and stream.
    pub fn stream(seed: u64, stream: u64) -> Self {
        Self(Self(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03)).next_u64())
    }

    /// Returns a number evenly distributed over all of `u64`.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::INCREMENT);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound.max(1)
    }

    /// Returns an index into a list of `length` elements.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or_default()
    }

    /// Returns a duration from `least` to `most`, in whole milliseconds from `least`.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let span = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(u64::MAX);
        least + Duration::from_millis(self.below(span.saturating_add(1)))
    }

    /// Returns a number from 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number of the exponential distribution with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_matches_the_reference_of_splitmix64() {
        // The first numbers of seed 0 in the reference implementation.
        let mut rng = Rng(0);
        assert_eq!(
            [rng.next_u64(), rng.next_u64()],
            [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]
        );
    }

    #[test]
    fn exponential_numbers_have_the_mean_and_variance_of_a_poisson_process() {
        let mut rng = Rng(1);
        let intervals: Vec<f64> = (0..100_000).map(|_| rng.exponential()).collect();
        let mean = intervals.iter().sum::<f64>() / 1e5;
        let variance = intervals.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 0.02 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }
}
