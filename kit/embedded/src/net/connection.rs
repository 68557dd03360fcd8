//! A connection from its first request to its end.

use std::{net::SocketAddr, sync::Arc, sync::atomic::Ordering, time::Duration};

use bson::Document;
use steadfast_query::Fault;
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::watch};

use crate::{auth::Identity, era, node::Power, server::Server};
use blackpipe_base::message::{Envelope, Inbox, MessageError, Request};

/// Serves a connection until it ends.
pub(super) async fn serve(server: Arc<Server>, stream: TcpStream, peer: SocketAddr) {
    let id = server.traffic.opened.fetch_add(1, Ordering::Relaxed) + 1;
    let line = Line { power: server.host.power(), server, stream };
    line.server.traffic.open.fetch_add(1, Ordering::Relaxed);
    if line.server.establishing.is_on() && !line.server.establishing.queue().await {
        return;
    }
    let mut connection = Connection {
        line,
        inbox: Inbox::new(),
        out: Vec::new(),
        id,
        peer,
        app_name: None,
        has_introduced_itself: false,
        identity: Identity::default(),
    };
    while connection.serve_next().await.is_ok() {}
}

/// A socket that is reset if its server was killed and closed otherwise.
#[derive(Debug)]
struct Line {
    server: Arc<Server>,
    stream: TcpStream,
    power: watch::Receiver<Power>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.server.traffic.open.fetch_sub(1, Ordering::Relaxed);
        if *self.power.borrow() == Power::Off {
            // Fails only if the peer has closed the connection.
            let _ = self.stream.set_zero_linger();
        }
    }
}

/// State of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    line: Line,
    inbox: Inbox,
    out: Vec<u8>,
    pub(super) id: i32,
    pub(super) peer: SocketAddr,
    pub(super) app_name: Option<String>,
    /// `true` after the client has sent its metadata (`client` of the handshake).
    pub(super) has_introduced_itself: bool,
    pub(super) identity: Identity,
}

/// End of a connection. The client sees only the closed socket.
#[derive(Debug)]
pub(super) struct End;

impl From<MessageError> for End {
    fn from(_: MessageError) -> Self {
        Self
    }
}

/// Response to a request.
pub(super) enum Outcome {
    Reply(Document),
    Close,
}

impl From<Result<Document, Fault>> for Outcome {
    fn from(result: Result<Document, Fault>) -> Self {
        Self::Reply(result.unwrap_or_else(|fault| fault.to_reply()))
    }
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Self {
        Self::Reply(fault.to_reply())
    }
}

impl Connection {
    pub(super) fn server(&self) -> &Arc<Server> {
        &self.line.server
    }

    async fn serve_next(&mut self) -> Result<(), End> {
        let Some(message) = self.inbox.next(&mut self.line.stream).await? else { return Err(End) };
        self.awake().await?;
        let mut request = Request::decode(message, usize::try_from(self.id).unwrap_or_default())?;
        self.server().traffic.requests.fetch_add(1, Ordering::Relaxed);
        let (before, after) = self.server().delays();
        self.pause(before).await?;
        if request.is_hello() {
            return self.greet(&request, after).await;
        }
        match self.decide(&mut request).await? {
            Outcome::Reply(_) if !request.wants_reply => Ok(()),
            Outcome::Reply(reply) => {
                let mut reply = era::aged(reply, &self.server().host.about().version);
                self.pause(after).await?;
                self.server().host.stamp(&mut reply);
                self.reply(&request, &reply, request.id, false).await.map(drop)
            }
            Outcome::Close => Err(End),
        }
    }

    /// Sends a reply and returns its request id.
    pub(super) async fn reply(
        &mut self,
        request: &Request,
        reply: &Document,
        response_to: i32,
        more_to_come: bool,
    ) -> Result<i32, End> {
        self.awake().await?;
        let request_id = self.server().traffic.messages.fetch_add(1, Ordering::Relaxed) + 1;
        self.out.clear();
        let envelope = Envelope { request_id, response_to, more_to_come };
        request.write_reply(reply, envelope, &mut self.out);
        self.line.stream.write_all(&self.out).await.map_err(|_| End)?;
        // Large replies must not keep their buffer for the rest of the connection.
        self.out.shrink_to(64 * 1024);
        Ok(request_id)
    }

    /// Waits while the server is frozen.
    async fn awake(&mut self) -> Result<(), End> {
        let power = *self.line.power.borrow();
        let power = match power {
            Power::Frozen => {
                let thawed = self.line.power.wait_for(|power| *power != Power::Frozen).await;
                thawed.map_or(Power::Off, |power| *power)
            }
            Power::On | Power::Off => power,
        };
        match power {
            Power::Off => Err(End),
            Power::On | Power::Frozen => Ok(()),
        }
    }

    /// Sleeps, unless the client disconnects.
    pub(super) async fn pause(&mut self, time: Duration) -> Result<(), End> {
        match time.is_zero() {
            true => Ok(()),
            false => self.wait(tokio::time::sleep(time)).await,
        }
    }

    /// Waits for a future, unless the client disconnects.
    pub(super) async fn wait<T>(&mut self, what: impl Future<Output = T>) -> Result<T, End> {
        unless_gone(&mut self.inbox, &mut self.line.stream, what).await
    }

    /// Runs a command. An acknowledged command is cancelled if the client disconnects.
    pub(super) async fn run_to_end(
        &mut self,
        request: &Request,
        running: impl Future<Output = Document>,
    ) -> Result<Document, End> {
        match request.wants_reply {
            true => self.wait(running).await,
            // The client of an unacknowledged command may have disconnected already.
            false => Ok(running.await),
        }
    }

    /// Returns `true` if the client has sent more requests.
    pub(super) fn has_more(&self) -> bool {
        !self.inbox.buffered().is_empty()
    }
}

/// Waits for a future, or returns an error when the client disconnects.
async fn unless_gone<T>(
    inbox: &mut Inbox,
    stream: &mut TcpStream,
    what: impl Future<Output = T>,
) -> Result<T, End> {
    tokio::pin!(what);
    let said = tokio::select! {
        biased;
        done = &mut what => return Ok(done),
        said = inbox.peek(stream, 1) => !said?.is_empty(),
    };
    // Requests that arrive meanwhile stay in the buffer.
    match said {
        true => Ok(what.await),
        false => Err(End),
    }
}
