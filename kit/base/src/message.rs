//! Whole wire messages on a socket; requests and replies as documents. Input is checked before it
//! is used.

use std::{fmt, io};

use bson::{Bson, Document, RawDocument, RawDocumentBuf};
use bytes::{Bytes, BytesMut};
use steadfast_wire::{
    Compressor, DEFAULT_MAX_MESSAGE_SIZE, DocumentBytes, Framing, Message, MessageWriter, MsgFlags,
    OpMsg, OpQuery, OpReply, WireError, compress, decode, frame,
};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes reserved for one read. A peer that claims a large message gets memory only as its bytes
/// arrive.
const READ_CHUNK_BYTES: usize = 64 * 1024;

/// Error while a message was read or decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The socket failed.
    #[error("cannot read from the connection: {0}")]
    Io(#[from] io::Error),
    /// The connection closed in the middle of a message.
    #[error(
        "connection closed after {received} bytes of a message; at least {missing} are missing"
    )]
    Truncated {
        /// Bytes of the message that arrived.
        received: usize,
        /// Lower bound on the bytes that are missing.
        missing: usize,
    },
    /// The bytes are not a valid wire message.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// A document has an invalid value, such as a string that is not UTF-8.
    #[error("invalid document: {0}")]
    Document(#[from] bson::error::RawError),
    /// The message is not a command: it is a reply, or its body is empty.
    #[error("expected a command, received {0}")]
    NotACommand(&'static str),
    /// The message is not a reply to a command.
    #[error("expected a reply to a command, received {0}")]
    NotAReply(&'static str),
}

/// Splits the bytes of a stream into messages.
///
/// ```
/// use blackpipe_base::message::MessageReader;
/// use steadfast_wire::write_legacy_hello;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut bytes = Vec::new();
/// write_legacy_hello(&mut bytes, 1, bson::rawdoc! { "isMaster": 1 })?;
/// let first = bytes.len();
/// write_legacy_hello(&mut bytes, 2, bson::rawdoc! { "isMaster": 1, "helloOk": true })?;
///
/// let mut stream = bytes.as_slice();
/// let mut inbox = MessageReader::new();
/// assert_eq!(inbox.next(&mut stream).await?.unwrap().len(), first);
/// assert!(inbox.next(&mut stream).await?.is_some());
/// assert!(inbox.next(&mut stream).await?.is_none(), "the stream ends between messages");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MessageReader {
    bytes: BytesMut,
    max_message_size: usize,
}

impl Default for MessageReader {
    fn default() -> Self {
        Self::new()
    }
}

impl MessageReader {
    /// Creates a reader that accepts messages of up to 48,000,000 bytes (`maxMessageSizeBytes`), as
    /// servers do.
    pub fn new() -> Self {
        Self::with_limit(DEFAULT_MAX_MESSAGE_SIZE)
    }

    /// Creates a reader that accepts messages of up to `max_message_size` bytes.
    pub fn with_limit(max_message_size: usize) -> Self {
        Self { bytes: BytesMut::new(), max_message_size }
    }

    /// Returns the bytes that were read and do not belong to a returned message.
    pub fn buffered(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the next whole message with its header, or `None` if the connection closes between
    /// messages.
    ///
    /// # Errors
    ///
    /// Fails if the socket fails, if the connection closes in the middle of a message, or if the
    /// length is invalid. The start of the next message is unknown then: close the connection.
    ///
    /// # Cancellation
    ///
    /// Cancel safe. Bytes that were read stay in the reader.
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
                    had => Err(MessageError::Truncated { received: had, missing: needed }),
                };
            }
        }
    }

    /// Waits for `wanted` bytes of the next message, or for all of a shorter message, and returns
    /// what is buffered.
    ///
    /// The call reads no byte beyond that from the stream. The bytes stay in the reader.
    ///
    /// # Errors
    ///
    /// The same as for [`next`](Self::next).
    ///
    /// # Cancellation
    ///
    /// Cancel safe. Bytes that were read stay in the reader.
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
                0 => return Err(MessageError::Truncated { received: had, missing: needed }),
                _ => {}
            }
        }
        Ok(&self.bytes)
    }

    /// Reads once, at most `at_most` bytes.
    async fn read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        at_most: usize,
    ) -> io::Result<usize> {
        self.bytes.reserve(at_most.min(READ_CHUNK_BYTES));
        let at_most = u64::try_from(at_most).unwrap_or(u64::MAX);
        stream.take(at_most).read_buf(&mut self.bytes).await
    }
}

