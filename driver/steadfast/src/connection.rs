//! A connection to a server: requests, replies, and the state of the exchange.
//!
//! The state is correct at every `.await`. A future dropped during a round trip leaves a connection
//! with a partial request, which must be closed, or with an outstanding reply, which can be drained.

mod establish;
mod interrupt;
pub(crate) mod metadata;
mod outgoing;
mod sending;
mod stream;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use steadfast_core::{address::ServerAddress, hello::HelloReply};
use steadfast_wire::{
    Compressor, CompressorSet, DEFAULT_MAX_MESSAGE_SIZE, Framing, IncomingMessage, Message,
    MsgFlags, decode_negotiated, frame,
};
use tokio::{io::AsyncReadExt, time::timeout_at};

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

/// The room that a quiet connection keeps for replies.
const INBOX_SIZE: usize = 4 * 1024;
/// The most room that is made on the word of a message's header alone; beyond this, what has come
/// already vouches for the rest (pitfall 42).
const MOST_RESERVED: usize = 16 * 1024 * 1024;
/// The largest reply that is read before a connection is established, and by monitors, compressed
/// or not. Nobody has authenticated yet, and the reply to `hello` takes some kilobytes.
const MAX_HANDSHAKE_REPLY: usize = 1024 * 1024;
/// The largest reply that is read on an established connection, compressed or not. It is not the
/// server's to say (`maxMessageSizeBytes`): a reply may exceed the limit of requests by the overhead
/// of a full batch, and no server sends more.
const MAX_REPLY: usize = DEFAULT_MAX_MESSAGE_SIZE + 16 * 1024 * 1024;
/// A send buffer that grew beyond this is given up after use.
const OUTBOX_KEPT: usize = 16 * 1024;

/// The number of the next message; unique for as long as it matters.
fn next_request_id() -> i32 {
    static NEXT: AtomicI32 = AtomicI32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The driver's number for it.
    pub(crate) id: u32,
    pub(crate) address: ServerAddress,
    /// Reply to the `hello` of the handshake.
    pub(crate) hello: Arc<HelloReply>,
    stream: Stream,
    inbox: BytesMut,
    outbox: Vec<u8>,
    prepared_size: usize,
    /// Number of bytes of documents to send after the outbox.
    to_follow: usize,
    is_new: bool,
    state: ConnectionState,
    compressor: Option<Compressor>,
    /// Compressors that a reply may be compressed by: those that the client offers; once the server
    /// has answered, those that both have.
    negotiated: CompressorSet,
    /// The largest reply that is read.
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
    /// Nothing.
    Idle,
    /// Part of a request may have gone out.
    Sending,
    /// The message with this number is to be answered.
    Awaiting(i32),
    /// Nothing that comes can be made sense of any more.
    Broken,
}

