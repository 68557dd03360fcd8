//! A server that sends prebuilt replies immediately, so that the client dominates the cost.
//!
//! It reports itself as the primary of a replica set. Its replies have the fields of a real server's replies, and the
//! cluster time increases with each write.

use std::{
    io::Write,
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicU64, Ordering},
    },
    time::Duration,
};

use bson::{Binary, DateTime, RawArrayBuf, RawDocumentBuf, Timestamp, rawdoc, spec::BinarySubtype};
use steadfast_report::random::Rng;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime,
};

use crate::{
    Result,
    contender::DATABASE,
    document::{Book, Scan, stored_book, with_id},
    op_msg::{self, BODY_OFFSET, OP_QUERY},
    workload::{COUNTED_DOCUMENTS, MANY_DOCUMENTS},
};

/// Name of its replica set.
pub(crate) const SET: &str = "canned";
/// Documents in the first batch of a cursor, as on a real server.
const FIRST_BATCH: usize = 101;
/// Documents in a later batch: as many as fit into 16 MB.
const NEXT_BATCH: usize = 55_000;

/// Maximum delay of replies for the collection `slow`. Delays are uniformly distributed from zero.
pub(crate) const MAX_DELAY: Duration = Duration::from_millis(6);

/// Number of connections accepted. The command `accepted` returns it.
static ACCEPTED: AtomicI32 = AtomicI32::new(0);
/// Number of inserts received for the collection `shed`. The command `attempted` returns it.
static ATTEMPTED: AtomicI32 = AtomicI32::new(0);
/// State of the random number generator, with a fixed seed.
static RNG_STATE: AtomicU64 = AtomicU64::new(0);

/// Returns the next random number.
fn next_random() -> u64 {
    Rng(RNG_STATE.fetch_add(Rng::INCREMENT, Ordering::Relaxed)).next_u64()
}

/// Serves until the parent process closes the standard input.
pub(crate) fn serve() -> Result<()> {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let replies = Arc::new(Replies::new(&address.to_string())?);
        println!("{address}");
        std::io::stdout().flush()?;
        loop {
            let (stream, _) = listener.accept().await?;
            ACCEPTED.fetch_add(1, Ordering::Relaxed);
            stream.set_nodelay(true)?;
            tokio::spawn(serve_connection(stream, Replies::clone(&replies)));
        }
    })
}

/// Replies as complete messages. Each connection has its own copy of the short ones.
#[derive(Clone)]
struct Replies {
    hello: Vec<u8>,
    legacy_hello: Vec<u8>,
    ok: Vec<u8>,
    written: Vec<u8>,
    shed: Vec<u8>,
    found: Vec<u8>,
    large: Arc<Vec<u8>>,
    only_batch: Arc<Vec<u8>>,
    first_batch: Arc<Vec<u8>>,
    next_batch: Arc<Vec<u8>>,
    last_batch: Arc<Vec<u8>>,
    /// Offsets of the count and the times in `written`.
    count_at: usize,
    modified_at: usize,
    times_at: Vec<usize>,
    clock: u64,
}

impl Replies {
    fn new(address: &str) -> Result<Self> {
        let hello = hello(address);
        let book = with_id(0, &Book::raw()?)?;
        let scan = bson::serialize_to_raw_document_buf(&Scan::new())?;
        let written = op_msg::message(
            &with_replica_set_fields(rawdoc! {
                "n": 1, "nModified": 1, "electionId": bson::oid::ObjectId::new(),
                "opTime": { "ts": time(), "t": 1_i64 },
            }),
            None,
        );
        let offset = |mark: &[u8]| op_msg::offset_after(&written, mark).ok_or("no such place");
        let times_at = [&b"\x11ts\0"[..], b"\x11clusterTime\0", b"\x11operationTime\0"];
        let rest = MANY_DOCUMENTS - FIRST_BATCH - NEXT_BATCH;
        Ok(Self {
            hello: op_msg::message(&hello, None),
            legacy_hello: op_msg::legacy_reply(&hello),
            ok: op_msg::message(&with_replica_set_fields(RawDocumentBuf::new()), None),
            shed: op_msg::message(&shed(), None),
            found: batch("firstBatch", 0, [book])?,
            large: Arc::new(batch("firstBatch", 0, [with_id(1, &scan)?])?),
            only_batch: Arc::new(batch("firstBatch", 0, vec![stored_book()?; COUNTED_DOCUMENTS])?),
            first_batch: Arc::new(batch("firstBatch", 1, vec![stored_book()?; FIRST_BATCH])?),
            next_batch: Arc::new(batch("nextBatch", 2, vec![stored_book()?; NEXT_BATCH])?),
            last_batch: Arc::new(batch("nextBatch", 0, vec![stored_book()?; rest])?),
            count_at: offset(b"\x10n\0")?,
            modified_at: offset(b"\x10nModified\0")?,
            times_at: times_at.into_iter().map(offset).collect::<std::result::Result<_, _>>()?,
            clock: 1_700_000_000 << 32,
            written,
        })
    }

