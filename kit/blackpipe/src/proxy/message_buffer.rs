//! Messages read from a stream, with a bound on the memory that a peer can make the proxy hold.

use std::{io, ops::Range};

use steadfast_wire::{DEFAULT_MAX_MESSAGE_SIZE, HEADER_LENGTH};
use tokio::io::{AsyncRead, AsyncReadExt};

const INITIAL_BYTES: usize = 64 * 1024;
/// A larger buffer is released after its message.
const MAX_RETAINED_BYTES: usize = 4 * 1024 * 1024;

/// Messages above this size are reported in parts while they arrive.
const LARGE_BYTES: usize = 64 * 1024;

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadProgress {
    /// A whole message of this length.
    Message(usize),
    /// The first bytes of a large message; the number buffered so far.
    Partial(usize),
    /// End of the stream.
    EndOfStream,
}

/// Bytes that were read and not yet consumed.
#[derive(Debug)]
pub(crate) struct MessageBuffer {
    buffer: Vec<u8>,
    /// Range of the buffer that holds bytes.
    filled: Range<usize>,
    /// Length of the message that was returned last.
    handed_out: usize,
    /// `true` after the first message was returned.
    begun: bool,
}

impl MessageBuffer {
    pub(crate) fn new() -> Self {
        Self { buffer: Vec::new(), filled: 0..0, handed_out: 0, begun: false }
    }

    /// Returns the next whole message, or `None` at the end of the stream. Fails if the length is
    /// invalid; other header fields are not checked.
    pub(crate) async fn next<R>(&mut self, from: &mut R) -> io::Result<Option<&[u8]>>
    where
        R: AsyncRead + Unpin,
    {
        loop {
            match self.read_more(from).await? {
                ReadProgress::Message(length) => return Ok(Some(self.bytes(length))),
                ReadProgress::Partial(_) => {}
                ReadProgress::EndOfStream => return Ok(None),
            }
        }
    }

    /// Reads until a message is complete. Returns early each time more of a large message arrived.
    pub(crate) async fn read_more<R>(&mut self, from: &mut R) -> io::Result<ReadProgress>
    where
        R: AsyncRead + Unpin,
    {
        self.filled.start += std::mem::take(&mut self.handed_out);
        if self.filled.is_empty() {
            self.start_anew();
        }
        let mut has_read = false;
        loop {
            let length = self.message_length()?;
            match length {
                Some(length) if length <= self.filled.len() => {
                    self.handed_out = length;
                    self.begun = true;
                    return Ok(ReadProgress::Message(length));
                }
                Some(length) if length > LARGE_BYTES && has_read => {
                    return Ok(ReadProgress::Partial(self.filled.len()));
                }
                Some(_) | None => {}
            }
            self.make_room(length.unwrap_or(HEADER_LENGTH));
            match from.read(&mut self.buffer[self.filled.end..]).await? {
                0 => return Ok(ReadProgress::EndOfStream),
                count => self.filled.end += count,
            }
            has_read = true;
        }
    }

    /// Returns the first `length` bytes of the current message.
    pub(crate) fn bytes(&self, length: usize) -> &[u8] {
        &self.buffer[self.filled.start..self.filled.start + length]
    }

    /// Number of buffered bytes of an incomplete message.
    #[cfg(test)]
    pub(crate) fn left_over(&self) -> usize {
        self.filled.len() - self.handed_out
    }

    fn start_anew(&mut self) {
        self.filled = 0..0;
        if self.buffer.len() > MAX_RETAINED_BYTES {
            self.buffer = Vec::new();
        }
    }

    /// Returns the length of the current message, once its first four bytes are buffered.
    fn message_length(&self) -> io::Result<Option<usize>> {
        let Some(bytes) = self.buffer[self.filled.clone()].first_chunk::<4>() else {
            return Ok(None);
        };
        let claimed = i32::from_le_bytes(*bytes);
        let bad = |problem| Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        match (usize::try_from(claimed), bytes) {
            // The first bytes of a TLS handshake are also a valid length, but no first message is
            // that long.
            (_, [0x16, 3, 0..=4, _]) if !self.begun => {
                bad("TLS handshake received; connect to the proxy without TLS".to_owned())
            }
            (Ok(length @ HEADER_LENGTH..=DEFAULT_MAX_MESSAGE_SIZE), _) => Ok(Some(length)),
            (Ok(_) | Err(_), _) => bad(format!("invalid message length {claimed}")),
        }
    }

    /// Makes space for a message of this length. The buffer grows as bytes arrive, not by the
    /// claimed length.
    fn make_room(&mut self, length: usize) {
        if self.filled.end < self.buffer.len() && self.filled.start + length <= self.buffer.len() {
            return;
        }
        if self.filled.start > 0 {
            self.buffer.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        if self.filled.end == self.buffer.len() {
            let doubled = self.buffer.len().saturating_mul(2);
            self.buffer.resize(doubled.min(length).max(INITIAL_BYTES), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn message(length: usize, fill: u8) -> Vec<u8> {
        let mut message = vec![fill; length];
        message[..4].copy_from_slice(&i32::try_from(length).unwrap().to_le_bytes());
        message
    }

    #[tokio::test]
    async fn messages_are_reassembled_from_any_packets() {
        let lengths = [16, 17, 200_000, 16, 65_536, 65_520, 5_000_000, 40];
        let all: Vec<_> = (1_u8..).zip(lengths).map(|(fill, at)| message(at, fill)).collect();
        for packet in [1, 7, 16, 1000, 65_536, usize::MAX] {
            // Sending large messages in tiny packets would be slow.
            let some = |all: &[Vec<u8>]| match packet {
                1 | 7 => all[..2].to_vec(),
                _ => all.to_vec(),
            };
            let expected = some(&all);
            let bytes = expected.concat();
            let (mut here, mut there) = tokio::io::duplex(1 << 20);
            let sending = tokio::spawn(async move {
                for packet in bytes.chunks(packet.min(bytes.len())) {
                    here.write_all(packet).await.unwrap();
                }
            });
            let mut buffer = MessageBuffer::new();
            for expected in &expected {
                assert_eq!(buffer.next(&mut there).await.unwrap(), Some(expected.as_slice()));
            }
            assert_eq!(buffer.next(&mut there).await.unwrap(), None);
            assert_eq!(buffer.left_over(), 0);
            sending.await.unwrap();
        }
    }

    #[tokio::test]
    async fn incomplete_message_is_not_returned() {
        let whole = message(100, 1);
        let mut buffer = MessageBuffer::new();
        assert_eq!(buffer.next(&mut &whole[..99]).await.unwrap(), None);
        assert_eq!(buffer.left_over(), 99);
    }

    #[tokio::test]
    async fn invalid_length_fails_and_claimed_length_allocates_no_memory() {
        for claim in [-1, 0, 15, 48_000_001, i32::MAX] {
            let error = MessageBuffer::new().next(&mut &claim.to_le_bytes()[..]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        let error = MessageBuffer::new().next(&mut &[0x16, 3, 1, 2, 0, 1][..]).await.unwrap_err();
        assert!(error.to_string().contains("TLS"));
        let mut buffer = MessageBuffer::new();
        assert_eq!(buffer.next(&mut &48_000_000_i32.to_le_bytes()[..]).await.unwrap(), None);
        assert_eq!(buffer.buffer.len(), INITIAL_BYTES);
    }
}
