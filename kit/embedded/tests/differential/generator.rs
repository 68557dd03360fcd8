//! Random operations, reproducible from a seed.

use testbed::Version;

/// Generator of random operations (SplitMix64).
pub(crate) struct Generator {
    state: u64,
    /// `true` allows the variable `v` in expressions. The command defines it.
    pub(crate) variables: bool,
    /// The version of the real server.
    version: Version,
}

impl Generator {
    pub(crate) fn new(seed: u64, version: Version) -> Self {
        Self { state: seed, variables: false, version }
    }

    /// Returns `true` if the real server is older than 8.2.
    pub(crate) fn is_before_8_2(&self) -> bool {
        self.version < Version::V8_2
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).expect("a small bound")).expect("small")
    }

    /// An int below `bound`.
    pub(crate) fn few(&mut self, bound: usize) -> i32 {
        i32::try_from(self.below(bound)).expect("small")
    }

    /// A small number around 0.
    pub(crate) fn small(&mut self) -> i32 {
        self.few(9) - 2
    }

    /// `true` with probability 1/`times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}
