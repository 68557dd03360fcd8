//! One connection of a client.

use std::time::Duration;

use bson::Document;
use tokio::io::AsyncWriteExt;

use super::{
    Step,
    command_name::{PEEK_BYTES, command_name},
    hello_state::awaited_topology_version,
    inner::{RequestDecision, ServerInner},
    transcript::TranscriptEvent,
    transport::Transport,
};
use blackpipe_base::message::{MessageError, MessageReader, ReplyHeader, Request};

/// Offset to an id that no request in flight has.
const OTHER_ID_OFFSET: i32 = 1_000_000;

/// Serves a connection until it ends, and records the reason.
pub(super) async fn serve(server: &ServerInner, stream: impl Transport, connection: usize) {
    let mut serving =
        ServedConnection { inner: server, stream, inbox: MessageReader::new(), number: connection };
    let end = serving.serve_all().await;
    if matches!(end, ConnectionEnd::Reset | ConnectionEnd::Cut(_)) {
        serving.stream.reset_when_dropped();
    }
    drop(serving);
    if let (ConnectionEnd::InvalidMessage(error), false) = (&end, server.behavior.is_lenient) {
        server.script.failed(format!("connection {connection}: invalid message: {error}"));
    }
    server.note(connection, TranscriptEvent::Closed(end.to_string()));
}

/// Reason for the end of a connection.
#[derive(Debug, thiserror::Error)]
enum ConnectionEnd {
    #[error("the client closed the connection")]
    ByClient,
    #[error("connection to the client lost: {0}")]
    Lost(MessageError),
    #[error("invalid message from the client: {0}")]
    InvalidMessage(MessageError),
    #[error("closed by the script")]
    HangUp,
    #[error("reset by the script")]
    Reset,
    #[error("reset by the script after {0} bytes of a request")]
    Cut(usize),
}

impl From<MessageError> for ConnectionEnd {
    fn from(error: MessageError) -> Self {
        match error {
            MessageError::Io(_) | MessageError::Truncated { .. } => Self::Lost(error),
            _ => Self::InvalidMessage(error),
        }
    }
}

struct ServedConnection<'a, S> {
    inner: &'a ServerInner,
    stream: S,
    inbox: MessageReader,
    number: usize,
}

