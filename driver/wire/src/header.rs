//! The 16 bytes that every message begins with, and where a message ends in a stream of bytes.

use crate::error::WireError;

/// How many bytes a [`Header`] takes.
pub const HEADER_LENGTH: usize = 16;

/// The message size limit to read with before a server has told its own `maxMessageSizeBytes`: 48,000,000 bytes, which is
/// what every server says so far.
pub const DEFAULT_MAX_MESSAGE_SIZE: usize = 48_000_000;

/// Which operation a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OpCode {
    /// OP_REPLY, the answer to [`OpCode::Query`].
    Reply,
    /// OP_QUERY, which lives on for the first `hello` of a connection.
    Query,
    /// OP_COMPRESSED, any of the others in compressed form.
    Compressed,
    /// OP_MSG, all commands and their replies.
    Msg,
}

impl OpCode {
    /// The number that stands for the operation in a header.
    pub const fn code(self) -> i32 {
        match self {
            OpCode::Reply => 1,
            OpCode::Query => 2004,
            OpCode::Compressed => 2012,
            OpCode::Msg => 2013,
        }
    }

    /// The operation that a number stands for.
    pub const fn from_code(op_code: i32) -> Result<Self, WireError> {
        match op_code {
            1 => Ok(OpCode::Reply),
            2004 => Ok(OpCode::Query),
            2012 => Ok(OpCode::Compressed),
            2013 => Ok(OpCode::Msg),
            _ => Err(WireError::UnknownOpCode { op_code }),
        }
    }
}

/// The first 16 bytes of a message, all four fields checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How long the message is, these 16 bytes included.
    pub message_length: usize,
    /// The id that the sender gave to this message.
    pub request_id: i32,
    /// The id of the message that this one answers; 0 in a request.
    pub response_to: i32,
    /// Which operation follows.
    pub op_code: OpCode,
}

impl Header {
    /// Reads a header, and believes its length only if it lies between 16 and `max_message_size`.
    ///
    /// ```
    /// use steadfast_wire::{Header, OpCode, WireError};
    ///
    /// let bytes = [26, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0xdd, 0x07, 0, 0];
    /// let header = Header::parse(&bytes, 48_000_000)?;
    /// assert_eq!((header.message_length, header.op_code), (26, OpCode::Msg));
    ///
    /// let refused = Header::parse(&bytes, 20).unwrap_err();
    /// assert_eq!(refused, WireError::LengthTooLarge { length: 26, max: 20 });
    /// # Ok::<(), WireError>(())
    /// ```
    pub fn parse(bytes: &[u8; HEADER_LENGTH], max_message_size: usize) -> Result<Self, WireError> {
        let [l0, l1, l2, l3, q0, q1, q2, q3, r0, r1, r2, r3, o0, o1, o2, o3] = *bytes;
        Ok(Self {
            message_length: checked_length([l0, l1, l2, l3], max_message_size)?,
            request_id: i32::from_le_bytes([q0, q1, q2, q3]),
            response_to: i32::from_le_bytes([r0, r1, r2, r3]),
            op_code: OpCode::from_code(i32::from_le_bytes([o0, o1, o2, o3]))?,
        })
    }

    /// The header's bytes.
    pub fn to_bytes(&self) -> Result<[u8; HEADER_LENGTH], WireError> {
        let length = i32::try_from(self.message_length).map_err(|_| WireError::TooLongToWrite {
            what: "the message",
            length: self.message_length,
        })?;
        let mut bytes = [0; HEADER_LENGTH];
        bytes[0..4].copy_from_slice(&length.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.request_id.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.response_to.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.op_code.code().to_le_bytes());
        Ok(bytes)
    }
}

/// What [`frame`] found at the beginning of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The message is not complete.
    Incomplete {
        /// At least this many bytes more must be read. With fewer than 16 bytes at hand it is what the header lacks;
        /// from then on it is exactly what the message lacks, and no more than the limit, so it is safe to reserve.
        needed: usize,
    },
    /// The first `length` bytes of the buffer are one message.
    Complete {
        /// How long the message is.
        length: usize,
    },
}

/// Says whether `buffer` begins with a whole message, and if not, how much is missing.
///
/// A length that cannot be right is refused as soon as its four bytes are there, an unknown operation as soon as the
/// header is, so that a peer that speaks something else is found out without waiting for more from it.
///
/// ```
/// use steadfast_wire::{frame, Framing};
///
/// let message = [16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xdd, 0x07, 0, 0];
/// assert_eq!(frame(&message[..10], 1000)?, Framing::Incomplete { needed: 6 });
/// assert_eq!(frame(&message, 1000)?, Framing::Complete { length: 16 });
/// # Ok::<(), steadfast_wire::WireError>(())
/// ```
pub fn frame(buffer: &[u8], max_message_size: usize) -> Result<Framing, WireError> {
    if let Some(length) = buffer.first_chunk::<4>() {
        checked_length(*length, max_message_size)?;
    }
    let Some(header) = buffer.first_chunk::<HEADER_LENGTH>() else {
        return Ok(Framing::Incomplete { needed: HEADER_LENGTH - buffer.len() });
    };
    let length = Header::parse(header, max_message_size)?.message_length;
    match length.checked_sub(buffer.len()) {
        Some(needed @ 1..) => Ok(Framing::Incomplete { needed }),
        Some(0) | None => Ok(Framing::Complete { length }),
    }
}

fn checked_length(bytes: [u8; 4], max: usize) -> Result<usize, WireError> {
    let claimed = i32::from_le_bytes(bytes);
    let length = match usize::try_from(claimed) {
        Ok(length) if length >= HEADER_LENGTH => length,
        Ok(_) | Err(_) => return Err(WireError::LengthTooSmall { length: claimed }),
    };
    if length <= max {
        return Ok(length);
    }
    // A mistyped port is a common mistake, and "1,347,703,880 bytes" is a poor way to tell of it.
    match &bytes {
        b"HTTP" => Err(WireError::OtherProtocol { protocol: "an HTTP response" }),
        b"SSH-" => Err(WireError::OtherProtocol { protocol: "an SSH greeting" }),
        _ => Err(WireError::LengthTooLarge { length, max }),
    }
}
