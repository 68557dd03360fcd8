//! A connection from its first request to its end.

use std::{net::SocketAddr, sync::Arc, sync::atomic::Ordering, time::Duration};

use bson::Document;
use steadfast_query::Fault;
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::watch};

use crate::{auth::AuthState, node::ProcessState, server::Server, version_gate};
use blackpipe_base::message::{MessageError, MessageReader, ReplyHeader, Request};

/// Serves a connection until it ends.
pub(super) async fn serve(server: Arc<Server>, stream: TcpStream, peer: SocketAddr) {
    let id = server.traffic.opened.fetch_add(1, Ordering::Relaxed) + 1;
    let socket = ServerSocket { process_state: server.host.process_state(), server, stream };
    socket.server.traffic.open.fetch_add(1, Ordering::Relaxed);
    if socket.server.new_connections.is_on()
        && !socket.server.new_connections.wait_for_token().await
    {
        return;
    }
    let mut connection = Connection {
        socket,
        inbox: MessageReader::new(),
        out: Vec::new(),
        id,
        peer,
        app_name: None,
        has_client_metadata: false,
        auth: AuthState::default(),
    };
    while connection.serve_next().await.is_ok() {}
}

/// A socket that is reset if its server was killed and closed otherwise.
#[derive(Debug)]
struct ServerSocket {
    server: Arc<Server>,
    stream: TcpStream,
    process_state: watch::Receiver<ProcessState>,
}

impl Drop for ServerSocket {
    fn drop(&mut self) {
        self.server.traffic.open.fetch_sub(1, Ordering::Relaxed);
        if *self.process_state.borrow() == ProcessState::Killed {
            // Fails only if the peer has closed the connection.
            let _ = self.stream.set_zero_linger();
        }
    }
}

/// State of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    socket: ServerSocket,
    inbox: MessageReader,
    out: Vec<u8>,
    pub(super) id: i32,
    pub(super) peer: SocketAddr,
    pub(super) app_name: Option<String>,
    /// `true` after the client has sent its metadata (`client` of the handshake).
    pub(super) has_client_metadata: bool,
    pub(super) auth: AuthState,
}

/// End of a connection. The client sees only the closed socket.
#[derive(Debug)]
pub(super) struct ConnectionEnd;

impl From<MessageError> for ConnectionEnd {
    fn from(_: MessageError) -> Self {
        Self
    }
}

/// Response to a request.
pub(super) enum RequestOutcome {
    Reply(Document),
    Close,
}

impl From<Result<Document, Fault>> for RequestOutcome {
    fn from(result: Result<Document, Fault>) -> Self {
        Self::Reply(result.unwrap_or_else(|fault| fault.to_reply()))
    }
}

impl From<Fault> for RequestOutcome {
    fn from(fault: Fault) -> Self {
        Self::Reply(fault.to_reply())
    }
}

impl Connection {
    pub(super) fn server(&self) -> &Arc<Server> {
        &self.socket.server
    }

    async fn serve_next(&mut self) -> Result<(), ConnectionEnd> {
        let Some(message) = self.inbox.next(&mut self.socket.stream).await? else {
            return Err(ConnectionEnd);
        };
        self.wait_until_thawed().await?;
        let mut request = Request::decode(message, usize::try_from(self.id).unwrap_or_default())?;
        self.server().traffic.requests.fetch_add(1, Ordering::Relaxed);
        let (before, after) = self.server().delays();
        self.sleep(before).await?;
        if request.is_hello() {
            return self.reply_to_hello(&request, after).await;
        }
        match self.dispatch(&mut request).await? {
            RequestOutcome::Reply(_) if !request.expects_reply => Ok(()),
            RequestOutcome::Reply(reply) => {
                let mut reply =
                    version_gate::adapt_reply(reply, &self.server().host.server_info().version);
                self.sleep(after).await?;
                self.server().host.add_cluster_times(&mut reply);
                self.reply(&request, &reply, request.id, false).await.map(drop)
            }
            RequestOutcome::Close => Err(ConnectionEnd),
        }
    }

    /// Sends a reply and returns its request id.
    pub(super) async fn reply(
        &mut self,
        request: &Request,
        reply: &Document,
        response_to: i32,
        more_to_come: bool,
    ) -> Result<i32, ConnectionEnd> {
        self.wait_until_thawed().await?;
        let request_id = self.server().traffic.messages.fetch_add(1, Ordering::Relaxed) + 1;
        self.out.clear();
        let envelope = ReplyHeader { request_id, response_to, more_to_come };
        request.write_reply(reply, envelope, &mut self.out);
        self.socket.stream.write_all(&self.out).await.map_err(|_| ConnectionEnd)?;
        // Large replies must not keep their buffer for the rest of the connection.
        self.out.shrink_to(64 * 1024);
        Ok(request_id)
    }

    /// Waits while the server is frozen.
    async fn wait_until_thawed(&mut self) -> Result<(), ConnectionEnd> {
        let process_state = *self.socket.process_state.borrow();
        let process_state = match process_state {
            ProcessState::Frozen => {
                let thawed = self
                    .socket
                    .process_state
                    .wait_for(|process_state| *process_state != ProcessState::Frozen)
                    .await;
                thawed.map_or(ProcessState::Killed, |process_state| *process_state)
            }
            ProcessState::Running | ProcessState::Killed => process_state,
        };
        match process_state {
            ProcessState::Killed => Err(ConnectionEnd),
            ProcessState::Running | ProcessState::Frozen => Ok(()),
        }
    }

    /// Sleeps, unless the client disconnects.
    pub(super) async fn sleep(&mut self, time: Duration) -> Result<(), ConnectionEnd> {
        match time.is_zero() {
            true => Ok(()),
            false => self.wait(tokio::time::sleep(time)).await,
        }
    }

    /// Waits for a future, unless the client disconnects.
    pub(super) async fn wait<T>(
        &mut self,
        what: impl Future<Output = T>,
    ) -> Result<T, ConnectionEnd> {
        unless_disconnected(&mut self.inbox, &mut self.socket.stream, what).await
    }

    /// Runs a command. An acknowledged command is cancelled if the client disconnects.
    pub(super) async fn run_command(
        &mut self,
        request: &Request,
        running: impl Future<Output = Document>,
    ) -> Result<Document, ConnectionEnd> {
        match request.expects_reply {
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
async fn unless_disconnected<T>(
    inbox: &mut MessageReader,
    stream: &mut TcpStream,
    what: impl Future<Output = T>,
) -> Result<T, ConnectionEnd> {
    tokio::pin!(what);
    let has_bytes = tokio::select! {
        biased;
        done = &mut what => return Ok(done),
        has_bytes = inbox.peek(stream, 1) => !has_bytes?.is_empty(),
    };
    // Requests that arrive meanwhile stay in the buffer.
    match has_bytes {
        true => Ok(what.await),
        false => Err(ConnectionEnd),
    }
}
