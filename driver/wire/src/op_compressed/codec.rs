//! The compressors: one module per crate feature.
//!
//! Each module has two functions. `compress` appends to a buffer. `decompress` takes the expected
//! size and produces at most one byte more; the caller rejects any other size.

use bytes::Bytes;

use crate::{compressor::Compressor, error::WireError};

pub(super) fn compress(
    compressor: Compressor,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    match compressor {
        Compressor::Noop => {
            out.extend_from_slice(input);
            Ok(())
        }
        #[cfg(feature = "snappy")]
        Compressor::Snappy => snappy::compress(input, out),
        #[cfg(feature = "zlib")]
        Compressor::Zlib(level) => zlib::compress(level, input, out),
        #[cfg(feature = "zstd")]
        Compressor::Zstd(level) => zstandard::compress(level, input, out),
        #[allow(unreachable_patterns, reason = "reached when a feature is off")]
        Compressor::Snappy | Compressor::Zlib(_) | Compressor::Zstd(_) => {
            Err(WireError::CompressorNotBuiltIn { compressor })
        }
    }
}

pub(super) fn decompress(
    compressor: Compressor,
    input: Bytes,
    expected: usize,
) -> Result<Bytes, WireError> {
    match compressor {
        Compressor::Noop if input.len() == expected => Ok(input),
        Compressor::Noop => {
            let actual = input.len();
            Err(WireError::UncompressedSizeMismatch { claimed: expected, actual })
        }
        #[cfg(feature = "snappy")]
        Compressor::Snappy => snappy::decompress(&input, expected),
        #[cfg(feature = "zlib")]
        Compressor::Zlib(_) => zlib::decompress(&input, expected),
        #[cfg(feature = "zstd")]
        Compressor::Zstd(_) => zstandard::decompress(&input, expected),
        #[allow(unreachable_patterns, reason = "reached when a feature is off")]
        Compressor::Snappy | Compressor::Zlib(_) | Compressor::Zstd(_) => {
            Err(WireError::CompressorNotBuiltIn { compressor })
        }
    }
}

#[cfg(feature = "snappy")]
mod snappy {
    use bytes::Bytes;

    use crate::{compressor::Compressor, error::WireError};

    pub(super) fn compress(input: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
        let start = out.len();
        out.resize(start + snap::raw::max_compress_len(input.len()), 0);
        let written = snap::raw::Encoder::new()
            .compress(input, &mut out[start..])
            .map_err(|error| super::compress_error(Compressor::Snappy, error))?;
        out.truncate(start + written);
        Ok(())
    }

    pub(super) fn decompress(input: &[u8], expected: usize) -> Result<Bytes, WireError> {
        let failed = |error| super::decompress_error(Compressor::Snappy, error);
        // Snappy data states its own size. Both sizes must agree before memory is allocated.
        let actual = snap::raw::decompress_len(input).map_err(failed)?;
        if actual != expected {
            return Err(WireError::UncompressedSizeMismatch { claimed: expected, actual });
        }
        let mut output = vec![0; expected];
        let written = snap::raw::Decoder::new().decompress(input, &mut output).map_err(failed)?;
        output.truncate(written);
        Ok(output.into())
    }
}

#[cfg(feature = "zlib")]
mod zlib {
    use std::io::Write;

    use bytes::Bytes;
    use flate2::{Compression, Decompress, FlushDecompress, Status, write::ZlibEncoder};

    use crate::{
        compressor::{Compressor, ZlibLevel},
        error::WireError,
    };

    pub(super) fn compress(
        level: ZlibLevel,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        let compression =
            u32::try_from(level.get()).map_or_else(|_| Compression::default(), Compression::new);
        let mut encoder = ZlibEncoder::new(out, compression);
        encoder
            .write_all(input)
            .and_then(|()| encoder.finish())
            .map_err(|error| super::compress_error(Compressor::Zlib(level), error))?;
        Ok(())
    }

    pub(super) fn decompress(input: &[u8], expected: usize) -> Result<Bytes, WireError> {
        let failed =
            |reason: String| super::decompress_error(Compressor::Zlib(ZlibLevel::DEFAULT), reason);
        // `decompress_vec` fills the capacity and never grows it. One spare byte reveals data that
        // is longer than claimed.
        let mut output = Vec::with_capacity(expected + 1);
        let mut inflater = Decompress::new(true);
        let status = inflater
            .decompress_vec(input, &mut output, FlushDecompress::Finish)
            .map_err(|error| failed(error.to_string()))?;
        match status {
            Status::StreamEnd if inflater.total_in() == input.len() as u64 => Ok(output.into()),
            Status::StreamEnd => {
                Err(failed("unexpected bytes after the end of the data".to_owned()))
            }
            Status::Ok | Status::BufError if output.len() > expected => {
                Err(WireError::UncompressedSizeMismatch { claimed: expected, actual: output.len() })
            }
            Status::Ok | Status::BufError => Err(failed("the data is truncated".to_owned())),
        }
    }
}

#[cfg(feature = "zstd")]
mod zstandard {
    use bytes::Bytes;

    use crate::{
        compressor::{Compressor, ZstdLevel},
        error::WireError,
    };

    pub(super) fn compress(
        level: ZstdLevel,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        let start = out.len();
        out.resize(start + zstd::zstd_safe::compress_bound(input.len()), 0);
        let written = zstd::bulk::compress_to_buffer(input, &mut out[start..], level.get())
            .map_err(|error| super::compress_error(Compressor::Zstd(level), error))?;
        out.truncate(start + written);
        Ok(())
    }

    pub(super) fn decompress(input: &[u8], expected: usize) -> Result<Bytes, WireError> {
        // Decompressing into a buffer of fixed size needs no window, so the window size that the
        // frame requests is never allocated.
        let mut output = vec![0; expected];
        let written = zstd::bulk::decompress_to_buffer(input, &mut output).map_err(|error| {
            super::decompress_error(Compressor::Zstd(ZstdLevel::DEFAULT), error)
        })?;
        output.truncate(written);
        Ok(output.into())
    }
}

#[cfg(any(feature = "snappy", feature = "zlib", feature = "zstd"))]
fn compress_error(compressor: Compressor, reason: impl ToString) -> WireError {
    WireError::Compress { compressor, reason: reason.to_string() }
}

#[cfg(any(feature = "snappy", feature = "zlib", feature = "zstd"))]
fn decompress_error(compressor: Compressor, reason: impl ToString) -> WireError {
    WireError::Decompress { compressor, reason: reason.to_string() }
}