    /// Returns the reply to a request. The caller sets `responseTo`.
    fn to(&mut self, request: &[u8]) -> &[u8] {
        if op_msg::i32_at(request, 12) == OP_QUERY {
            return &self.legacy_hello;
        }
        let name = request[BODY_OFFSET + 5..].split(|&byte| byte == 0).next().unwrap_or_default();
        match name {
            b"insert" if collection_of(request, b"insert\0") == b"shed" => {
                ATTEMPTED.fetch_add(1, Ordering::Relaxed);
                match next_random() % 2 {
                    0 => &self.shed,
                    _ => self.write_reply(request),
                }
            }
            b"insert" | b"update" | b"delete" => self.write_reply(request),
            b"find" => match collection_of(request, b"find\0") {
                b"many" => &self.first_batch,
                b"some" => &self.only_batch,
                b"large" => &self.large,
                _ => &self.found,
            },
            b"getMore" => match op_msg::i32_at(request, BODY_OFFSET + 5 + b"getMore\0".len()) {
                1 => &self.next_batch,
                _ => &self.last_batch,
            },
            b"accepted" => self.count_reply(&ACCEPTED),
            b"attempted" => self.count_reply(&ATTEMPTED),
            b"hello" | b"isMaster" | b"ismaster" => &self.hello,
            _ => &self.ok,
        }
    }

    fn count_reply(&mut self, count: &AtomicI32) -> &[u8] {
        let count = count.load(Ordering::Relaxed).to_le_bytes();
        self.written[self.count_at..self.count_at + 4].copy_from_slice(&count);
        &self.written
    }

    fn write_reply(&mut self, request: &[u8]) -> &[u8] {
        self.clock += 1;
        for &at in &self.times_at {
            self.written[at..at + 8].copy_from_slice(&self.clock.to_le_bytes());
        }
        let count = statements(request).to_le_bytes();
        for at in [self.count_at, self.modified_at] {
            self.written[at..at + 4].copy_from_slice(&count);
        }
        &self.written
    }
}

/// Returns the name of the collection: the value of the command's first element.
fn collection_of<'a>(request: &'a [u8], command: &[u8]) -> &'a [u8] {
    let value = request[BODY_OFFSET + 5..].strip_prefix(command).and_then(|value| value.get(4..));
    value.and_then(|name| name.split(|&byte| byte == 0).next()).unwrap_or_default()
}

/// Returns the delay of the reply: up to [`MAX_DELAY`] for the collection `slow`.
fn delay(request: &[u8]) -> Option<Duration> {
    let nanos = u64::try_from(MAX_DELAY.as_nanos()).unwrap_or(u64::MAX);
    (collection_of(request, b"find\0") == b"slow")
        .then(|| Duration::from_nanos(next_random() % nanos))
}

/// Returns the number of documents in the document sequence.
fn statements(request: &[u8]) -> i32 {
    let section = BODY_OFFSET + op_msg::message_length(&request[BODY_OFFSET..]).unwrap_or(0);
    let Some(rest) = request.get(section + 5..) else { return 1 };
    let name = rest.iter().position(|&byte| byte == 0).unwrap_or(0);
    let mut rest = &rest[name + 1..];
    let mut count = 0;
    while let Some(after) = op_msg::message_length(rest).and_then(|length| rest.get(length..)) {
        count += 1;
        rest = after;
    }
    count
}