/// A reply, and whether the server will send another of its own accord.
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
            to_follow: 0,
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
    pub(crate) fn is_undisturbed(&self) -> bool {
        self.inbox.is_empty() && !self.stream.is_disturbed()
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
        (self.prepared_size, self.to_follow) = (written.length, written.to_follow);
        Ok(request_id)
    }

    /// Size of the prepared request before compression, which the server's limit applies to.
    pub(crate) fn prepared_size(&self) -> usize {
        self.prepared_size
    }

    /// Sends what was prepared and waits for the reply, if one is to come.
    // Timers are boxed: most calls do without, and their futures are to be small.
    pub(crate) async fn exchange(
        &mut self,
        request_id: i32,
        answered: bool,
        sequence: Option<&DocumentSequenceRef<'_>>,
    ) -> Result<Bytes> {
        let Some((limit, option)) = self.reply_limit else {
            return self.exchange_untimed(request_id, answered, sequence).await;
        };
        let exchange = self.exchange_untimed(request_id, answered, sequence);
        match Box::pin(tokio::time::timeout(limit, exchange)).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => {
                // A reply that is late by this much is not waited for: the server is stuck.
                self.state = ConnectionState::Broken;
                let text = format!("no reply within {option} ({limit:?})");
                Err(self.blame(Error::timed_out(text)))
            }
        }
    }

    /// The same for a call with a time limit, whose end leaves the connection as it is: a reply that
    /// is still to come can be drained.
    pub(crate) async fn exchange_by(
        &mut self,
        deadline: Deadline,
        request_id: i32,
        answered: bool,
        sequence: Option<&DocumentSequenceRef<'_>>,
    ) -> Result<Bytes> {
        let Some(at) = deadline.at() else {
            return self.exchange_untimed(request_id, answered, sequence).await;
        };
        let exchange = self.exchange_untimed(request_id, answered, sequence);
        match Box::pin(timeout_at(at.into(), exchange)).await {
            Ok(outcome) => outcome,
            Err(_elapsed) if self.state == ConnectionState::Sending => {
                Err(self.blame(Error::out_of_time("the request could not be sent whole")))
            }
            Err(_elapsed) => Err(self.blame(Error::out_of_time("no reply came"))),
        }
    }

    async fn exchange_untimed(
        &mut self,
        request_id: i32,
        answered: bool,
        sequence: Option<&DocumentSequenceRef<'_>>,
    ) -> Result<Bytes> {
        self.send(request_id, answered, sequence).await?;
        if !answered {
            return Ok(Bytes::new());
        }
        Ok(self.receive().await?.body)
    }

    /// Sends what was prepared, with the documents that it was prepared with.
    pub(crate) async fn send(
        &mut self,
        request_id: i32,
        answered: bool,
        sequence: Option<&DocumentSequenceRef<'_>>,
    ) -> Result<()> {
        debug_assert!(self.is_clean(), "a request on a connection in use: {:?}", self.state);
        self.state = ConnectionState::Sending;
        self.is_new = false;
        if let Err(error) = self.flush_outbox(sequence).await {
            self.state = ConnectionState::Broken;
            return Err(self.blame(error));
        }
        self.state =
            if answered { ConnectionState::Awaiting(request_id) } else { ConnectionState::Idle };
        if self.outbox.capacity() > OUTBOX_KEPT {
            self.outbox = Vec::new();
        }
        Ok(())
    }

    async fn flush_outbox(&mut self, sequence: Option<&DocumentSequenceRef<'_>>) -> Result<()> {
        let Self { stream, outbox, interrupt, to_follow, .. } = self;
        let following = sequence.map(|it| &it.documents).filter(|_| *to_follow > 0);
        debug_assert_eq!(following.map_or(0, Documents::bytes), *to_follow);
        interrupt.or(sending::send(stream, outbox, following)).await
    }

    /// Waits for the reply. May be dropped and called again: what came so far is kept.
    pub(crate) async fn receive(&mut self) -> Result<Received> {
        match self.receive_message().await {
            Ok(received) => Ok(received),
            Err(error) => {
                self.state = ConnectionState::Broken;
                Err(self.blame(error))
            }
        }
    }

    async fn receive_message(&mut self) -> Result<Received> {
        let max = self.max_reply;
        let length = loop {
            match frame(&self.inbox, max)? {
                Framing::Complete { length } => break length,
                Framing::Incomplete { needed } => {
                    let room = needed.min(MOST_RESERVED);
                    self.inbox.reserve(room.max(INBOX_SIZE.saturating_sub(self.inbox.len())));
                    self.fill().await?;
                }
            }
        };
        let message = self.inbox.split_to(length).freeze();
        let incoming = decode_negotiated(message, max, self.negotiated)?;
        self.accept(incoming)
    }

    /// Checks that a message is the reply to the request under way (pitfall 23).
    fn accept(&mut self, incoming: IncomingMessage) -> Result<Received> {
        let ConnectionState::Awaiting(expected) = self.state else {
            return Err(Error::invalid_response("a message that nobody asked for"));
        };
        if incoming.header.response_to != expected {
            return Err(Error::invalid_response(format!(
                "a reply to request {}, but request {expected} is under way",
                incoming.header.response_to
            )));
        }
        let request_id = incoming.header.request_id;
        let (body, more_to_come) = match incoming.message {
            Message::Msg(msg) => (msg.body, msg.flags.contains(MsgFlags::MORE_TO_COME)),
            Message::Reply(reply) => (reply.command_reply()?, false),
            _ => return Err(Error::invalid_response("a request where a reply was due")),
        };
        self.state = if more_to_come {
            ConnectionState::Awaiting(request_id)
        } else {
            ConnectionState::Idle
        };
        // Stray bytes after a good reply spoil the connection, which is then not clean, but not the
        // reply: a write that was answered must not be called lost.
        Ok(Received { body: body.into_bytes(), more_to_come })
    }

    /// Reads the reply that nobody waits for any more.
    pub(crate) async fn drain(&mut self) -> Result<()> {
        while self.awaits_reply() {
            self.receive().await?;
        }
        Ok(())
    }

    /// Waits for more bytes.
    async fn fill(&mut self) -> Result<()> {
        let Self { stream, inbox, interrupt, .. } = self;
        let reading = async { stream.read_buf(inbox).await.map_err(Error::of_socket) };
        let read = interrupt.or(reading).await?;
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

    fn blame(&self, error: Error) -> Error {
        error.with_server(&self.address)
    }
}
