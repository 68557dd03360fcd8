//! A connection to a server: requests, replies, and the state of the exchange.
//!
//! The state is correct at every `.await`. A future dropped during a round trip leaves a connection
//! with a partial request, which must be closed, or with an outstanding reply, which can be drained.

mod establish;
mod interrupt;
pub(crate) mod metadata;
mod outgoing;
mod stream;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use steadfast_core::{address::ServerAddress, hello::HelloReply};
use steadfast_wire::{
    Compressor, CompressorSet, DEFAULT_MAX_MESSAGE_SIZE, Framing, IncomingMessage, Message,
    MsgFlags, decode_negotiated, frame,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout_at,
};

pub(crate) use self::{
    establish::{EstablishError, Establisher, read_hello},
    interrupt::Interrupt,
    outgoing::{Outgoing, append_api},
    stream::Stream,
};
use crate::{
    deadline::Deadline,
    error::{Error, NetworkFailure, Result},
    event::command::ConnectionInfo,
    sequence::{DocumentSequenceRef, Documents},
};

/// Minimum capacity of the receive buffer.
const INBOX_SIZE: usize = 4 * 1024;
/// Maximum capacity reserved from the length in a message header alone. More is reserved only as
/// bytes arrive (pitfall 42).
const MAX_RESERVED: usize = 16 * 1024 * 1024;
/// Maximum size of a reply, also after decompression, before a connection is established and on
/// monitoring connections. The server is not authenticated yet, and a reply to `hello` takes some
/// kilobytes.
const MAX_HANDSHAKE_REPLY: usize = 1024 * 1024;
/// Maximum size of a reply, also after decompression, on an established connection. Independent of
/// the server's `maxMessageSizeBytes`: a reply may exceed that limit by the overhead of a full
/// batch.
const MAX_REPLY: usize = DEFAULT_MAX_MESSAGE_SIZE + 16 * 1024 * 1024;
/// Size of a piece of scattered documents, which are copied into the send buffer piece by piece.
const MAX_PIECE: usize = 128 * 1024;
/// Maximum capacity of the send buffer of an idle connection.
const MAX_IDLE_OUTBOX: usize = 16 * 1024;

/// Returns the next `requestID`.
fn next_request_id() -> i32 {
    static NEXT: AtomicI32 = AtomicI32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Id of the connection in events and logs (`driverConnectionId`).
    pub(crate) id: u32,
    pub(crate) address: ServerAddress,
    /// Reply to the `hello` of the handshake.
    pub(crate) hello: Arc<HelloReply>,
    stream: Stream,
    inbox: BytesMut,
    outbox: Vec<u8>,
    prepared_size: usize,
    /// Number of bytes of documents to send after the outbox.
    unbuffered_bytes: usize,
    is_new: bool,
    state: ConnectionState,
    compressor: Option<Compressor>,
    /// Compressors allowed in replies: before the reply to `hello` those that the client offers,
    /// afterwards those that the server supports, too.
    negotiated: CompressorSet,
    /// Maximum size of a reply.
    max_reply: usize,
    /// Time limit of a request and its reply, and the name of its option.
    reply_limit: Option<(Duration, &'static str)>,
    interrupt: Arc<Interrupt>,
}

/// State of the message exchange on a connection.
///
/// `Idle -> Sending -> Awaiting -> Idle`; a request without a reply goes from `Sending` to `Idle`,
/// and a stream of replies from `Awaiting` to `Awaiting`. Every failure leads to `Broken`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    /// No request is in progress.
    Idle,
    /// Part of a request may have been sent.
    Sending,
    /// The reply to the request with this id is outstanding.
    Awaiting(i32),
    /// The connection cannot be used any more.
    Broken,
}

/// Reply, and its flag `moreToCome`: the server will send another one without a request.
pub(crate) struct Received {
    pub(crate) body: Bytes,
    pub(crate) more_to_come: bool,
}

impl Connection {
    fn new(
        address: ServerAddress,
        stream: Stream,
        offered: CompressorSet,
        interrupt: Arc<Interrupt>,
    ) -> Self {
        Self {
            id: 0,
            address,
            hello: Arc::default(),
            stream,
            inbox: BytesMut::new(),
            outbox: Vec::new(),
            prepared_size: 0,
            unbuffered_bytes: 0,
            is_new: false,
            state: ConnectionState::Idle,
            compressor: None,
            negotiated: offered,
            max_reply: MAX_HANDSHAKE_REPLY,
            reply_limit: None,
            interrupt,
        }
    }

