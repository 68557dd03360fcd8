//! Whole messages on a socket, and requests and replies as something to read. Both tools stand on
//! it. What comes from the other side is believed only as far as it was checked.

use std::{fmt, io};

use bson::{Bson, Document, RawDocument, RawDocumentBuf};
use bytes::{Bytes, BytesMut};
use steadfast_wire::{
    Compressor, DEFAULT_MAX_MESSAGE_SIZE, DocumentBytes, Framing, Message, MessageWriter, MsgFlags,
    OpMsg, OpQuery, OpReply, WireError, compress, decode, frame,
};
use tokio::io::{AsyncRead, AsyncReadExt};

/// How much room is made at a time. A peer that claims a large message gets the memory as it sends
/// the bytes, and not before.
const ROOM: usize = 64 * 1024;

/// Why no message, or no request, came of what was read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The socket failed.
    #[error("reading failed: {0}")]
    Io(#[from] io::Error),
    /// The peer hung up in the middle of a message.
    #[error("the peer hung up after {had} bytes of a message; at least {needed} more were to come")]
    Ended {
        /// How many bytes of the message had come.
        had: usize,
        /// How many were missing, as far as that was known.
        needed: usize,
    },
    /// The bytes are not a message.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// A document has a value that cannot be read, such as a string that is not UTF-8.
    #[error("a document cannot be read: {0}")]
    Document(#[from] bson::error::Error),
    /// It is a message, and not a command: a reply, or a command without a name.
    #[error("{0} is no command")]
    NotACommand(&'static str),
    /// It is a message, and not the reply to a command.
    #[error("{0} is no reply to a command")]
    NotAReply(&'static str),
}

/// Cuts the bytes of a stream into messages.
///
/// ```
/// use blackpipe_base::message::Inbox;
/// use steadfast_wire::write_legacy_hello;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut bytes = Vec::new();
/// write_legacy_hello(&mut bytes, 1, bson::rawdoc! { "isMaster": 1 })?;
/// let first = bytes.len();
/// write_legacy_hello(&mut bytes, 2, bson::rawdoc! { "isMaster": 1, "helloOk": true })?;
///
/// let mut stream = bytes.as_slice();
/// let mut inbox = Inbox::new();
/// assert_eq!(inbox.next(&mut stream).await?.unwrap().len(), first);
/// assert!(inbox.next(&mut stream).await?.is_some());
/// assert!(inbox.next(&mut stream).await?.is_none(), "the stream ends between messages");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Inbox {
    bytes: BytesMut,
    max_message_size: usize,
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Inbox {
    /// One that takes messages of up to 48,000,000 bytes, as servers do.
    pub fn new() -> Self {
        Self::with_limit(DEFAULT_MAX_MESSAGE_SIZE)
    }

    /// One that takes messages of up to so many bytes.
    pub fn with_limit(max_message_size: usize) -> Self {
        Self { bytes: BytesMut::new(), max_message_size }
    }

    /// What was read and is not part of a message that was given out.
    pub fn buffered(&self) -> &[u8] {
        &self.bytes
    }

    /// The next message, whole, header included; `None` if the peer hangs up before it begins.
    ///
    /// A future that is dropped loses nothing: what was read stays. After an error there is no
    /// telling where the next message begins, and the connection is to be closed.
    pub async fn next(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<Option<Bytes>, MessageError> {
        loop {
            let needed = match frame(&self.bytes, self.max_message_size)? {
                Framing::Complete { length } => {
                    return Ok(Some(self.bytes.split_to(length).freeze()));
                }
                Framing::Incomplete { needed } => needed,
            };
            if self.read(stream, usize::MAX).await? == 0 {
                return match self.bytes.len() {
                    0 => Ok(None),
                    had => Err(MessageError::Ended { had, needed }),
                };
            }
        }
    }

    /// Waits until `wanted` bytes of the next message are there, or all of it if it is shorter, and
    /// takes no byte more than that from the stream. Gives what is there; it stays in the inbox.
    pub async fn peek(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        wanted: usize,
    ) -> Result<&[u8], MessageError> {
        loop {
            let had = self.bytes.len();
            let needed = match frame(&self.bytes, self.max_message_size)? {
                Framing::Complete { .. } => break,
                Framing::Incomplete { .. } if had >= wanted => break,
                Framing::Incomplete { needed } => needed.min(wanted - had),
            };
            match self.read(stream, needed).await? {
                0 if had == 0 => break,
                0 => return Err(MessageError::Ended { had, needed }),
                _ => {}
            }
        }
        Ok(&self.bytes)
    }

    /// Reads once, at most so many bytes.
    async fn read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        at_most: usize,
    ) -> io::Result<usize> {
        self.bytes.reserve(at_most.min(ROOM));
        let at_most = u64::try_from(at_most).unwrap_or(u64::MAX);
        stream.take(at_most).read_buf(&mut self.bytes).await
    }
}

/// A command as it came in, to be read.
///
/// Documents that travelled beside the body ([document sequences](steadfast_wire::DocumentSequence))
/// stand in their fields of [`body`](Self::body), as if they had come in it.
///
/// ```
/// use blackpipe_base::message::Request;
/// use bson::doc;
/// use steadfast_wire::{MessageWriter, MsgFlags};
///
/// let mut bytes = Vec::new();
/// let mut message = MessageWriter::request(&mut bytes, 42, MsgFlags::empty());
/// message.body().append_str("insert", "things")?.append_str("$db", "db")?;
/// let mut documents = message.start_sequence("documents")?;
/// documents.push(bson::rawdoc! { "_id": 1 });
/// documents.finish()?;
///
/// let request = Request::decode(bytes.into(), 3)?;
/// assert_eq!((request.name.as_str(), request.namespace().as_str()), ("insert", "db.things"));
/// assert_eq!(request.body.get_array("documents")?.len(), 1);
/// assert_eq!((request.id, request.connection, request.wants_reply), (42, 3, true));
/// assert_eq!(request.to_string(), r#"insert db.things { "documents": [{ "_id": 1 }] }"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// Which server of a deployment it came to, counted from 0.
    pub member: usize,
    /// Which of that server's connections it came through, counted from 1.
    pub connection: usize,
    /// How many messages came through that connection before it.
    pub earlier: usize,
    /// The message's id, which the reply names.
    pub id: i32,
    /// The command's name, as it was sent.
    pub name: String,
    /// The database that the command is sent to; empty if it names none.
    pub database: String,
    /// The command, with the documents beside it in their fields.
    pub body: Document,
    /// Whether a field is there twice, which each reader would understand as it likes.
    pub repeats_a_field: bool,
    /// Whether it came as OP_QUERY.
    pub legacy: bool,
    /// How it was compressed.
    pub compressor: Option<Compressor>,
    /// Whether a reply is wanted.
    pub wants_reply: bool,
    /// Whether the client takes more than one reply to it (`exhaustAllowed`).
    pub takes_many: bool,
}

impl Request {
    /// Reads one whole message, as [`Inbox::next`] gives it, that came through this connection.
    pub fn decode(message: Bytes, connection: usize) -> Result<Self, MessageError> {
        let incoming = decode(message, DEFAULT_MAX_MESSAGE_SIZE)?;
        let mut request = match incoming.message {
            Message::Msg(msg) => Self::of_msg(&msg)?,
            Message::Query(query) => Self::of_query(&query)?,
            Message::Reply(_) => return Err(MessageError::NotACommand("a reply")),
            _ => return Err(MessageError::NotACommand("a message of an unknown kind")),
        };
        request.connection = connection;
        request.id = incoming.header.request_id;
        request.compressor = incoming.compressor;
        Ok(request)
    }

    fn of_msg(msg: &OpMsg) -> Result<Self, MessageError> {
        let mut body = Document::try_from(msg.body.as_raw())?;
        let mut repeats_a_field = repeats_a_field(msg.body.as_raw(), &body);
        for sequence in &msg.sequences {
            let documents = sequence.iter().map(|raw| Document::try_from(raw).map(Bson::Document));
            let documents: Vec<Bson> = documents.collect::<Result<_, _>>()?;
            repeats_a_field |= body.insert(&sequence.identifier, documents).is_some();
        }
        let database = body.get_str("$db").unwrap_or_default().to_owned();
        Ok(Self {
            repeats_a_field,
            wants_reply: !msg.flags.contains(MsgFlags::MORE_TO_COME),
            takes_many: msg.flags.contains(MsgFlags::EXHAUST_ALLOWED),
            ..Self::new(body, database)?
        })
    }

    fn of_query(query: &OpQuery) -> Result<Self, MessageError> {
        let Some(database) = query.command_database() else {
            return Err(MessageError::NotACommand("a query of a collection by OP_QUERY"));
        };
        let mut body = Document::try_from(query.query.as_raw())?;
        let repeats_a_field = repeats_a_field(query.query.as_raw(), &body);
        // Some drivers wrap a command to say beside it which members may answer.
        if let Ok(inner) = body.get_document("$query") {
            body = inner.clone();
        }
        Ok(Self { repeats_a_field, legacy: true, ..Self::new(body, database.to_owned())? })
    }

    fn new(body: Document, database: String) -> Result<Self, MessageError> {
        let Some(name) = body.keys().next().cloned() else {
            return Err(MessageError::NotACommand("an empty document"));
        };
        Ok(Self {
            member: 0,
            connection: 0,
            earlier: 0,
            id: 0,
            name,
            database,
            body,
            repeats_a_field: false,
            legacy: false,
            compressor: None,
            wants_reply: true,
            takes_many: false,
        })
    }

    /// The collection that the command names, if it names one.
    pub fn collection(&self) -> Option<&str> {
        match self.name.as_str() {
            "getMore" => self.body.get_str("collection").ok(),
            name => self.body.get_str(name).ok(),
        }
    }

    /// `database.collection`, or the database alone if the command names no collection.
    pub fn namespace(&self) -> String {
        match self.collection() {
            Some(collection) => format!("{}.{collection}", self.database),
            None => self.database.clone(),
        }
    }

    /// Whether it is a hello in any of its forms.
    pub fn is_hello(&self) -> bool {
        self.name == "hello" || self.name.eq_ignore_ascii_case("ismaster")
    }

    /// What is known of a write by: its session's id and its transaction number. In a transaction
    /// all commands have the same.
    pub fn transaction_id(&self) -> Option<(&Document, i64)> {
        Some((self.body.get_document("lsid").ok()?, self.body.get_i64("txnNumber").ok()?))
    }

    /// Whether it is a part of a transaction of several commands.
    pub fn is_in_transaction(&self) -> bool {
        self.body.contains_key("autocommit")
    }

    /// The bytes of a reply, in the form that the request came in: OP_REPLY to OP_QUERY, else
    /// OP_MSG, compressed as the request was.
    pub fn reply(&self, reply: &Document) -> Vec<u8> {
        self.reply_as(reply, Envelope { request_id: 1, response_to: self.id, more_to_come: false })
    }

    /// The same in an envelope of one's own.
    ///
    /// # Panics
    ///
    /// If the document cannot be written, say because a key holds a NUL byte or it is larger than a
    /// message can be.
    pub fn reply_as(&self, reply: &Document, envelope: Envelope) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write_reply(reply, envelope, &mut bytes);
        bytes
    }

    /// The same, appended to what is there.
    ///
    /// # Panics
    ///
    /// As [`reply_as`](Self::reply_as) does.
    pub fn write_reply(&self, reply: &Document, envelope: Envelope, out: &mut Vec<u8>) {
        let reply = RawDocumentBuf::try_from(reply).expect("a reply that can be written");
        let Envelope { request_id, response_to, more_to_come } = envelope;
        let mut plain = Vec::new();
        let bytes = if self.compressor.is_some() { &mut plain } else { &mut *out };
        if self.legacy {
            let reply = DocumentBytes::try_from(reply).expect("a reply that can be read again");
            let message = OpReply::to_command(&reply).expect("one document");
            message.encode(request_id, response_to, bytes).expect("a reply of sound size");
        } else {
            let flags = if more_to_come { MsgFlags::MORE_TO_COME } else { MsgFlags::empty() };
            let mut message = MessageWriter::reply(bytes, request_id, response_to, flags);
            message.body().append_elements_of(&reply);
            message.finish().expect("a reply of sound size");
        }
        if let Some(compressor) = self.compressor {
            compress(&plain, compressor, out).expect("the request came so compressed");
        }
    }
}

/// `name namespace { fields }`, without what every command carries along.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const OF_EVERY_COMMAND: [&str; 5] =
            ["$db", "$clusterTime", "$readPreference", "lsid", "apiVersion"];
        let mut fields = self.body.clone();
        if self.collection().is_some() || fields.get(&self.name) == Some(&Bson::Int32(1)) {
            fields.remove(&self.name);
        }
        OF_EVERY_COMMAND.iter().for_each(|key| drop(fields.remove(key)));
        write!(f, "{} {}", self.name, self.namespace())?;
        if !fields.is_empty() {
            write!(f, " {fields}")?;
        }
        Ok(())
    }
}