/// A decoded command.
///
/// Documents of [document sequences](steadfast_wire::DocumentSequence) are fields of
/// [`body`](Self::body), as if they had been sent in the body.
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
/// assert_eq!((request.id, request.connection, request.expects_reply), (42, 3, true));
/// assert_eq!(request.to_string(), r#"insert db.things { "documents": [{ "_id": 1 }] }"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// Index of the server in its deployment, from 0.
    pub member: usize,
    /// Number of the connection on that server, from 1.
    pub connection: usize,
    /// Number of requests received on the connection before this one.
    pub earlier_requests: usize,
    /// `requestID` of the message. The reply has it as `responseTo`.
    pub id: i32,
    /// Name of the command, as it was sent.
    pub name: String,
    /// Target database (`$db`). Empty if the command names none.
    pub database: String,
    /// Body of the command. Document sequences are array fields of it.
    pub body: Document,
    /// `true` if a field occurs twice. Readers differ in which of the two they use.
    pub has_duplicate_fields: bool,
    /// `true` if the request was sent as OP_QUERY (legacy hello).
    pub legacy: bool,
    /// Compressor of the message. `None` if it was not compressed.
    pub compressor: Option<Compressor>,
    /// `false` if the client set `moreToCome`: it reads no reply.
    pub expects_reply: bool,
    /// `true` if the client accepts several replies to the request (flag `exhaustAllowed`).
    pub exhaust_allowed: bool,
}

impl Request {
    /// Decodes a whole message, as [`MessageReader::next`] returns it. `connection` becomes
    /// [`connection`](Self::connection).
    ///
    /// # Errors
    ///
    /// Fails if the message is not a valid command.
    pub fn decode(message: Bytes, connection: usize) -> Result<Self, MessageError> {
        let incoming = decode(message, DEFAULT_MAX_MESSAGE_SIZE)?;
        let mut request = match incoming.message {
            Message::Msg(msg) => Self::of_msg(&msg)?,
            Message::Query(query) => Self::of_query(&query)?,
            Message::Reply(_) => return Err(MessageError::NotACommand("a reply")),
            _ => return Err(MessageError::NotACommand("a message with an unknown opcode")),
        };
        request.connection = connection;
        request.id = incoming.header.request_id;
        request.compressor = incoming.compressor;
        Ok(request)
    }

    fn of_msg(msg: &OpMsg) -> Result<Self, MessageError> {
        let mut body = Document::try_from(msg.body.as_raw())?;
        let mut has_duplicate_fields = has_duplicate_fields(msg.body.as_raw(), &body);
        for sequence in &msg.sequences {
            let documents = sequence.iter().map(|raw| Document::try_from(raw).map(Bson::Document));
            let documents: Vec<Bson> = documents.collect::<Result<_, _>>()?;
            has_duplicate_fields |= body.insert(&sequence.identifier, documents).is_some();
        }
        let database = body.get_str("$db").unwrap_or_default().to_owned();
        Ok(Self {
            has_duplicate_fields,
            expects_reply: !msg.flags.contains(MsgFlags::MORE_TO_COME),
            exhaust_allowed: msg.flags.contains(MsgFlags::EXHAUST_ALLOWED),
            ..Self::new(body, database)?
        })
    }

    fn of_query(query: &OpQuery) -> Result<Self, MessageError> {
        let Some(database) = query.command_database() else {
            return Err(MessageError::NotACommand("a legacy query of a collection"));
        };
        let mut body = Document::try_from(query.query.as_raw())?;
        let has_duplicate_fields = has_duplicate_fields(query.query.as_raw(), &body);
        // Legacy drivers wrap a command in `$query` to add a read preference.
        if let Ok(inner) = body.get_document("$query") {
            body = inner.clone();
        }
        Ok(Self { has_duplicate_fields, legacy: true, ..Self::new(body, database.to_owned())? })
    }

    fn new(body: Document, database: String) -> Result<Self, MessageError> {
        let Some(name) = body.keys().next().cloned() else {
            return Err(MessageError::NotACommand("an empty document"));
        };
        Ok(Self {
            member: 0,
            connection: 0,
            earlier_requests: 0,
            id: 0,
            name,
            database,
            body,
            has_duplicate_fields: false,
            legacy: false,
            compressor: None,
            expects_reply: true,
            exhaust_allowed: false,
        })
    }

    /// Returns the collection of the command. `None` for commands without one.
    pub fn collection(&self) -> Option<&str> {
        match self.name.as_str() {
            "getMore" => self.body.get_str("collection").ok(),
            name => self.body.get_str(name).ok(),
        }
    }

    /// Returns `database.collection`, or the database if the command has no collection.
    pub fn namespace(&self) -> String {
        match self.collection() {
            Some(collection) => format!("{}.{collection}", self.database),
            None => self.database.clone(),
        }
    }