    /// Returns `true` if no request was sent since the handshake.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns `true` if the connection can send a new request.
    pub(crate) fn is_clean(&self) -> bool {
        self.state == ConnectionState::Idle && self.inbox.is_empty()
    }

    /// Returns `true` if only a reply is outstanding.
    pub(crate) fn awaits_reply(&self) -> bool {
        matches!(self.state, ConnectionState::Awaiting(_))
    }

    /// Returns `true` if the server sent nothing and did not close the connection while it was
    /// idle.
    pub(crate) fn is_healthy(&self) -> bool {
        self.inbox.is_empty() && !self.stream.is_closed_or_readable()
    }

    /// Returns the connection's identity for events and logs.
    pub(crate) fn info(&self) -> ConnectionInfo {
        ConnectionInfo {
            id: self.id,
            server_id: self.hello.connection_id,
            address: self.address.clone(),
        }
    }

    /// Writes a request into the send buffer and assigns its request id; [`Connection::exchange`] sends
    /// it. They are separate, so that the command started event can contain the id. A large document
    /// sequence is not buffered: `exchange` needs it again.
    pub(crate) fn prepare(&mut self, outgoing: &Outgoing<'_>) -> Result<i32> {
        let request_id = next_request_id();
        self.outbox.clear();
        let written = outgoing.write(&mut self.outbox, request_id, self.compressor)?;
        (self.prepared_size, self.unbuffered_bytes) = (written.length, written.unbuffered_bytes);
        Ok(request_id)
    }

    /// Size of the prepared request before compression, which the server's limit applies to.
    pub(crate) fn prepared_size(&self) -> usize {
        self.prepared_size
    }

