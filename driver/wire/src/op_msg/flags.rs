//! The flag bits of an OP_MSG.

use std::ops::{BitOr, BitOrAssign};

use crate::error::WireError;

/// A set of OP_MSG flags.
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
    /// `checksumPresent`: the message ends with a CRC-32C of its bytes.
    pub const CHECKSUM_PRESENT: Self = Self(1);
    /// `moreToCome`: in a request, the server sends no reply; in a reply, another reply follows
    /// without a request.
    pub const MORE_TO_COME: Self = Self(1 << 1);
    /// `exhaustAllowed`: in a request, the client accepts more than one reply.
    pub const EXHAUST_ALLOWED: Self = Self(1 << 16);

    /// Required flags: a reader must reject unknown bits among them. The high 16 bits are optional.
    const REQUIRED: u32 = 0xffff;
    const KNOWN: u32 = Self::CHECKSUM_PRESENT.0 | Self::MORE_TO_COME.0 | Self::EXHAUST_ALLOWED.0;

    /// Returns the empty set.
    pub const fn empty() -> Self {
        Self(0)
    }

    /// Returns `true` if all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the bits as used in messages.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Parses the bits of a message and drops unknown optional bits.
    ///
    /// # Errors
    ///
    /// [`WireError::UnknownFlags`] if an unknown required bit is set.
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
