//! CRC-32C (Castagnoli), the checksum that an OP_MSG may end with.

/// The CRC-32C of `bytes`.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// The CRC-32C of two pieces as if they were one. A message that came compressed has its header in another place than
/// the rest, and its checksum covers both.
pub(crate) fn checksum_of_parts(first: &[u8], second: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(first), second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        // The check value of CRC-32C in the catalogue of CRC algorithms, and RFC 3720's 32 zero bytes.
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
        assert_eq!(checksum(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn parts_sum_to_the_whole() {
        for split in 0..=9 {
            let (first, second) = b"123456789".split_at(split);
            assert_eq!(checksum_of_parts(first, second), 0xe306_9283);
        }
    }
}
