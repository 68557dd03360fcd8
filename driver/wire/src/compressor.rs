//! The compressors that the protocol knows, whether or not this build contains them.

use std::{fmt, str::FromStr};

use crate::error::WireError;

/// A way to compress messages.
///
/// All of them can always be named; [`is_built_in`](Self::is_built_in) says whether one can be used, which for all but
/// `noop` is a matter of the crate's features.
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
    /// Leaves the message as it is; for tests.
    Noop,
    /// Snappy. Needs the feature `snappy`.
    Snappy,
    /// Zlib, at a level. Needs the feature `zlib`.
    Zlib(ZlibLevel),
    /// Zstandard. Needs the feature `zstd`.
    Zstd,
}

impl Compressor {
    /// The compressor's number in an OP_COMPRESSED.
    pub const fn id(self) -> u8 {
        match self {
            Compressor::Noop => 0,
            Compressor::Snappy => 1,
            Compressor::Zlib(_) => 2,
            Compressor::Zstd => 3,
        }
    }

    /// The compressor with this number. The level that a peer used does not show; it is given as the default.
    pub const fn from_id(id: u8) -> Result<Self, WireError> {
        match id {
            0 => Ok(Compressor::Noop),
            1 => Ok(Compressor::Snappy),
            2 => Ok(Compressor::Zlib(ZlibLevel::DEFAULT)),
            3 => Ok(Compressor::Zstd),
            _ => Err(WireError::UnknownCompressorId { id }),
        }
    }

    /// The compressor's name in the handshake and in connection strings.
    pub const fn name(self) -> &'static str {
        match self {
            Compressor::Noop => "noop",
            Compressor::Snappy => "snappy",
            Compressor::Zlib(_) => "zlib",
            Compressor::Zstd => "zstd",
        }
    }

    /// Whether this build can use the compressor.
    pub const fn is_built_in(self) -> bool {
        match self {
            Compressor::Noop => true,
            Compressor::Snappy => cfg!(feature = "snappy"),
            Compressor::Zlib(_) => cfg!(feature = "zlib"),
            Compressor::Zstd => cfg!(feature = "zstd"),
        }
    }
}

impl FromStr for Compressor {
    type Err = WireError;

    /// Reads a name; zlib comes at its default level.
    fn from_str(name: &str) -> Result<Self, WireError> {
        match name {
            "noop" => Ok(Compressor::Noop),
            "snappy" => Ok(Compressor::Snappy),
            "zlib" => Ok(Compressor::Zlib(ZlibLevel::DEFAULT)),
            "zstd" => Ok(Compressor::Zstd),
            _ => Err(WireError::UnknownCompressorName { name: name.to_owned() }),
        }
    }
}

impl fmt::Display for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of compressors, such as those that both sides of a connection know. The level of zlib does not count.
///
/// ```
/// use steadfast_wire::{Compressor, CompressorSet};
///
/// let negotiated: CompressorSet = [Compressor::Zstd].into_iter().collect();
/// assert!(negotiated.contains(Compressor::Zstd) && !negotiated.contains(Compressor::Noop));
/// assert!(CompressorSet::ALL.contains(Compressor::Noop));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompressorSet(u8);

impl CompressorSet {
    /// All compressors that the protocol knows.
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

/// How hard zlib tries: 0 (not at all) to 9 (its best), or -1 for what zlib thinks best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZlibLevel(i8);

impl ZlibLevel {
    /// What zlib thinks best.
    pub const DEFAULT: Self = Self(-1);

    /// Takes a level from -1 to 9.
    pub fn new(level: i32) -> Result<Self, WireError> {
        match i8::try_from(level) {
            Ok(level @ -1..=9) => Ok(Self(level)),
            Ok(_) | Err(_) => Err(WireError::ZlibLevel { level }),
        }
    }

    /// The level as a number.
    pub const fn get(self) -> i8 {
        self.0
    }
}

impl Default for ZlibLevel {
    fn default() -> Self {
        Self::DEFAULT
    }
}
