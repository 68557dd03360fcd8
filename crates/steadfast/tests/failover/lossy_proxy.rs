//! A proxy before one server that loses every so many writes: half of them on their way there, half
//! of the replies on their way back. It counts both, so that what must come of them is known.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
};

const WRITES: [&[u8]; 4] = [b"insert", b"update", b"delete", b"findAndModify"];
const OP_MSG: i32 = 2013;
/// Of an OP_MSG, where the name of the command begins: after the header, the flags, the kind of the
/// first section, the length of the document and the type of its first field.
const NAME_AT: usize = 16 + 4 + 1 + 4 + 1;

/// A running proxy; it ends with this value.
pub(crate) struct LossyProxy {
    address: SocketAddr,
    losses: Arc<Losses>,
    accepting: AbortHandle,
}

/// What was lost.
#[derive(Debug)]
pub(crate) struct Losses {
    every: usize,
    writes: AtomicUsize,
    requests: AtomicUsize,
    replies: AtomicUsize,
}

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Delivered,
    RequestLost,
    ReplyLost,
}

impl LossyProxy {
    /// Stands before `server` and loses one of `every` writes, with its connection.
    pub(crate) async fn before(server: SocketAddr, every: usize) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let losses = Arc::new(Losses {
            every,
            writes: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            replies: AtomicUsize::new(0),
        });
        let accepting = tokio::spawn(accept(listener, server, Arc::clone(&losses)));
        Self { address, losses, accepting: accepting.abort_handle() }
    }

    /// A connection string for the server behind it alone.
    pub(crate) fn uri(&self) -> String {
        format!("mongodb://{}/?directConnection=true", self.address)
    }

    /// How many writes never reached the server.
    pub(crate) fn lost_requests(&self) -> usize {
        self.losses.requests.load(SeqCst)
    }

    /// How many writes the server carried out without a reply reaching the driver.
    pub(crate) fn lost_replies(&self) -> usize {
        self.losses.replies.load(SeqCst)
    }
}

impl Drop for LossyProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, losses: Arc<Losses>) {
    // Dropped with this task, and all connections with it.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let losses = Arc::clone(&losses);
        connections.spawn(async move {
            // An error here is the end of a connection, by whichever side.
            let _: io::Result<()> = carry(client, server, &losses).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Carries messages both ways until one side ends, or one is to be lost.
async fn carry(mut client: TcpStream, server: SocketAddr, losses: &Losses) -> io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    // The request whose reply is to be lost; requests' ids are never 0.
    let doomed = AtomicI32::new(0);
    let requests = async {
        loop {
            let message = read_message(&mut from_client).await?;
            match losses.fate_of(&message) {
                Fate::Delivered => {}
                Fate::RequestLost => return Ok(()),
                Fate::ReplyLost => doomed.store(int_at(&message, 4), SeqCst),
            }
            to_server.write_all(&message).await?;
        }
    };
    let replies = async {
        loop {
            let message = read_message(&mut from_server).await?;
            if int_at(&message, 8) == doomed.load(SeqCst) && int_at(&message, 8) != 0 {
                losses.replies.fetch_add(1, SeqCst);
                return Ok(());
            }
            to_client.write_all(&message).await?;
        }
    };
    tokio::select! {
        ended = requests => ended,
        ended = replies => ended,
    }
}

impl Losses {
    fn fate_of(&self, message: &[u8]) -> Fate {
        if !is_write(message) {
            return Fate::Delivered;
        }
        let nth = self.writes.fetch_add(1, SeqCst) + 1;
        match (nth % self.every, nth / self.every % 2) {
            (0, 0) => {
                self.requests.fetch_add(1, SeqCst);
                Fate::RequestLost
            }
            // Counted when the reply is there, and so surely carried out.
            (0, _) => Fate::ReplyLost,
            _ => Fate::Delivered,
        }
    }
}

fn is_write(message: &[u8]) -> bool {
    let name = message.get(NAME_AT..).unwrap_or_default().split(|&byte| byte == 0).next();
    int_at(message, 12) == OP_MSG && name.is_some_and(|name| WRITES.contains(&name))
}

fn int_at(message: &[u8], at: usize) -> i32 {
    i32::from_le_bytes(message[at..at + 4].try_into().expect("four bytes"))
}

/// A whole message, header included.
async fn read_message(from: &mut (impl AsyncReadExt + Unpin)) -> io::Result<Vec<u8>> {
    const MESSAGE_BYTES: std::ops::RangeInclusive<usize> = 16..=48_000_000;
    let mut message = vec![0; 16];
    from.read_exact(&mut message).await?;
    let length = usize::try_from(int_at(&message, 0)).unwrap_or_default();
    if !MESSAGE_BYTES.contains(&length) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    message.resize(length, 0);
    from.read_exact(&mut message[16..]).await?;
    Ok(message)
}
