//! The compressors of OP_COMPRESSED, independent of the crate features that enable them.

use std::{fmt, str::FromStr};

use crate::error::WireError;

/// A compressor of OP_COMPRESSED.
///
/// Every variant can be named and parsed. [`is_built_in`](Self::is_built_in) returns `true` if this
/// build can use it: `noop` always, the others with their crate feature.
///
/// ```
/// use steadfast_wire::{Compressor, ZlibLevel};
///
/// let compressor: Compressor = "zlib".parse()?;
/// assert_eq!(compressor, Compressor::Zlib(ZlibLevel::DEFAULT));
/// assert_eq!((compressor.id(), compressor.name()), (2, "zlib"));
/// # Ok::<(), steadfast_wire::WireError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compressor {
    /// No compression (`noop`). Intended for tests.
    Noop,
    /// Snappy (`snappy`). Requires the feature `snappy`.
    Snappy,
    /// zlib (`zlib`) at a compression level. Requires the feature `zlib`.
    Zlib(ZlibLevel),
    /// Zstandard (`zstd`) at a compression level. Requires the feature `zstd`.
    Zstd(ZstdLevel),
}

impl Compressor {
    /// Returns the `compressorId` of OP_COMPRESSED.
    pub const fn id(self) -> u8 {
        match self {
            Compressor::Noop => 0,
            Compressor::Snappy => 1,
            Compressor::Zlib(_) => 2,
            Compressor::Zstd(_) => 3,
        }
    }

    /// Returns the compressor with this `compressorId`.
    ///
    /// The level is not part of a message; the result has the default level.
    ///
    /// # Errors
    ///
    /// [`WireError::UnknownCompressorId`] if the id is not assigned.
    pub const fn from_id(id: u8) -> Result<Self, WireError> {
        match id {
            0 => Ok(Compressor::Noop),
            1 => Ok(Compressor::Snappy),
            2 => Ok(Compressor::Zlib(ZlibLevel::DEFAULT)),
            3 => Ok(Compressor::Zstd(ZstdLevel::DEFAULT)),
            _ => Err(WireError::UnknownCompressorId { id }),
        }
    }

    /// Returns the name used in the handshake (`compression`) and in connection strings
    /// (`compressors`).
    pub const fn name(self) -> &'static str {
        match self {
            Compressor::Noop => "noop",
            Compressor::Snappy => "snappy",
            Compressor::Zlib(_) => "zlib",
            Compressor::Zstd(_) => "zstd",
        }
    }

    /// Returns `true` if this build contains the compressor.
    pub const fn is_built_in(self) -> bool {
        match self {
            Compressor::Noop => true,
            Compressor::Snappy => cfg!(feature = "snappy"),
            Compressor::Zlib(_) => cfg!(feature = "zlib"),
            Compressor::Zstd(_) => cfg!(feature = "zstd"),
        }
    }
}

impl FromStr for Compressor {
    type Err = WireError;

    /// Parses a compressor name. zlib and zstd get their default levels.
    fn from_str(name: &str) -> Result<Self, WireError> {
        match name {
            "noop" => Ok(Compressor::Noop),
            "snappy" => Ok(Compressor::Snappy),
            "zlib" => Ok(Compressor::Zlib(ZlibLevel::DEFAULT)),
            "zstd" => Ok(Compressor::Zstd(ZstdLevel::DEFAULT)),
            _ => Err(WireError::UnknownCompressorName { name: name.to_owned() }),
        }
    }
}

impl fmt::Display for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of compressors, such as those negotiated in the handshake. Levels are ignored.
///
/// ```
/// use steadfast_wire::{Compressor, CompressorSet, ZstdLevel};
///
/// let zstd = Compressor::Zstd(ZstdLevel::DEFAULT);
/// let negotiated: CompressorSet = [zstd].into_iter().collect();
/// assert!(negotiated.contains(zstd) && !negotiated.contains(Compressor::Noop));
/// assert!(CompressorSet::ALL.contains(Compressor::Noop));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompressorSet(u8);

impl CompressorSet {
    /// All compressors of the protocol.
    pub const ALL: Self = Self(0b1111);

    /// Returns `true` if the compressor is in the set.
    pub const fn contains(self, compressor: Compressor) -> bool {
        self.0 & (1 << compressor.id()) != 0
    }
}

impl FromIterator<Compressor> for CompressorSet {
    fn from_iter<I: IntoIterator<Item = Compressor>>(compressors: I) -> Self {
        Self(compressors.into_iter().fold(0, |set, compressor| set | 1 << compressor.id()))
    }
}

/// Compression level of zlib: 0 (no compression) to 9 (best compression), or -1 for zlib's default
/// (`zlibCompressionLevel`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZlibLevel(i8);

impl ZlibLevel {
    /// The default level of zlib (-1).
    pub const DEFAULT: Self = Self(-1);

    /// Creates a level from a number.
    ///
    /// # Errors
    ///
    /// [`WireError::ZlibLevel`] if the number is not in -1 to 9.
    pub fn new(level: i32) -> Result<Self, WireError> {
        match i8::try_from(level) {
            Ok(level @ -1..=9) => Ok(Self(level)),
            Ok(_) | Err(_) => Err(WireError::ZlibLevel { level }),
        }
    }

    /// Returns the level as a number.
    pub const fn get(self) -> i8 {
        self.0
    }
}

impl Default for ZlibLevel {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Compression level of Zstandard: -131072 (fastest) to 22 (best compression). The default is 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZstdLevel(i32);

impl ZstdLevel {
    /// The default level of Zstandard (3).
    pub const DEFAULT: Self = Self(3);

    /// Creates a level from a number.
    ///
    /// # Errors
    ///
    /// [`WireError::ZstdLevel`] if the number is not in -131072 to 22.
    pub fn new(level: i32) -> Result<Self, WireError> {
        match level {
            -131_072..=22 => Ok(Self(level)),
            _ => Err(WireError::ZstdLevel { level }),
        }
    }

    /// Returns the level as a number.
    pub const fn get(self) -> i32 {
        self.0
    }
}

impl Default for ZstdLevel {
    fn default() -> Self {
        Self::DEFAULT
    }
}
