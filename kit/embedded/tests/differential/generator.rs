//! Random operations, reproducible from a seed.

use blackpipe_base::rng::Rng;
use testbed::Version;

/// Generator of random operations.
pub(crate) struct Generator {
    rng: Rng,
    /// `true` allows the variable `v` in expressions. The command defines it.
    pub(crate) variables: bool,
    /// The version of the real server.
    version: Version,
}

impl Generator {
    pub(crate) fn new(seed: u64, version: Version) -> Self {
        Self { rng: Rng::new(seed), variables: false, version }
    }

    /// Returns `true` if the real server is older than 8.2.
    pub(crate) fn is_before_8_2(&self) -> bool {
        self.version < Version::V8_2
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.rng.next_u64()
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
