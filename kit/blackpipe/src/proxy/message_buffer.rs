//! Whole messages out of a stream of bytes, and a limit to what a peer can make the proxy keep.

use std::{io, ops::Range};

use steadfast_wire::{DEFAULT_MAX_MESSAGE_SIZE, HEADER_LENGTH};
use tokio::io::{AsyncRead, AsyncReadExt};

const USUAL_BYTES: usize = 64 * 1024;
/// A buffer that had to grow beyond this is let go of once its message is through.
const KEPT_BYTES: usize = 4 * 1024 * 1024;

/// Of messages longer than this, parts are told of before they are whole.
const LARGE_BYTES: usize = 64 * 1024;

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// A whole message of this length.
    Whole(usize),
    /// So many bytes of a large message.
    Part(usize),
    /// The end of the stream.
    End,
}

/// What has been read and not yet been handed out.
#[derive(Debug)]
pub(crate) struct Inbox {
    buffer: Vec<u8>,
    /// What of the buffer holds bytes.
    filled: Range<usize>,
    /// How long the message is that was handed out last.
    handed_out: usize,
    /// Whether anything was handed out yet.
    begun: bool,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { buffer: Vec::new(), filled: 0..0, handed_out: 0, begun: false }
    }

    /// The next whole message, or nothing at the end of the stream. A length that no message has is
    /// an error; the rest of the header is not looked at.
    pub(crate) async fn next<R>(&mut self, from: &mut R) -> io::Result<Option<&[u8]>>
    where
        R: AsyncRead + Unpin,
    {
        loop {
            match self.arrive(from).await? {
                Arrived::Whole(length) => return Ok(Some(self.first(length))),
                Arrived::Part(_) => {}
                Arrived::End => return Ok(None),
            }
        }
    }

    /// Like [`next`](Self::next), but tells of a large message each time that more of it has come.
    pub(crate) async fn arrive<R>(&mut self, from: &mut R) -> io::Result<Arrived>
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
                    return Ok(Arrived::Whole(length));
                }
                Some(length) if length > LARGE_BYTES && has_read => {
                    return Ok(Arrived::Part(self.filled.len()));
                }
                Some(_) | None => {}
            }
            self.make_room(length.unwrap_or(HEADER_LENGTH));
            match from.read(&mut self.buffer[self.filled.end..]).await? {
                0 => return Ok(Arrived::End),
                count => self.filled.end += count,
            }
            has_read = true;
        }
    }

    /// The first bytes of the message at hand, as many as [`arrive`](Self::arrive) told of.
    pub(crate) fn first(&self, length: usize) -> &[u8] {
        &self.buffer[self.filled.start..self.filled.start + length]
    }

    /// How many bytes of a message that never became whole are there.
    #[cfg(test)]
    pub(crate) fn left_over(&self) -> usize {
        self.filled.len() - self.handed_out
    }

    fn start_anew(&mut self) {
        self.filled = 0..0;
        if self.buffer.len() > KEPT_BYTES {
            self.buffer = Vec::new();
        }
    }

    /// The length of the message at hand, as soon as it is there.
    fn message_length(&self) -> io::Result<Option<usize>> {
        let Some(bytes) = self.buffer[self.filled.clone()].first_chunk::<4>() else {
            return Ok(None);
        };
        let claimed = i32::from_le_bytes(*bytes);
        let bad = |problem| Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        match (usize::try_from(claimed), bytes) {
            // What TLS begins with is the length of a message, too, but of no first one.
            (_, [0x16, 3, 0..=4, _]) if !self.begun => {
                bad("it speaks TLS, which the proxy does not do with clients".to_owned())
            }
            (Ok(length @ HEADER_LENGTH..=DEFAULT_MAX_MESSAGE_SIZE), _) => Ok(Some(length)),
            (Ok(_) | Err(_), _) => bad(format!("a message claims to have {claimed} bytes")),
        }
    }

    /// Makes room for more of a message of this length. A claim alone buys no memory: the buffer
    /// grows as bytes come.
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
            self.buffer.resize(doubled.min(length).max(USUAL_BYTES), 0);
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
    async fn messages_come_out_whole_however_they_come_in() {
        let lengths = [16, 17, 200_000, 16, 65_536, 65_520, 5_000_000, 40];
        let all: Vec<_> = (1_u8..).zip(lengths).map(|(fill, at)| message(at, fill)).collect();
        for packet in [1, 7, 16, 1000, 65_536, usize::MAX] {
            // A byte at a time, the large ones would take their time.
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
            let mut inbox = Inbox::new();
            for expected in &expected {
                assert_eq!(inbox.next(&mut there).await.unwrap(), Some(expected.as_slice()));
            }
            assert_eq!(inbox.next(&mut there).await.unwrap(), None);
            assert_eq!(inbox.left_over(), 0);
            sending.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_message_that_ends_early_is_none() {
        let whole = message(100, 1);
        let mut inbox = Inbox::new();
        assert_eq!(inbox.next(&mut &whole[..99]).await.unwrap(), None);
        assert_eq!(inbox.left_over(), 99);
    }

    #[tokio::test]
    async fn a_length_that_no_message_has_is_refused_and_a_claim_buys_no_memory() {
        for claim in [-1, 0, 15, 48_000_001, i32::MAX] {
            let error = Inbox::new().next(&mut &claim.to_le_bytes()[..]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        let error = Inbox::new().next(&mut &[0x16, 3, 1, 2, 0, 1][..]).await.unwrap_err();
        assert!(error.to_string().contains("TLS"));
        let mut inbox = Inbox::new();
        assert_eq!(inbox.next(&mut &48_000_000_i32.to_le_bytes()[..]).await.unwrap(), None);
        assert_eq!(inbox.buffer.len(), USUAL_BYTES);
    }
}