async fn serve_connection(mut stream: TcpStream, mut replies: Replies) -> Result<()> {
    let mut buffer: Vec<u8> = Vec::with_capacity(16 * 1024);
    let mut header = [0; 16];
    loop {
        match op_msg::message_length(&buffer) {
            Some(length) if buffer.len() >= length => {
                if let Some(delay) = delay(&buffer) {
                    tokio::time::sleep(delay).await;
                }
                let reply = replies.to(&buffer);
                header.copy_from_slice(&reply[..16]);
                header[8..12].copy_from_slice(&buffer[4..8]);
                send_reply(&mut stream, header, reply).await?;
                buffer.clear();
            }
            length => {
                buffer.reserve(length.map_or(0, |length| length - buffer.len()));
                if stream.read_buf(&mut buffer).await? == 0 {
                    return Ok(());
                }
            }
        }
    }
}

/// Sends a reply with the given header.
async fn send_reply(stream: &mut TcpStream, header: [u8; 16], reply: &[u8]) -> Result<()> {
    const SHORT: usize = 4096;
    if reply.len() > SHORT {
        stream.write_all(&header).await?;
        stream.write_all(&reply[16..]).await?;
        return Ok(());
    }
    let mut whole = [0; SHORT];
    whole[..reply.len()].copy_from_slice(reply);
    whole[..16].copy_from_slice(&header);
    Ok(stream.write_all(&whole[..reply.len()]).await?)
}

/// Error reply of an overloaded server.
fn shed() -> RawDocumentBuf {
    rawdoc! {
        "ok": 0.0, "code": 462, "codeName": "IngressRequestRateLimitExceeded",
        "errmsg": "the server is overloaded",
        "errorLabels": ["SystemOverloadedError", "RetryableError"],
    }
}

fn time() -> Timestamp {
    Timestamp { time: 1_700_000_000, increment: 1 }
}

/// Adds the fields that a member of a replica set adds to each reply.
fn with_replica_set_fields(mut reply: RawDocumentBuf) -> RawDocumentBuf {
    use bson::raw::cstr;
    reply.append(cstr!("ok"), 1.0);
    let hash = Binary { subtype: BinarySubtype::Generic, bytes: vec![0; 20] };
    let signature = rawdoc! { "hash": hash, "keyId": 0_i64 };
    reply.append(cstr!("$clusterTime"), rawdoc! { "clusterTime": time(), "signature": signature });
    reply.append(cstr!("operationTime"), time());
    reply
}

fn batch(
    name: &str,
    id: i64,
    documents: impl IntoIterator<Item = RawDocumentBuf>,
) -> Result<Vec<u8>> {
    let documents: RawArrayBuf = documents.into_iter().collect();
    let mut cursor = RawDocumentBuf::new();
    cursor.append(bson::raw::CString::try_from(name)?, documents);
    cursor.append(bson::raw::cstr!("id"), id);
    cursor.append(bson::raw::cstr!("ns"), format!("{DATABASE}.any"));
    Ok(op_msg::message(&with_replica_set_fields(rawdoc! { "cursor": cursor }), None))
}

fn hello(address: &str) -> RawDocumentBuf {
    with_replica_set_fields(rawdoc! {
        "helloOk": true, "isWritablePrimary": true, "ismaster": true, "secondary": false,
        "setName": SET, "setVersion": 1, "electionId": bson::oid::ObjectId::new(),
        "hosts": [address], "primary": address, "me": address,
        "maxBsonObjectSize": 16 * 1024 * 1024, "maxMessageSizeBytes": 48_000_000,
        "maxWriteBatchSize": 100_000, "localTime": DateTime::now(),
        "logicalSessionTimeoutMinutes": 30, "connectionId": 1,
        "minWireVersion": 0, "maxWireVersion": 17, "readOnly": false,
    })
}
