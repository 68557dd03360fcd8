//! One connection: requests one way, replies the other, and what rules do to both.

mod pending;
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

use self::pending::Waiting;
use super::{
    dial::Stream,
    event::{Event, Shown, is_sensitive},
    members::Member,
    rulebook::Circumstances,
    shared::Shared,
    sight::Sight,
};

/// How long a server may take to say what it still has to, after the client has hung up.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How a connection ended.
#[derive(Debug)]
enum End {
    ClientClosed,
    ServerClosed,
    /// A rule ended it.
    Cut {
        reset: bool,
    },
    Broken(String),
}

impl End {
    fn of_client(error: &io::Error) -> Self {
        Self::Broken(format!("from the client: {error}"))
    }

    fn of_server(error: &io::Error) -> Self {
        Self::Broken(format!("from the server: {error}"))
    }

    fn in_words(&self) -> String {
        match self {
            Self::ClientClosed => "the client hung up".to_owned(),
            Self::ServerClosed => "the server hung up".to_owned(),
            Self::Cut { reset: false } => "cut by a rule".to_owned(),
            Self::Cut { reset: true } => "reset by a rule".to_owned(),
            Self::Broken(why) => why.clone(),
        }
    }
}

/// Both halves of a connection work on this; they run in one task.
struct Line<'a> {
    shared: &'a Shared,
    member: &'a Member,
    number: u64,
    waiting: Mutex<Waiting>,
    app_name: Mutex<Option<String>>,
}

/// Replies come from the server and from the proxy itself; one message at a time.
type ToClient<'a> = tokio::sync::Mutex<WriteHalf<'a>>;

/// Serves a client's connection to its end.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    member: Arc<Member>,
    mut client: TcpStream,
    from: SocketAddr,
) {
    let number = shared.next_connection();
    let server = &*member.name;
    let names = member.names();
    let now = Circumstances {
        server: &names,
        connection: number,
        app_name: None,
        command: "",
        namespace: "",
        is_retry: false,
    };
    shared.tell(&Event::Connected { connection: number, server, client: from });
    let why = match shared.refuses(&now) {
        Some(rule) => {
            let rules = [rule];
            let what = "refused the connection";
            shared.tell(&Event::Fault { connection: number, server, rules: &rules, what });
            close(client, true);
            "refused by a rule".to_owned()
        }
        None => match shared.dialer.connect(&member.address).await {
            Ok(upstream) => {
                let end = connect(&shared, &member, number, &mut client, upstream).await;
                close(client, matches!(end, End::Cut { reset: true }));
                end.in_words()
            }
            Err(error) => {
                // As near as can be to the refusal that the client would have met.
                close(client, true);
                format!("the server cannot be reached: {error}")
            }
        },
    };
    shared.tell(&Event::Closed { connection: number, server, why: &why });
}

async fn connect(
    shared: &Shared,
    member: &Member,
    number: u64,
    client: &mut TcpStream,
    upstream: Stream,
) -> End {
    // Without it, small replies wait for each other.
    if let Err(error) = client.set_nodelay(true) {
        return End::of_client(&error);
    }
    let line =
        Line { shared, member, number, waiting: Mutex::default(), app_name: Mutex::default() };
    let (from_client, to_client) = client.split();
    match upstream {
        Stream::Plain(mut server) => {
            let (from_server, to_server) = server.split();
            line.carry(from_client, to_client, from_server, to_server).await
        }
        #[cfg(feature = "tls")]
        Stream::Encrypted(server) => {
            let (from_server, to_server) = tokio::io::split(server);
            line.carry(from_client, to_client, from_server, to_server).await
        }
    }
}

/// Ends the client's connection: in order, or by a reset.
fn close(client: TcpStream, reset: bool) {
    if reset {
        // Whether it works or not, the connection ends.
        let _ = client.set_zero_linger();
        return;
    }
    // A connection that is closed with unread bytes is reset; they are read, and forgotten.
    let mut unread = [0; 4096];
    for _ in 0..1024 {
        if !matches!(client.try_read(&mut unread), Ok(1..)) {
            break;
        }
    }
}

impl Line<'_> {
    async fn carry<R, W>(
        &self,
        from_client: ReadHalf<'_>,
        to_client: WriteHalf<'_>,
        from_server: R,
        to_server: W,
    ) -> End
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let to_client = ToClient::new(to_client);
        let end = self.carry_both(from_client, from_server, to_server, &to_client).await;
        if !matches!(end, End::Cut { reset: true }) {
            let _ = to_client.into_inner().shutdown().await;
        }
        end
    }

    /// Whoever holds the way to the client when one direction ends lets go of it with this future: a
    /// stalled reply, or one that the client does not read.
    async fn carry_both<R, W>(
        &self,
        from_client: ReadHalf<'_>,
        from_server: R,
        to_server: W,
        to_client: &ToClient<'_>,
    ) -> End
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let requests = self.carry_requests(from_client, to_server, to_client);
        let replies = self.carry_replies(from_server, to_client);
        tokio::pin!(requests, replies);
        let end = tokio::select! {
            biased;
            end = &mut replies => end,
            end = &mut requests => end,
        };
        if matches!(end, End::ClientClosed) {
            // The server was told; what it still says goes into the ledger.
            let _ = timeout(LAST_WORDS, replies).await;
        }
        end
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn app_name(&self) -> MutexGuard<'_, Option<String>> {
        self.app_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_fault(&self, rules: &[String], what: &str) {
        if self.shared.is_watched() {
            let server = &*self.member.name;
            self.shared.tell(&Event::Fault { connection: self.number, server, rules, what });
        }
    }
}

fn shown<'a>(
    sight: &'a Sight<'_>,
    command: &'a str,
    namespace: &'a str,
    bytes: usize,
) -> Shown<'a> {
    let body = sight.sound_document();
    Shown {
        command,
        namespace,
        bytes,
        request_id: sight.request_id,
        response_to: sight.response_to,
        body: body.filter(|_| !is_sensitive(command, body)),
    }
}

/// Returns when the client has hung up, even if it sent more before that.
async fn client_gone(client: &TcpStream) {
    const LOOK_EVERY: Duration = Duration::from_millis(50);
    loop {
        sleep(LOOK_EVERY).await;
        match timeout(Duration::ZERO, client.ready(Interest::READABLE)).await {
            Ok(Ok(ready)) if ready.is_read_closed() => return,
            Ok(Err(_)) => return,
            Ok(Ok(_)) | Err(_) => {}
        }
    }
}
