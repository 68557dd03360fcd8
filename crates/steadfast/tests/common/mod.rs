//! A hand-made server that does what a test tells it to: it speaks the wire protocol, answers hello
//! as the kind of server it plays, and leaves everything else, misbehaviour included, to a script.

#![allow(dead_code, unreachable_pub)]

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::BytesMut;
use steadfast::{
    bson::{Bson, Document, RawDocumentBuf, doc, oid::ObjectId},
    event::EventHandler,
};
use steadfast_wire::{
    Compressor, DEFAULT_MAX_MESSAGE_SIZE, DocumentBytes, Framing, Message, MsgFlags, OpMsg,
    OpReply, compress, decode, frame,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::AbortHandle,
};

/// What the server says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Standalone,
    /// The primary, and only member, of the replica set `set`.
    Primary,
    Mongos,
    /// A mongos behind a load balancer.
    LoadBalanced,
}

/// A message as it came in.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which of the server's connections it came through, counted from 1.
    pub connection: usize,
    /// How many messages came through that connection before it.
    pub earlier: usize,
    /// The command's name.
    pub name: String,
    /// The command, with the documents beside it in their fields.
    pub body: Document,
    /// Whether a field is there twice, which each reader would understand as it likes.
    pub repeats_a_field: bool,
    /// Whether it came as OP_QUERY.
    pub legacy: bool,
    /// How it was compressed.
    pub compressor: Option<Compressor>,
    /// Whether a reply is wanted.
    pub answered: bool,
    /// The server that it came to.
    pub server: SocketAddr,
    id: i32,
}

impl Request {
    /// Whether it is a hello in any of its forms.
    pub fn is_hello(&self) -> bool {
        self.name == "hello" || self.name.eq_ignore_ascii_case("ismaster")
    }

    /// Whether it is the first of a connection that is not a monitor's. The first connection of
    /// all is the monitor's, and a server that plays here never has two.
    pub fn is_handshake_for_operations(&self) -> bool {
        self.is_hello() && self.earlier == 0 && self.connection > 1
    }
}

/// What the server does about a message, one step after the other.
#[derive(Clone)]
pub enum Step {
    /// Replies as a server should.
    Reply(Document),
    /// Replies to another request than the one that was made.
    ReplyToAnother(Document),
    /// Sends the first bytes of a good reply.
    Part(Document, usize),
    /// Sends these bytes.
    Raw(Vec<u8>),
    /// Waits until a test opens the gate.
    Wait(Gate),
    /// Takes its time.
    Pause(Duration),
    /// Closes the connection.
    HangUp,
}

/// Something that a script waits for and a test opens, once and for all.
#[derive(Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    pub fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    pub fn open(&self) {
        self.0.send_replace(true);
    }

    async fn wait(&self) {
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

/// What happened so far.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub requests: Vec<Request>,
    /// How many connections were opened, ever.
    pub opened: usize,
    /// How many are open.
    pub open: usize,
    /// The most that were open at the same time.
    pub most_open: usize,
}

impl Log {
    /// The commands of this name.
    pub fn named(&self, name: &str) -> Vec<&Request> {
        self.requests.iter().filter(|request| request.name == name).collect()
    }

    /// The connections through which the commands of this name came.
    pub fn connections_of(&self, name: &str) -> Vec<usize> {
        self.named(name).iter().map(|request| request.connection).collect()
    }
}

type Script = dyn Fn(&Request) -> Option<Vec<Step>> + Send + Sync;

struct Play {
    address: SocketAddr,
    role: Role,
    script: Box<Script>,
    /// Set to have the next message that comes through a connection of operations cut short.
    cut: Arc<AtomicBool>,
    log: watch::Sender<Log>,
    accepting: Mutex<Option<AbortHandle>>,
    serving: Mutex<Vec<AbortHandle>>,
}

/// The server. It stops when it is dropped.
pub struct Server(Arc<Play>);

impl Server {
    /// Starts a server. Where the script says nothing, it answers as its role demands.
    pub async fn start(
        role: Role,
        script: impl Fn(&Request) -> Option<Vec<Step>> + Send + Sync + 'static,
    ) -> Self {
        Self::start_cutting(role, Arc::default(), script).await
    }

    /// The same with a switch: while it is set, the next message after a handshake is read only in
    /// its first bytes, and the connection is reset. That takes the switch back.
    pub async fn start_cutting(
        role: Role,
        cut: Arc<AtomicBool>,
        script: impl Fn(&Request) -> Option<Vec<Step>> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let play = Arc::new(Play {
            address: listener.local_addr().expect("an address"),
            role,
            script: Box::new(script),
            cut,
            log: watch::Sender::default(),
            accepting: Mutex::default(),
            serving: Mutex::default(),
        });
        let accepting = tokio::spawn(Arc::clone(&play).accept(listener)).abort_handle();
        *play.accepting.lock().unwrap() = Some(accepting);
        Self(play)
    }

