//! Chances that come out the same each time: numbers from a seed, for rules with a probability.

/// SplitMix64: a handful of operations, and good enough to lose messages by.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A number from 0 to 1, 1 excluded.
    pub(crate) fn roll(&mut self) -> f64 {
        // 53 bits are what a double holds exactly.
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Any byte.
    pub(crate) fn byte(&mut self) -> u8 {
        self.number().to_be_bytes()[0]
    }

    /// Any number.
    pub(crate) fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_chances_each_time_and_fair_ones() {
        let rolls = |seed| {
            let mut dice = Dice::new(seed);
            (0..10_000).map(|_| dice.roll()).collect::<Vec<_>>()
        };
        assert_eq!(rolls(7), rolls(7));
        assert_ne!(rolls(7), rolls(8));
        let low = rolls(7).into_iter().filter(|roll| *roll < 0.1).count();
        assert!((900..1100).contains(&low), "{low} of 10,000 below a tenth");
    }
}