    /// Returns `true` for `hello`, `isMaster` and `ismaster`.
    pub fn is_hello(&self) -> bool {
        self.name == "hello" || self.name.eq_ignore_ascii_case("ismaster")
    }

    /// Returns `lsid` and `txnNumber`, which identify a retryable write. All commands of a
    /// transaction share them.
    pub fn session_and_txn_number(&self) -> Option<(&Document, i64)> {
        Some((self.body.get_document("lsid").ok()?, self.body.get_i64("txnNumber").ok()?))
    }

    /// Returns `true` for a command of a multi-document transaction (it has `autocommit`).
    pub fn is_in_transaction(&self) -> bool {
        self.body.contains_key("autocommit")
    }

    /// Encodes a reply in the form of the request: OP_REPLY to OP_QUERY, else OP_MSG; compressed if
    /// the request was.
    ///
    /// # Panics
    ///
    /// Panics if the document cannot be encoded.
    pub fn reply(&self, reply: &Document) -> Vec<u8> {
        self.reply_as(
            reply,
            ReplyHeader { request_id: 1, response_to: self.id, more_to_come: false },
        )
    }

    /// Encodes a reply with the given header fields.
    ///
    /// # Panics
    ///
    /// Panics if the document cannot be encoded, for example because a key contains NUL or the
    /// reply exceeds the maximum message size.
    pub fn reply_as(&self, reply: &Document, header: ReplyHeader) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write_reply(reply, header, &mut bytes);
        bytes
    }

    /// Appends an encoded reply to `out`.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`reply_as`](Self::reply_as).
    pub fn write_reply(&self, reply: &Document, header: ReplyHeader, out: &mut Vec<u8>) {
        let reply = RawDocumentBuf::try_from(reply).expect("reply has no NUL in its keys");
        let ReplyHeader { request_id, response_to, more_to_come } = header;
        let mut plain = Vec::new();
        let bytes = if self.compressor.is_some() { &mut plain } else { &mut *out };
        if self.legacy {
            let reply = DocumentBytes::try_from(reply).expect("encoded reply is valid");
            let message = OpReply::to_command(&reply).expect("reply is one document");
            message
                .encode(request_id, response_to, bytes)
                .expect("reply is within the message size limit");
        } else {
            let flags = if more_to_come { MsgFlags::MORE_TO_COME } else { MsgFlags::empty() };
            let mut message = MessageWriter::reply(bytes, request_id, response_to, flags);
            message.body().append_elements_of(&reply);
            message.finish().expect("reply is within the message size limit");
        }
        if let Some(compressor) = self.compressor {
            compress(&plain, compressor, out).expect("compressor of the request is supported");
        }
    }
}

/// Formats as `name namespace { fields }`, without the fields that drivers add to every command.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const GENERIC_FIELDS: [&str; 5] =
            ["$db", "$clusterTime", "$readPreference", "lsid", "apiVersion"];
        let mut fields = self.body.clone();
        if self.collection().is_some() || fields.get(&self.name) == Some(&Bson::Int32(1)) {
            fields.remove(&self.name);
        }
        GENERIC_FIELDS.iter().for_each(|key| drop(fields.remove(key)));
        write!(f, "{} {}", self.name, self.namespace())?;
        if !fields.is_empty() {
            write!(f, " {fields}")?;
        }
        Ok(())
    }
}

/// Header fields of a reply that a script can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader {
    /// `requestID` of the reply.
    pub request_id: i32,
    /// `responseTo`: id of the request. A script can send a wrong one.
    pub response_to: i32,
    /// Sets the flag `moreToCome`: another reply follows without a request. OP_REPLY has no such
    /// flag.
    pub more_to_come: bool,
}

/// Decodes a reply to a command. Returns its document and `responseTo`.
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
///
/// # Errors
///
/// Fails if the message is invalid or not a reply.
pub fn reply_document(message: Bytes) -> Result<(Document, i32), MessageError> {
    let incoming = decode(message, DEFAULT_MAX_MESSAGE_SIZE)?;
    let document = match incoming.message {
        Message::Msg(msg) => Document::try_from(msg.body.as_raw())?,
        Message::Reply(reply) => Document::try_from(reply.command_reply()?.as_raw())?,
        Message::Query(_) => return Err(MessageError::NotAReply("a query")),
        _ => return Err(MessageError::NotAReply("a message with an unknown opcode")),
    };
    Ok((document, incoming.header.response_to))
}

/// Returns `true` if the raw document has more fields than the decoded one, which keeps one field
/// per name.
fn has_duplicate_fields(raw: &RawDocument, read: &Document) -> bool {
    raw.iter().count() > read.len()
}

#[cfg(test)]
mod tests;