    /// Sends the prepared request and waits for the reply, if one is expected.
    // Timers are boxed: most calls have none, and their futures must be small.
    pub(crate) async fn exchange(
        &mut self,
        request_id: i32,
        expects_reply: bool,
        sequence: Option<&DocumentSequenceRef<'_>>,
    ) -> Result<Bytes> {
        let Some((limit, option)) = self.reply_limit else {
            return self.exchange_untimed(request_id, expects_reply, sequence).await;
        };
        let exchange = self.exchange_untimed(request_id, expects_reply, sequence);
        match Box::pin(tokio::time::timeout(limit, exchange)).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => {
                // Such a late reply is not drained: the server does not respond.
                self.state = ConnectionState::Broken;
                let text = format!("no reply within {option} ({limit:?})");
                Err(self.with_origin(Error::timed_out(text)))
            }
        }
    }

    /// Like [`exchange`](Self::exchange), with the deadline of a call. A passed deadline does not
    /// break the connection: the outstanding reply can be drained.
    pub(crate) async fn exchange_by(
        &mut self,
        deadline: Deadline,
        request_id: i32,
        expects_reply: bool,
        sequence: Option<&DocumentSequenceRef<'_>>,
    ) -> Result<Bytes> {
        let Some(at) = deadline.at() else {
            return self.exchange_untimed(request_id, expects_reply, sequence).await;
        };
        let exchange = self.exchange_untimed(request_id, expects_reply, sequence);
        match Box::pin(timeout_at(at.into(), exchange)).await {
            Ok(outcome) => outcome,
            Err(_elapsed) if self.state == ConnectionState::Sending => Err(self.with_origin(
                Error::deadline_exceeded("the request was not sent completely before the deadline"),
            )),
            Err(_elapsed) => {
                Err(self.with_origin(Error::deadline_exceeded("no reply before the deadline")))
            }
        }
    }

    async fn exchange_untimed(
        &mut self,
        request_id: i32,
        expects_reply: bool,
        sequence: Option<&DocumentSequenceRef<'_>>,
    ) -> Result<Bytes> {
        self.send(request_id, expects_reply, sequence).await?;
        if !expects_reply {
            return Ok(Bytes::new());
        }
        Ok(self.receive().await?.body)
    }

    /// Sends the prepared request with the document sequence that it was prepared with.
    pub(crate) async fn send(
        &mut self,
        request_id: i32,
        expects_reply: bool,
        sequence: Option<&DocumentSequenceRef<'_>>,
    ) -> Result<()> {
        debug_assert!(self.is_clean(), "a request on a connection in use: {:?}", self.state);
        self.state = ConnectionState::Sending;
        self.is_new = false;
        if let Err(error) = self.flush_outbox(sequence).await {
            self.state = ConnectionState::Broken;
            return Err(self.with_origin(error));
        }
        self.state = if expects_reply {
            ConnectionState::Awaiting(request_id)
        } else {
            ConnectionState::Idle
        };
        if self.outbox.capacity() > MAX_IDLE_OUTBOX {
            self.outbox = Vec::new();
        }
        Ok(())
    }

    async fn flush_outbox(&mut self, sequence: Option<&DocumentSequenceRef<'_>>) -> Result<()> {
        let Self { stream, outbox, interrupt, unbuffered_bytes, .. } = self;
        let following = sequence.map(|it| &it.documents).filter(|_| *unbuffered_bytes > 0);
        debug_assert_eq!(following.map_or(0, Documents::bytes), *unbuffered_bytes);
        interrupt.run(send_request(stream, outbox, following)).await
    }

    /// Waits for the reply. Can be dropped and called again: received bytes are kept.
    pub(crate) async fn receive(&mut self) -> Result<Received> {
        match self.receive_message().await {
            Ok(received) => Ok(received),
            Err(error) => {
                self.state = ConnectionState::Broken;
                Err(self.with_origin(error))
            }
        }
    }

    async fn receive_message(&mut self) -> Result<Received> {
        let max = self.max_reply;
        let length = loop {
            match frame(&self.inbox, max)? {
                Framing::Complete { length } => break length,
                Framing::Incomplete { needed } => {
                    let room = needed.min(MAX_RESERVED);
                    self.inbox.reserve(room.max(INBOX_SIZE.saturating_sub(self.inbox.len())));
                    self.read_more().await?;
                }
            }
        };
        let message = self.inbox.split_to(length).freeze();
        let incoming = decode_negotiated(message, max, self.negotiated)?;
        self.check_reply(incoming)
    }

    /// Checks that a message is the reply to the request in progress (pitfall 23).
    fn check_reply(&mut self, incoming: IncomingMessage) -> Result<Received> {
        let ConnectionState::Awaiting(expected) = self.state else {
            return Err(Error::invalid_response(
                "received a message, but no request is in progress",
            ));
        };
        if incoming.header.response_to != expected {
            return Err(Error::invalid_response(format!(
                "received a reply to request {}, but request {expected} is in progress",
                incoming.header.response_to
            )));
        }
        let request_id = incoming.header.request_id;
        let (body, more_to_come) = match incoming.message {
            Message::Msg(msg) => (msg.body, msg.flags.contains(MsgFlags::MORE_TO_COME)),
            Message::Reply(reply) => (reply.command_reply()?, false),
            _ => return Err(Error::invalid_response("received a request instead of a reply")),
        };
        self.state = if more_to_come {
            ConnectionState::Awaiting(request_id)
        } else {
            ConnectionState::Idle
        };
        // Bytes after a valid reply make the connection unusable, but not the reply: otherwise an
        // acknowledged write would be reported as unknown.
        Ok(Received { body: body.into_bytes(), more_to_come })
    }

    /// Reads an outstanding reply whose call has ended.
    pub(crate) async fn drain(&mut self) -> Result<()> {
        while self.awaits_reply() {
            self.receive().await?;
        }
        Ok(())
    }

    /// Waits for more bytes.
    async fn read_more(&mut self) -> Result<()> {
        let Self { stream, inbox, interrupt, .. } = self;
        let reading = async { stream.read_buf(inbox).await.map_err(Error::of_socket) };
        let read = interrupt.run(reading).await?;
        if read == 0 {
            let text = if self.inbox.is_empty() {
                "the server closed the connection"
            } else {
                "the server closed the connection in the middle of a message"
            };
            return Err(Error::network(NetworkFailure::ClosedByServer, text));
        }
        Ok(())
    }

    fn with_origin(&self, error: Error) -> Error {
        error.with_server(&self.address)
    }
}

/// Sends the send buffer (`outbox`), then a large document sequence from its own buffer. Scattered
/// documents are copied into `outbox` piece by piece.
async fn send_request(
    stream: &mut Stream,
    outbox: &mut Vec<u8>,
    following: Option<&Documents<'_>>,
) -> Result<()> {
    match following {
        None => stream.write_all(outbox).await.map_err(Error::of_socket)?,
        Some(Documents::Whole(documents)) => {
            let mut all = Buf::chain(outbox.as_slice(), *documents);
            stream.write_all_buf(&mut all).await.map_err(Error::of_socket)?;
        }
        Some(Documents::Scattered { source, positions, .. }) => {
            let mut positions = positions.clone();
            outbox.reserve(MAX_PIECE);
            while !positions.is_empty() {
                source.append(&mut positions, outbox, MAX_PIECE)?;
                stream.write_all(outbox).await.map_err(Error::of_socket)?;
                outbox.clear();
            }
        }
    }
    stream.flush().await.map_err(Error::of_socket)
}
