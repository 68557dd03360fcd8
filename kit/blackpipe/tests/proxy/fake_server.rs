//! A fake server that records the bytes of each connection and replies to each whole message.

use std::sync::{Arc, Mutex};

use blackpipe::proxy::Proxy;
use bson::{Document, doc};
use steadfast_wire::{MsgFlags, OpMsg};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// Bytes received on one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReceivedBytes {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ended: bool,
}

pub(crate) struct FakeServer {
    pub(crate) address: std::net::SocketAddr,
    got: watch::Receiver<Vec<ReceivedBytes>>,
    answer: Arc<Mutex<Answer>>,
    running: JoinHandle<()>,
}

/// Replies to messages.
#[derive(Clone)]
struct Answer {
    document: Document,
    hello: Document,
    /// Number of reply bytes sent at a time.
    packet: usize,
    /// Number of replies to one request.
    times: i32,
}

impl FakeServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, got) = watch::channel(Vec::new());
        let answer = Arc::new(Mutex::new(Answer {
            document: doc! { "ok": 1.0, "n": 1 },
            hello: doc! { "ok": 1.0, "isWritablePrimary": true, "maxWireVersion": 17 },
            packet: usize::MAX,
            times: 1,
        }));
        let running = tokio::spawn(accept(listener, sender, Arc::clone(&answer)));
        Self { address, got, answer, running }
    }

    pub(crate) async fn proxy(&self) -> Proxy {
        Proxy::builder(self.address.to_string()).start().await.unwrap()
    }

    pub(crate) fn answer_with(&self, document: Document) {
        self.answer.lock().unwrap().document = document;
    }

    pub(crate) fn say_hello_with(&self, document: Document) {
        self.answer.lock().unwrap().hello = document;
    }

    pub(crate) fn answer_in_packets_of(&self, bytes: usize) {
        self.answer.lock().unwrap().packet = bytes;
    }

    pub(crate) fn answer_times(&self, times: i32) {
        self.answer.lock().unwrap().times = times;
    }

    /// Waits for the end of the nth connection and returns its bytes. Connection 0 is the proxy's
    /// own.
    pub(crate) async fn ended(&mut self, nth: usize) -> ReceivedBytes {
        let ended = self.got.wait_for(|all| all.get(nth).is_some_and(|got| got.ended));
        let all = tokio::time::timeout(super::client::TEST_TIMEOUT, ended).await;
        all.expect("it ends in time").expect("the server runs")[nth].clone()
    }

    /// Waits for this number of bytes on the nth connection.
    pub(crate) async fn until(&mut self, nth: usize, bytes: usize) {
        let came =
            self.got.wait_for(|all| all.get(nth).is_some_and(|got| got.bytes.len() >= bytes));
        let came = tokio::time::timeout(super::client::TEST_TIMEOUT, came).await;
        came.expect("it comes in time").expect("the server runs");
    }

    /// Returns the bytes received so far on the nth connection.
    pub(crate) fn so_far(&self, nth: usize) -> ReceivedBytes {
        self.got.borrow().get(nth).cloned().unwrap_or_default()
    }

    /// Encodes the reply to the message with this id, the nth of a connection.
    pub(crate) fn answer_bytes(&self, response_to: i32) -> Vec<u8> {
        let document = self.answer.lock().unwrap().document.clone();
        encode(&document, response_to + 1000, response_to, false)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn accept(
    listener: TcpListener,
    got: watch::Sender<Vec<ReceivedBytes>>,
    answer: Arc<Mutex<Answer>>,
) {
    let mut connections = tokio::task::JoinSet::new();
    let mut next = 0;
    while let Ok((stream, _)) = listener.accept().await {
        let nth = next;
        next += 1;
        got.send_modify(|all| all.push(ReceivedBytes::default()));
        connections.spawn(converse(stream, nth, got.clone(), Arc::clone(&answer)));
    }
}

async fn converse(
    mut stream: TcpStream,
    nth: usize,
    got: watch::Sender<Vec<ReceivedBytes>>,
    answer: Arc<Mutex<Answer>>,
) {
    stream.set_nodelay(true).unwrap();
    let mut chunk = vec![0; 65_536];
    let mut answered = 0;
    while let Ok(count @ 1..) = stream.read(&mut chunk).await {
        got.send_modify(|all| all[nth].bytes.extend_from_slice(&chunk[..count]));
        loop {
            let message = whole(&got.borrow()[nth].bytes[answered..]);
            let Some((length, id, is_hello)) = message else { break };
            answered += length;
            let how = answer.lock().unwrap().clone();
            let document = if is_hello { &how.hello } else { &how.document };
            let mut response_to = id;
            for left in (0..how.times).rev() {
                let bytes = encode(document, response_to + 1000, response_to, left > 0);
                response_to += 1000;
                for packet in bytes.chunks(how.packet.min(bytes.len())) {
                    if stream.write_all(packet).await.is_err() {
                        break;
                    }
                }
            }
        }
    }
    got.send_modify(|all| all[nth].ended = true);
}

/// Length and id of a whole message, and `true` if it is a `hello`.
fn whole(bytes: &[u8]) -> Option<(usize, i32, bool)> {
    let int_at = |at: usize| Some(i32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let length = usize::try_from(int_at(0)?).unwrap();
    let is_hello = bytes.get(26..31) == Some(b"hello");
    (bytes.len() >= length.max(16)).then_some((length.max(16), int_at(4)?, is_hello))
}

fn encode(document: &Document, id: i32, response_to: i32, more: bool) -> Vec<u8> {
    let body = bson::RawDocumentBuf::try_from(document).unwrap();
    let flags = if more { MsgFlags::MORE_TO_COME } else { MsgFlags::empty() };
    let mut bytes = Vec::new();
    let message = OpMsg::new(body.try_into().unwrap()).with_flags(flags);
    message.encode(id, response_to, &mut bytes).unwrap();
    bytes
}
