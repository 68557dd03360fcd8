//! Search for the NUL at the end of a key.

const ONES: u64 = u64::from_le_bytes([0x01; 8]);
const TOPS: u64 = u64::from_le_bytes([0x80; 8]);

/// Returns the position of the first NUL. Examines eight bytes at a time, because messages have
/// many short keys.
#[inline]
pub(crate) fn find_nul(bytes: &[u8]) -> Option<usize> {
    match bytes.first_chunk().and_then(first_nul) {
        Some(place) => Some(place),
        None => find_nul_after_eight(bytes),
    }
}

/// Continues the search where the first eight bytes have no NUL, or there are fewer than eight.
fn find_nul_after_eight(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        if let Some(place) = first_nul(chunk) {
            return Some(at + place);
        }
        at += 8;
    }
    let rest = bytes.get(at..)?;
    rest.iter().position(|byte| *byte == 0).map(|place| at + place)
}

#[inline]
fn first_nul(chunk: &[u8; 8]) -> Option<usize> {
    let word = u64::from_le_bytes(*chunk);
    // The lowest set bit belongs to the first zero byte; higher bits can be wrong.
    let zeros = word.wrapping_sub(ONES) & !word & TOPS;
    (zeros != 0).then(|| (zeros.trailing_zeros() / 8) as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn first_nul_is_found(bytes in proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..40)) {
            prop_assert_eq!(find_nul(&bytes), bytes.iter().position(|byte| *byte == 0));
        }

        #[test]
        fn nul_after_a_long_key_is_found(length in 0_usize..40, key in 1_u8..) {
            let mut bytes = vec![key; length];
            prop_assert_eq!(find_nul(&bytes), None);
            bytes.extend([0, 1, 0]);
            prop_assert_eq!(find_nul(&bytes), Some(length));
        }
    }
}
