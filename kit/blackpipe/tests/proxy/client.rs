//! A client that sends raw messages and sees the exact reply bytes.

use std::{io, net::SocketAddr, time::Duration};

use blackpipe::proxy::Proxy;
use bson::{Binary, Document, doc, spec::BinarySubtype};
use bytes::Bytes;
use steadfast_wire::{Compressor, DEFAULT_MAX_MESSAGE_SIZE, Message, OpMsg, compress, decode};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Time-out of a test. Exceeded only by a hang.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct RawClient {
    pub(crate) stream: TcpStream,
    next_id: i32,
    pub(crate) compressor: Option<Compressor>,
}

impl RawClient {
    pub(crate) async fn of(proxy: &Proxy) -> Self {
        Self::at(proxy.members()[0].0).await
    }

    pub(crate) async fn at(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, next_id: 1, compressor: None }
    }

    /// Encodes a command.
    pub(crate) fn message(&mut self, command: Document) -> Vec<u8> {
        let body = bson::RawDocumentBuf::try_from(&command).unwrap();
        let id = self.next_id;
        self.next_id += 1;
        let mut bytes = Vec::new();
        OpMsg::new(body.try_into().unwrap()).encode(id, 0, &mut bytes).unwrap();
        let Some(compressor) = self.compressor else { return bytes };
        let mut compressed = Vec::new();
        compress(&bytes, compressor, &mut compressed).unwrap();
        compressed
    }

    pub(crate) async fn send(&mut self, command: Document) {
        let bytes = self.message(command);
        self.stream.write_all(&bytes).await.unwrap();
    }

    /// Sends a command and returns its reply.
    pub(crate) async fn run(&mut self, command: Document) -> io::Result<Document> {
        let bytes = self.message(command);
        timeout(TEST_TIMEOUT, async {
            self.stream.write_all(&bytes).await?;
            self.reply().await
        })
        .await
        .expect("an answer in time")
    }

    /// Reads a whole reply.
    pub(crate) async fn reply(&mut self) -> io::Result<Document> {
        let mut message = vec![0; 16];
        self.stream.read_exact(&mut message).await?;
        let length = i32::from_le_bytes(*message.first_chunk().unwrap());
        message.resize(usize::try_from(length).unwrap(), 0);
        self.stream.read_exact(&mut message[16..]).await?;
        let incoming = decode(Bytes::from(message), DEFAULT_MAX_MESSAGE_SIZE).unwrap();
        assert_eq!(
            incoming.compressor.map(Compressor::name),
            self.compressor.map(Compressor::name)
        );
        let Message::Msg(message) = incoming.message else { panic!("not an OP_MSG") };
        Ok(Document::try_from(message.body.as_raw()).unwrap())
    }

    /// Reads until the connection ends. Returns the bytes and how it ended.
    pub(crate) async fn rest(&mut self) -> (Vec<u8>, io::Result<()>) {
        let mut all = Vec::new();
        let ended = timeout(TEST_TIMEOUT, self.stream.read_to_end(&mut all)).await;
        (all, ended.expect("an end in time").map(drop))
    }
}

/// A retryable insert of one document with this number of extra bytes.
pub(crate) fn insert(txn_number: i64, bytes: usize) -> Document {
    let id = Binary { subtype: BinarySubtype::Uuid, bytes: vec![9; 16] };
    doc! {
        "insert": "orders",
        "$db": "shop",
        "documents": [{ "_id": txn_number, "filling": "x".repeat(bytes) }],
        "lsid": { "id": id },
        "txnNumber": txn_number,
    }
}

pub(crate) fn ping() -> Document {
    doc! { "ping": 1, "$db": "admin" }
}

/// A command for the proxy.
pub(crate) fn black_pipe(verb: &str, argument: impl Into<bson::Bson>) -> Document {
    doc! { "blackPipe": 1, verb: argument.into(), "$db": "admin" }
}

/// Waits until the condition is `true`.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    const PAUSE: Duration = Duration::from_millis(5);
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    timeout(TEST_TIMEOUT, waiting).await.expect("it comes true in time");
}

/// Waits until the first rule was applied this number of times.
pub(crate) async fn until_applied(proxy: &Proxy, times: u64) {
    until(|| proxy.rules()[0].applied() == times).await;
}

/// Waits until this number of inserts was executed.
pub(crate) async fn until_executed(proxy: &Proxy, times: u64) {
    until(|| proxy.ledger().count("insert", "shop.orders").executions == times).await;
}
