//! A message under construction at the end of a send buffer, and the primitives that write it.

use crate::{
    error::WireError,
    header::{HEADER_LENGTH, Header, OpCode},
};

/// A message that is not complete yet.
///
/// Dropping it before [`finish`](MessageDraft::finish) truncates the buffer to its previous length,
/// so that an error never leaves a partial message in the send buffer.
#[derive(Debug)]
pub(crate) struct MessageDraft<'b> {
    pub(crate) out: &'b mut Vec<u8>,
    start: usize,
    finished: bool,
}

impl<'b> MessageDraft<'b> {
    /// Writes a header without its length.
    pub(crate) fn start(
        out: &'b mut Vec<u8>,
        request_id: i32,
        response_to: i32,
        op_code: OpCode,
    ) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        for field in [request_id, response_to, op_code.code()] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        Self { out, start, finished: false }
    }

    /// Returns the number of bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.out.len() - self.start
    }

    /// Returns the bytes written so far, without the header.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.out[self.start + HEADER_LENGTH..]
    }

    /// Writes the message length into the header and returns it.
    pub(crate) fn finish(self) -> Result<usize, WireError> {
        self.finish_before(0)
    }

    /// Finishes a message whose last `to_follow` bytes are not in the buffer.
    pub(crate) fn finish_before(mut self, to_follow: usize) -> Result<usize, WireError> {
        patch_length_before(to_follow, self.out, self.start, "the message")?;
        self.finished = true;
        Ok(self.len() + to_follow)
    }

    /// Finishes the message with a CRC-32C of all preceding bytes as its last four bytes.
    pub(crate) fn finish_with_checksum(self) -> Result<usize, WireError> {
        // The checksum covers the header with its final length, so its four bytes are reserved
        // first.
        self.out.extend_from_slice(&[0; 4]);
        patch_length(self.out, self.start, "the message")?;
        let end = self.out.len() - 4;
        let checksum = crate::checksum::checksum(&self.out[self.start..end]);
        self.out[end..].copy_from_slice(&checksum.to_le_bytes());
        self.finish()
    }
}

impl Drop for MessageDraft<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.out.truncate(self.start);
        }
    }
}

/// Writes the number of bytes from `start` to the end into the four bytes at `start`.
pub(crate) fn patch_length(
    out: &mut [u8],
    start: usize,
    what: &'static str,
) -> Result<(), WireError> {
    patch_length_before(0, out, start, what)
}

/// Writes the number of bytes from `start` to the end, plus `to_follow`, into the four bytes at
/// `start`.
pub(crate) fn patch_length_before(
    to_follow: usize,
    out: &mut [u8],
    start: usize,
    what: &'static str,
) -> Result<(), WireError> {
    let length = (out.len() - start).saturating_add(to_follow);
    let written = i32::try_from(length).map_err(|_| WireError::TooLongToWrite { what, length })?;
    out[start..start + 4].copy_from_slice(&written.to_le_bytes());
    Ok(())
}

/// Writes a NUL-terminated string. A NUL inside the string is an error, because readers would stop
/// there.
pub(crate) fn write_cstring(
    out: &mut Vec<u8>,
    string: &str,
    what: &'static str,
) -> Result<(), WireError> {
    if let Some(position) = string.bytes().position(|byte| byte == 0) {
        return Err(WireError::NulInString { what, position });
    }
    out.extend_from_slice(string.as_bytes());
    out.push(0);
    Ok(())
}

/// Splits a finished message into its header and its payload.
pub(crate) fn split_message(message: &[u8]) -> Result<(Header, &[u8]), WireError> {
    let Some((header, payload)) = message.split_first_chunk::<HEADER_LENGTH>() else {
        return Err(WireError::Truncated {
            what: "the header",
            needed: HEADER_LENGTH,
            left: message.len(),
        });
    };
    let header = Header::parse(header, usize::MAX)?;
    if header.message_length == message.len() {
        Ok((header, payload))
    } else {
        Err(WireError::LengthMismatch { claimed: header.message_length, actual: message.len() })
    }
}