/// What stands around a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The reply's own id.
    pub request_id: i32,
    /// The id of the request that it answers, if all is as it should be.
    pub response_to: i32,
    /// Whether another reply follows without being asked for. OP_REPLY cannot say it.
    pub more_to_come: bool,
}

/// The document in a reply to a command, and the id of the request that it answers.
///
/// ```
/// use blackpipe_base::message::{Request, reply_document};
/// use bson::doc;
/// use steadfast_wire::write_legacy_hello;
///
/// let mut bytes = Vec::new();
/// write_legacy_hello(&mut bytes, 7, bson::rawdoc! { "isMaster": 1 })?;
/// let request = Request::decode(bytes.into(), 1)?;
///
/// let reply = request.reply(&doc! { "ok": 1 });
/// assert_eq!(reply_document(reply.into())?, (doc! { "ok": 1 }, 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn reply_document(message: Bytes) -> Result<(Document, i32), MessageError> {
    let incoming = decode(message, DEFAULT_MAX_MESSAGE_SIZE)?;
    let document = match incoming.message {
        Message::Msg(msg) => Document::try_from(msg.body.as_raw())?,
        Message::Reply(reply) => Document::try_from(reply.command_reply()?.as_raw())?,
        Message::Query(_) => return Err(MessageError::NotAReply("a query")),
        _ => return Err(MessageError::NotAReply("a message of an unknown kind")),
    };
    Ok((document, incoming.header.response_to))
}

/// Whether fewer fields were read than there are: a document keeps one of each name.
fn repeats_a_field(raw: &RawDocument, read: &Document) -> bool {
    raw.iter().count() > read.len()
}

#[cfg(test)]
mod tests;