    /// A server without a script.
    pub async fn plain(role: Role) -> Self {
        Self::start(role, |_| None).await
    }

    pub fn address(&self) -> String {
        self.0.address.to_string()
    }

    /// A connection string with these options.
    pub fn uri(&self, options: &str) -> String {
        format!("mongodb://{}/?{options}", self.0.address)
    }

    /// The reply to hello that its role demands.
    pub fn hello(&self) -> Document {
        hello(self.0.role, self.0.address, 1)
    }

    pub fn log(&self) -> Log {
        self.0.log.borrow().clone()
    }

    /// Lets the runtime see all that happened on its sockets so far: waiting for one of them to be
    /// ready, it learns of the others.
    pub async fn let_sockets_settle(&self) {
        drop(TcpStream::connect(self.0.address).await.expect("the server listens"));
    }

    /// Waits until something has happened.
    pub async fn wait_for(&self, what: impl FnMut(&Log) -> bool) -> Log {
        let mut log = self.0.log.subscribe();
        bounded(async { log.wait_for(what).await.expect("the server runs").clone() }).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(accepting) = self.0.accepting.lock().unwrap().take() {
            accepting.abort();
        }
        for connection in self.0.serving.lock().unwrap().drain(..) {
            connection.abort();
        }
    }
}

impl Play {
    async fn accept(self: Arc<Self>, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            self.log.send_modify(|log| {
                log.opened += 1;
                log.open += 1;
                log.most_open = log.most_open.max(log.open);
            });
            let play = Arc::clone(&self);
            let number = self.log.borrow().opened;
            let serving = tokio::spawn(async move {
                // The stream is closed before that is written down.
                play.serve(stream, number).await;
                play.log.send_modify(|log| log.open -= 1);
            });
            self.serving.lock().unwrap().push(serving.abort_handle());
        }
    }

    async fn serve(&self, mut stream: TcpStream, connection: usize) {
        let mut inbox = BytesMut::new();
        for earlier in 0.. {
            let past_handshake = connection > 1 && earlier > 0 && inbox.is_empty();
            if past_handshake && self.cuts_short(&mut stream).await {
                return;
            }
            let Some(request) = read(&mut stream, &mut inbox, connection, earlier).await else {
                return;
            };
            let steps = (self.script)(&request).unwrap_or_else(|| self.usual(&request));
            self.log.send_modify(|log| log.requests.push(request.clone()));
            for step in steps {
                let bytes = match step {
                    Step::Reply(reply) => encode(&request, request.id, &reply),
                    Step::ReplyToAnother(reply) => {
                        encode(&request, request.id.wrapping_add(1_000_000), &reply)
                    }
                    Step::Part(reply, count) => {
                        let mut bytes = encode(&request, request.id, &reply);
                        bytes.truncate(count);
                        bytes
                    }
                    Step::Raw(bytes) => bytes,
                    Step::Wait(gate) => {
                        gate.wait().await;
                        continue;
                    }
                    Step::Pause(time) => {
                        tokio::time::sleep(time).await;
                        continue;
                    }
                    Step::HangUp => return,
                };
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Reads a part of the message that comes now, if the switch for that is set. A socket that is
    /// closed with bytes unread is reset.
    async fn cuts_short(&self, stream: &mut TcpStream) -> bool {
        let comes = matches!(stream.peek(&mut [0]).await, Ok(1..));
        if !comes || !self.cut.swap(false, Ordering::SeqCst) {
            return false;
        }
        let _ = stream.read_exact(&mut [0; 20]).await;
        true
    }

    fn usual(&self, request: &Request) -> Vec<Step> {
        if !request.answered {
            return Vec::new();
        }
        let reply = match request.is_hello() {
            true => hello(self.role, self.address, request.connection),
            false => doc! { "ok": 1 },
        };
        vec![Step::Reply(reply)]
    }
}

/// What a server of this kind answers to hello.
pub fn hello(role: Role, address: SocketAddr, connection: usize) -> Document {
    let mut hello = doc! {
        "helloOk": true, "ismaster": true, "isWritablePrimary": true, "readOnly": false,
        "maxBsonObjectSize": 16 * 1024 * 1024, "maxMessageSizeBytes": 48_000_000,
        "maxWriteBatchSize": 100_000, "minWireVersion": 0, "maxWireVersion": 17,
        "connectionId": i32::try_from(connection).unwrap(), "ok": 1,
    };
    let address = address.to_string();
    match role {
        Role::Standalone => {}
        Role::Primary => hello.extend(doc! {
            "setName": "set", "setVersion": 1, "electionId": ObjectId::from_bytes([1; 12]),
            "hosts": [&address], "me": &address, "primary": &address,
            "logicalSessionTimeoutMinutes": 30,
        }),
        Role::Mongos => hello.extend(doc! { "msg": "isdbgrid" }),
        Role::LoadBalanced => {
            hello.extend(doc! { "msg": "isdbgrid", "serviceId": ObjectId::from_bytes([7; 12]) });
        }
    }
    hello
}

async fn read(
    stream: &mut TcpStream,
    inbox: &mut BytesMut,
    connection: usize,
    earlier: usize,
) -> Option<Request> {
    let length = loop {
        match frame(inbox, DEFAULT_MAX_MESSAGE_SIZE).ok()? {
            Framing::Complete { length } => break length,
            Framing::Incomplete { .. } => match stream.read_buf(inbox).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return None,
            },
        }
    };
    let incoming = decode(inbox.split_to(length).freeze(), DEFAULT_MAX_MESSAGE_SIZE).ok()?;
    let (mut repeats_a_field, mut fields) = (false, std::collections::BTreeSet::new());
    let (body, legacy, answered) = match incoming.message {
        Message::Msg(msg) => {
            for (key, _) in msg.body.as_raw().iter().flatten() {
                repeats_a_field |= !fields.insert(key.to_string());
            }
            let mut body = Document::try_from(msg.body.as_raw()).ok()?;
            for sequence in &msg.sequences {
                let documents = sequence.iter().map(|document| Document::try_from(document).ok());
                let documents: Vec<_> = documents.map(|it| it.map(Bson::Document)).collect();
                body.insert(
                    &sequence.identifier,
                    documents.into_iter().collect::<Option<Vec<_>>>()?,
                );
            }
            (body, false, !msg.flags.contains(MsgFlags::MORE_TO_COME))
        }
        Message::Query(query) => (Document::try_from(query.query.as_raw()).ok()?, true, true),
        _ => return None,
    };
    let name = body.keys().next()?.clone();
    let (id, compressor) = (incoming.header.request_id, incoming.compressor);
    let server = stream.local_addr().ok()?;
    Some(Request {
        connection,
        earlier,
        name,
        body,
        repeats_a_field,
        legacy,
        compressor,
        answered,
        server,
        id,
    })
}

/// The bytes of a reply, in the form that the request came in.
fn encode(request: &Request, response_to: i32, reply: &Document) -> Vec<u8> {
    let reply = RawDocumentBuf::try_from(reply).expect("a document");
    let reply = DocumentBytes::try_from(reply).expect("a document");
    let mut bytes = Vec::new();
    if request.legacy {
        let message = OpReply::to_command(&reply).expect("a reply");
        message.encode(1, response_to, &mut bytes).expect("a short reply");
    } else {
        OpMsg::new(reply).encode(1, response_to, &mut bytes).expect("a short reply");
    }
    let Some(compressor) = request.compressor else { return bytes };
    let mut compressed = Vec::new();
    compress(&bytes, compressor, &mut compressed).expect("a compressor that was used before");
    compressed
}

/// The reply of a standalone server to hello, with these fields in place of the usual ones.
pub fn hello_with(fields: Document) -> Document {
    let mut hello = hello(Role::Standalone, SocketAddr::from(([127, 0, 0, 1], 1)), 1);
    hello.extend(fields);
    hello
}

/// A message whose header is made of these numbers, whatever they mean.
pub fn message(length: i32, response_to: i32, op_code: i32, payload: &[u8]) -> Vec<u8> {
    let header = [length, 1, response_to, op_code].map(i32::to_le_bytes).concat();
    [&header, payload].concat()
}

/// What is to come, which must come within a time that only a hang exceeds.
pub async fn bounded<T>(work: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("it ends in time")
}

/// Events, as they come.
pub struct Recorder<T>(Arc<watch::Sender<Vec<T>>>);

impl<T: Clone + Send + Sync + 'static> Recorder<T> {
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Vec::new())))
    }

    pub fn handler(&self) -> EventHandler<T> {
        let events = Arc::clone(&self.0);
        EventHandler::callback(move |event| events.send_modify(|seen| seen.push(event)))
    }

    pub fn seen(&self) -> Vec<T> {
        self.0.borrow().clone()
    }

    /// Waits until so many events of a kind have come.
    pub async fn wait_for(&self, count: usize, kind: impl Fn(&T) -> bool) {
        self.wait_until(|seen| seen.iter().filter(|event| kind(event)).count() >= count).await;
    }

    /// Waits until the events are as they should be.
    pub async fn wait_until(&self, done: impl Fn(&[T]) -> bool) {
        let mut events = self.0.subscribe();
        bounded(async { drop(events.wait_for(|seen| done(seen)).await.expect("it lives")) }).await;
    }
}
