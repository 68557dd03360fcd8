//! The 16-byte message header, and message boundaries in a stream of bytes.

use crate::error::WireError;

/// Length of a [`Header`] in bytes.
pub const HEADER_LENGTH: usize = 16;

/// Message size limit before a server has reported `maxMessageSizeBytes`: 48,000,000 bytes. All
/// server versions so far report this value.
pub const DEFAULT_MAX_MESSAGE_SIZE: usize = 48_000_000;

/// The operation of a message (`opCode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OpCode {
    /// OP_REPLY: the reply to [`OpCode::Query`].
    Reply,
    /// OP_QUERY: only used for the first `hello` of a connection.
    Query,
    /// OP_COMPRESSED: another message in compressed form.
    Compressed,
    /// OP_MSG: all commands and their replies.
    Msg,
}

impl OpCode {
    /// Returns the operation code used in headers.
    pub const fn code(self) -> i32 {
        match self {
            OpCode::Reply => 1,
            OpCode::Query => 2004,
            OpCode::Compressed => 2012,
            OpCode::Msg => 2013,
        }
    }

    /// Returns the operation with this code.
    ///
    /// # Errors
    ///
    /// [`WireError::UnknownOpCode`] for any other number.
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

/// The header of a message, with all four fields checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the message in bytes, header included (`messageLength`).
    pub message_length: usize,
    /// Id of this message, chosen by the sender (`requestID`).
    pub request_id: i32,
    /// `requestID` of the message that this one replies to; 0 in a request (`responseTo`).
    pub response_to: i32,
    /// Operation of the message (`opCode`).
    pub op_code: OpCode,
}

impl Header {
    /// Parses a header. The message length must be between 16 and `max_message_size`.
    ///
    /// # Errors
    ///
    /// An error if the length is out of bounds, the operation is unknown, or the bytes belong to
    /// another protocol.
    ///
    /// ```
    /// use steadfast_wire::{Header, OpCode, WireError};
    ///
    /// let bytes = [26, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0xdd, 0x07, 0, 0];
    /// let header = Header::parse(&bytes, 48_000_000)?;
    /// assert_eq!((header.message_length, header.op_code), (26, OpCode::Msg));
    ///
    /// let error = Header::parse(&bytes, 20).unwrap_err();
    /// assert_eq!(error, WireError::LengthTooLarge { length: 26, max: 20 });
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

    /// Encodes the header.
    ///
    /// # Errors
    ///
    /// [`WireError::TooLongToWrite`] if the message length exceeds an int32.
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

/// Result of [`frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The message is not complete.
    Incomplete {
        /// Minimum number of further bytes to read. With fewer than 16 bytes in the buffer, the
        /// rest of the header; afterwards, exactly the rest of the message. It never exceeds the
        /// limit, so reserving it is safe.
        needed: usize,
    },
    /// The first `length` bytes of the buffer are one message.
    Complete {
        /// Length of the message in bytes.
        length: usize,
    },
}

/// Finds the end of the first message in `buffer`, or the number of bytes that are missing.
///
/// An invalid length is reported as soon as its four bytes have arrived, an unknown operation as
/// soon as the header has arrived. A peer that speaks another protocol is thus detected without
/// waiting for more bytes.
///
/// # Errors
///
/// The errors of [`Header::parse`].
///
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
    // Wrong ports are a common mistake: name the other protocol instead of an absurd length.
    match &bytes {
        b"HTTP" => Err(WireError::OtherProtocol { protocol: "an HTTP response" }),
        b"SSH-" => Err(WireError::OtherProtocol { protocol: "an SSH greeting" }),
        _ => Err(WireError::LengthTooLarge { length, max }),
    }
}
