//! Random numbers for server selection and jitter. They need not be secret.

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
};

/// Returns a uniformly distributed number.
pub(crate) fn random_u64() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0));
    }
    // SplitMix64.
    STATE.with(|state| {
        let counter = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.set(counter);
        let mixed = (counter ^ (counter >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

/// Returns a number of at least 0 and less than 1.
pub(crate) fn random_unit() -> f64 {
    // A double has 53 exact bits.
    (random_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns a number from 0 to `n - 1`; 0 if `n` is 0.
#[cfg(feature = "dns")]
pub(crate) fn random_below(n: usize) -> usize {
    let n = u64::try_from(n).unwrap_or(u64::MAX).max(1);
    usize::try_from(random_u64() % n).unwrap_or_default()
}
