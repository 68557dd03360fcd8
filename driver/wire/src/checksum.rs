//! CRC-32C (Castagnoli), the optional checksum at the end of an OP_MSG.

/// Returns the CRC-32C of `bytes`.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Returns the CRC-32C of two slices as if they were one. The header of a decompressed message is
/// not adjacent to its payload, and the checksum covers both.
pub(crate) fn checksum_of_parts(first: &[u8], second: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(first), second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_crc32c() {
        // Check value of CRC-32C in the catalogue of CRC algorithms, and 32 zero bytes from RFC
        // 3720.
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
        assert_eq!(checksum(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn checksum_of_parts_equals_checksum_of_the_whole() {
        for split in 0..=9 {
            let (first, second) = b"123456789".split_at(split);
            assert_eq!(checksum_of_parts(first, second), 0xe306_9283);
        }
    }
}