impl<S: Transport> ServedConnection<'_, S> {
    async fn serve_all(&mut self) -> ConnectionEnd {
        let mut earlier = 0;
        loop {
            match self.serve_next(earlier).await {
                Ok(()) => earlier += 1,
                Err(end) => return end,
            }
        }
    }

    async fn serve_next(&mut self, earlier: usize) -> Result<(), ConnectionEnd> {
        let first_bytes = self.inbox.peek(&mut self.stream, PEEK_BYTES).await?;
        if first_bytes.is_empty() {
            return Err(ConnectionEnd::ByClient);
        }
        if let Some(bytes) = self.inner.cut(self.number, command_name(first_bytes)) {
            return Err(self.cut(bytes).await?);
        }
        let Some(message) = self.inbox.next(&mut self.stream).await? else {
            return Err(ConnectionEnd::ByClient);
        };
        let mut request = Request::decode(message, self.number)?;
        request.earlier_requests = earlier;
        request.member = self.inner.member;
        self.note(TranscriptEvent::came(&request));
        let steps = match self.inner.decide(&request) {
            RequestDecision::Steps(steps) => steps,
            RequestDecision::AskTest(test) => self.unless_closed(test).await?.unwrap_or_default(),
        };
        for step in steps {
            self.perform(&request, step).await?;
        }
        Ok(())
    }

    /// Reads `bytes` bytes of a request.
    async fn cut(&mut self, bytes: usize) -> Result<ConnectionEnd, ConnectionEnd> {
        let had = self.inbox.peek(&mut self.stream, bytes).await?.len();
        self.inner.log.send_modify(|log| log.cut += 1);
        Ok(ConnectionEnd::Cut(had))
    }

    async fn perform(&mut self, request: &Request, step: Step) -> Result<(), ConnectionEnd> {
        match step {
            Step::Reply(_) | Step::DefaultReply | Step::Hello(_) if !request.expects_reply => {
                Ok(())
            }
            Step::Reply(reply) => self.reply(request, &reply, request.id, false).await.map(drop),
            Step::DefaultReply if request.is_hello() => self.reply_to_hello(request).await,
            Step::DefaultReply => {
                let reply = self.inner.default_reply(request);
                self.reply(request, &reply, request.id, false).await.map(drop)
            }
            Step::Hello(fields) => {
                let hello = self.inner.hello.borrow().hello(self.number, &fields);
                self.reply(request, &hello, request.id, false).await.map(drop)
            }
            Step::ReplyWithMoreToCome(reply) => {
                self.reply(request, &reply, request.id, true).await.map(drop)
            }
            Step::ReplyToAnother(reply) => {
                let another = request.id.wrapping_add(OTHER_ID_OFFSET);
                self.reply(request, &reply, another, false).await.map(drop)
            }
            Step::PartOfReply(reply, count) => self.reply_in_part(request, &reply, count).await,
            Step::RawBytes(bytes) => {
                self.note(TranscriptEvent::Did(format!("sent {} raw bytes", bytes.len())));
                self.send(&bytes).await
            }
            Step::WaitFor(gate) => self.unless_closed(gate.opened()).await,
            Step::Delay(time) => self.unless_closed(tokio::time::sleep(time)).await,
            Step::NoReply => Ok(()),
            Step::HangUp => Err(ConnectionEnd::HangUp),
            Step::Reset => Err(ConnectionEnd::Reset),
        }
    }

    /// Replies to `hello` according to the role. With `topologyVersion`, waits for a change or
    /// `maxAwaitTimeMS`; with `exhaustAllowed`, streams further replies.
    async fn reply_to_hello(&mut self, request: &Request) -> Result<(), ConnectionEnd> {
        let mut hello = self.inner.hello.subscribe();
        let streams = hello.borrow().version.is_some();
        let mut known = awaited_topology_version(request).filter(|_| streams).cloned();
        let more_to_come = request.exhaust_allowed && known.is_some();
        let max_await = request.body.get("maxAwaitTimeMS").and_then(milliseconds);
        let mut response_to = request.id;
        loop {
            if let Some(known) = &known {
                let change = hello.wait_for(|hello| hello.differs_from(known));
                let change = tokio::time::timeout(max_await.unwrap_or(Duration::ZERO), change);
                self.unless_closed(async { drop(change.await) }).await?;
            }
            let hello = hello.borrow_and_update().hello(self.number, &Document::new());
            response_to = self.reply(request, &hello, response_to, more_to_come).await?;
            // A client that sends another request ends the stream.
            if !more_to_come || !self.inbox.buffered().is_empty() {
                return Ok(());
            }
            known = hello.get_document("topologyVersion").ok().cloned();
        }
    }

    /// Sends a reply. Returns its `requestID`.
    async fn reply(
        &mut self,
        request: &Request,
        reply: &Document,
        response_to: i32,
        more_to_come: bool,
    ) -> Result<i32, ConnectionEnd> {
        let request_id = self.inner.next_id();
        let bytes = request.reply_as(reply, ReplyHeader { request_id, response_to, more_to_come });
        let how = match (more_to_come, response_to == request.id) {
            (true, _) => " (moreToCome)",
            (false, true) => "",
            (false, false) => " (responseTo of another request)",
        };
        self.note(TranscriptEvent::sent(reply, how));
        self.send(&bytes).await?;
        Ok(request_id)
    }

    async fn reply_in_part(
        &mut self,
        request: &Request,
        reply: &Document,
        count: usize,
    ) -> Result<(), ConnectionEnd> {
        let bytes = request.reply(reply);
        let count = count.min(bytes.len());
        let how = format!(" (first {count} of {} bytes)", bytes.len());
        self.note(TranscriptEvent::sent(reply, &how));
        self.send(&bytes[..count]).await
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), ConnectionEnd> {
        self.stream
            .write_all(bytes)
            .await
            .map_err(|error| ConnectionEnd::Lost(MessageError::Io(error)))
    }

    /// Waits for a future. Fails if the client closes the connection first.
    async fn unless_closed<T>(
        &mut self,
        what: impl Future<Output = T>,
    ) -> Result<T, ConnectionEnd> {
        tokio::pin!(what);
        let has_bytes = tokio::select! {
            biased;
            done = &mut what => return Ok(done),
            has_bytes = self.inbox.peek(&mut self.stream, 1) => !has_bytes?.is_empty(),
        };
        // A request that arrived meanwhile is read later.
        match has_bytes {
            true => Ok(what.await),
            false => Err(ConnectionEnd::ByClient),
        }
    }

    fn note(&self, event: TranscriptEvent) {
        self.inner.note(self.number, event);
    }
}

fn milliseconds(value: &bson::Bson) -> Option<Duration> {
    let number = value.as_i64().or(value.as_i32().map(i64::from))?;
    u64::try_from(number).ok().map(Duration::from_millis)
}
