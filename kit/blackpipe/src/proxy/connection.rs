//! One proxied connection: requests in one direction, replies in the other, and the faults of
//! rules.

mod in_flight;
mod replies;
mod requests;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, Interest},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    time::{sleep, timeout},
};

use self::in_flight::InFlightRequests;
use super::{
    dial::ServerStream,
    event::{MessageSummary, ProxyEvent, is_sensitive},
    members::Member,
    message_view::MessageView,
    rulebook::MatchContext,
    state::ProxyState,
};

/// Time-out for replies that are still expected after the client closed its connection.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Reason for the end of a connection.
#[derive(Debug)]
enum CloseReason {
    ClientClosed,
    ServerClosed,
    /// A rule ended the connection.
    Cut {
        reset: bool,
    },
    Broken(String),
}

impl CloseReason {
    fn of_client(error: &io::Error) -> Self {
        Self::Broken(format!("connection to the client failed: {error}"))
    }

    fn of_server(error: &io::Error) -> Self {
        Self::Broken(format!("connection to the server failed: {error}"))
    }

    fn description(&self) -> String {
        match self {
            Self::ClientClosed => "the client closed the connection".to_owned(),
            Self::ServerClosed => "the server closed the connection".to_owned(),
            Self::Cut { reset: false } => "closed by a rule".to_owned(),
            Self::Cut { reset: true } => "reset by a rule".to_owned(),
            Self::Broken(why) => why.clone(),
        }
    }
}

/// State shared by both directions of a connection, which run in one task.
struct ProxiedConnection<'a> {
    state: &'a ProxyState,
    member: &'a Member,
    number: u64,
    in_flight: Mutex<InFlightRequests>,
    app_name: Mutex<Option<String>>,
}

/// Writer to the client, for replies of the server and of the proxy; one message at a time.
type ToClient<'a> = tokio::sync::Mutex<WriteHalf<'a>>;

/// Serves the connection of a client until it ends.
pub(crate) async fn serve(
    state: Arc<ProxyState>,
    member: Arc<Member>,
    mut client: TcpStream,
    from: SocketAddr,
) {
    let number = state.next_connection();
    let server = &*member.name;
    let names = member.names();
    let now = MatchContext {
        server: &names,
        connection: number,
        app_name: None,
        command: "",
        namespace: "",
        is_retry: false,
    };
    state.emit(&ProxyEvent::Connected { connection: number, server, client: from });
    let why = match state.rejects_connection(&now) {
        Some(rule) => {
            let rules = [rule];
            let what = "refused the connection";
            state.emit(&ProxyEvent::Fault { connection: number, server, rules: &rules, what });
            close(client, true);
            "refused by a rule".to_owned()
        }
        None => match state.dialer.connect(&member.address).await {
            Ok(upstream) => {
                let end = connect(&state, &member, number, &mut client, upstream).await;
                close(client, matches!(end, CloseReason::Cut { reset: true }));
                end.description()
            }
            Err(error) => {
                // A reset is the closest to the error that a direct connection would get.
                close(client, true);
                format!("cannot connect to the server: {error}")
            }
        },
    };
    state.emit(&ProxyEvent::Closed { connection: number, server, why: &why });
}

async fn connect(
    state: &ProxyState,
    member: &Member,
    number: u64,
    client: &mut TcpStream,
    upstream: ServerStream,
) -> CloseReason {
    // Nagle's algorithm would delay small messages.
    if let Err(error) = client.set_nodelay(true) {
        return CloseReason::of_client(&error);
    }
    let line = ProxiedConnection {
        state,
        member,
        number,
        in_flight: Mutex::default(),
        app_name: Mutex::default(),
    };
    let (from_client, to_client) = client.split();
    match upstream {
        ServerStream::Plain(mut server) => {
            let (from_server, to_server) = server.split();
            line.run(from_client, to_client, from_server, to_server).await
        }
        #[cfg(feature = "tls")]
        ServerStream::Encrypted(server) => {
            let (from_server, to_server) = tokio::io::split(server);
            line.run(from_client, to_client, from_server, to_server).await
        }
    }
}

/// Closes the client's connection, orderly or with a reset.
fn close(client: TcpStream, reset: bool) {
    if reset {
        // The connection ends even if this fails.
        let _ = client.set_zero_linger();
        return;
    }
    // Closing a socket with unread bytes resets it, so they are read and discarded.
    let mut unread = [0; 4096];
    for _ in 0..1024 {
        if !matches!(client.try_read(&mut unread), Ok(1..)) {
            break;
        }
    }
}

impl ProxiedConnection<'_> {
    async fn run<R, W>(
        &self,
        from_client: ReadHalf<'_>,
        to_client: WriteHalf<'_>,
        from_server: R,
        to_server: W,
    ) -> CloseReason
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let to_client = ToClient::new(to_client);
        let end = self.run_both_directions(from_client, from_server, to_server, &to_client).await;
        if !matches!(end, CloseReason::Cut { reset: true }) {
            let _ = to_client.into_inner().shutdown().await;
        }
        end
    }

    /// Forwards both directions until one ends. Dropping this future releases the writer to the
    /// client, which a stalled or unread reply may hold.
    async fn run_both_directions<R, W>(
        &self,
        from_client: ReadHalf<'_>,
        from_server: R,
        to_server: W,
        to_client: &ToClient<'_>,
    ) -> CloseReason
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let requests = self.forward_requests(from_client, to_server, to_client);
        let replies = self.forward_replies(from_server, to_client);
        tokio::pin!(requests, replies);
        let end = tokio::select! {
            biased;
            end = &mut replies => end,
            end = &mut requests => end,
        };
        if matches!(end, CloseReason::ClientClosed) {
            // The server's side was shut down. Its last replies are recorded in the ledger.
            let _ = timeout(DRAIN_TIMEOUT, replies).await;
        }
        end
    }

    fn in_flight(&self) -> MutexGuard<'_, InFlightRequests> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn app_name(&self) -> MutexGuard<'_, Option<String>> {
        self.app_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn emit_fault(&self, rules: &[String], what: &str) {
        if self.state.has_observer() {
            let server = &*self.member.name;
            self.state.emit(&ProxyEvent::Fault { connection: self.number, server, rules, what });
        }
    }
}

fn shown<'a>(
    view: &'a MessageView<'_>,
    command: &'a str,
    namespace: &'a str,
    bytes: usize,
) -> MessageSummary<'a> {
    let body = view.validated_document();
    MessageSummary {
        command,
        namespace,
        bytes,
        request_id: view.request_id,
        response_to: view.response_to,
        body: body.filter(|_| !is_sensitive(command, body)),
    }
}

/// Returns when the client closed its connection, even if unread bytes precede the end.
async fn client_closed(client: &TcpStream) {
    const POLL_INTERVAL: Duration = Duration::from_millis(50);
    loop {
        sleep(POLL_INTERVAL).await;
        match timeout(Duration::ZERO, client.ready(Interest::READABLE)).await {
            Ok(Ok(ready)) if ready.is_read_closed() => return,
            Ok(Err(_)) => return,
            Ok(Ok(_)) | Err(_) => {}
        }
    }
}
