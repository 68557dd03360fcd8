//! Random numbers from a seed: the same sequence each time.

/// SplitMix64 generator.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Creates a generator whose sequence depends on the seed alone.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns a random number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random number in `0.0..1.0`.
    pub fn fraction(&mut self) -> f64 {
        // A double represents integers of 53 bits exactly.
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a random number below `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound.max(1)
    }

    /// Returns a random byte.
    pub fn byte(&mut self) -> u8 {
        self.next_u64().to_be_bytes()[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_depends_on_the_seed_and_is_uniform() {
        let fractions = |seed| {
            let mut rng = Rng::new(seed);
            (0..10_000).map(|_| rng.fraction()).collect::<Vec<_>>()
        };
        assert_eq!(fractions(7), fractions(7));
        assert_ne!(fractions(7), fractions(8));
        let low = fractions(7).into_iter().filter(|it| *it < 0.1).count();
        assert!((900..1100).contains(&low), "{low} of 10,000 below a tenth");
    }
}
