//! Numbers that need to be spread, not secret: which of two servers to take, how long to wait.

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
};

/// A number drawn evenly from all of `u64`.
pub(crate) fn random_u64() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0));
    }
    // SplitMix64: a counter, well stirred.
    STATE.with(|state| {
        let counter = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.set(counter);
        let mixed = (counter ^ (counter >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

/// A number from 0 to 1, and not 1 itself.
pub(crate) fn random_unit() -> f64 {
    // As many bits as a double holds exactly.
    (random_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number from 0 to `n - 1`; 0 if `n` is 0.
#[cfg(feature = "dns")]
pub(crate) fn random_below(n: usize) -> usize {
    let n = u64::try_from(n).unwrap_or(u64::MAX).max(1);
    usize::try_from(random_u64() % n).unwrap_or_default()
}
