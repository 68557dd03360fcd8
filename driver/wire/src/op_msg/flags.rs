//! The flag bits of an OP_MSG.

use std::ops::{BitOr, BitOrAssign};

use crate::error::WireError;

/// A set of the flags that an OP_MSG can carry.
///
/// ```
/// use steadfast_wire::MsgFlags;
///
/// let flags = MsgFlags::MORE_TO_COME | MsgFlags::CHECKSUM_PRESENT;
/// assert!(flags.contains(MsgFlags::MORE_TO_COME));
/// assert!(!flags.contains(MsgFlags::EXHAUST_ALLOWED));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MsgFlags(u32);

impl MsgFlags {
    /// The message ends with a CRC-32C of its bytes.
    pub const CHECKSUM_PRESENT: Self = Self(1);
    /// In a request: no reply is wanted. In a reply: another reply follows without being asked for.
    pub const MORE_TO_COME: Self = Self(1 << 1);
    /// In a request: the client can take more than one reply to it.
    pub const EXHAUST_ALLOWED: Self = Self(1 << 16);

    /// The low half of the bits must be understood by whoever reads them; the high half may be ignored.
    const REQUIRED: u32 = 0xffff;
    const KNOWN: u32 = Self::CHECKSUM_PRESENT.0 | Self::MORE_TO_COME.0 | Self::EXHAUST_ALLOWED.0;

    /// No flags.
    pub const fn empty() -> Self {
        Self(0)
    }

    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits as they stand in a message.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Reads the bits of a message: unknown required bits are an error, unknown optional ones are dropped.
    pub const fn from_bits(bits: u32) -> Result<Self, WireError> {
        let unknown = bits & Self::REQUIRED & !Self::KNOWN;
        if unknown != 0 {
            return Err(WireError::UnknownFlags { bits: unknown });
        }
        Ok(Self(bits & Self::KNOWN))
    }
}

impl BitOr for MsgFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for MsgFlags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
