//! A minimal client.

use std::io;

use blackpipe::{
    message::{MessageError, MessageReader, reply_document},
    server::Server,
};
use bson::{Document, RawDocumentBuf};
use steadfast_wire::{
    Compressor, DocumentBytes, Header, Message, MsgFlags, OpMsg, OpQuery, compress, decode,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

pub(crate) struct Client<S = TcpStream> {
    pub(crate) stream: S,
    inbox: MessageReader,
    last_id: i32,
}

/// A reply with its header.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) id: i32,
    pub(crate) response_to: i32,
    pub(crate) more_to_come: bool,
    pub(crate) compressor: Option<Compressor>,
    pub(crate) document: Document,
}

impl Client {
    pub(crate) async fn of(server: &Server) -> Self {
        Self::over(TcpStream::connect(server.socket_address()).await.unwrap())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, inbox: MessageReader::new(), last_id: 100 }
    }

    /// Sends a command and returns its reply.
    pub(crate) async fn run(&mut self, command: Document) -> Document {
        let id = self.send(command).await;
        let reply = self.receive().await.unwrap();
        assert_eq!(reply.response_to, id);
        reply.document
    }

    /// Sends a command and returns its `requestID`.
    pub(crate) async fn send(&mut self, command: Document) -> i32 {
        self.send_with(command, MsgFlags::empty(), None).await
    }

    pub(crate) async fn send_with(
        &mut self,
        command: Document,
        flags: MsgFlags,
        compressor: Option<Compressor>,
    ) -> i32 {
        self.last_id += 1;
        let mut bytes = message(self.last_id, &command, flags);
        if let Some(compressor) = compressor {
            let mut compressed = Vec::new();
            compress(&bytes, compressor, &mut compressed).unwrap();
            bytes = compressed;
        }
        self.stream.write_all(&bytes).await.unwrap();
        self.last_id
    }

    /// Sends a legacy `hello` as OP_QUERY.
    pub(crate) async fn send_legacy(&mut self, command: &Document) -> i32 {
        self.last_id += 1;
        let mut bytes = Vec::new();
        OpQuery::hello(encoded(command)).encode(self.last_id, &mut bytes).unwrap();
        self.stream.write_all(&bytes).await.unwrap();
        self.last_id
    }

    pub(crate) async fn receive(&mut self) -> Result<Reply, MessageError> {
        let gone = || MessageError::Io(io::ErrorKind::UnexpectedEof.into());
        let message = self.inbox.next(&mut self.stream).await?.ok_or_else(gone)?;
        let incoming = decode(message.clone(), message.len().max(50_000_000))?;
        let Header { request_id: id, response_to, .. } = incoming.header;
        let more_to_come = matches!(incoming.message,
            Message::Msg(msg) if msg.flags.contains(MsgFlags::MORE_TO_COME));
        let (document, _) = reply_document(message)?;
        Ok(Reply { id, response_to, more_to_come, compressor: incoming.compressor, document })
    }

    /// Reads until the connection ends. Returns the bytes and how it ended.
    pub(crate) async fn rest(&mut self) -> (Vec<u8>, io::Result<()>) {
        let mut bytes = Vec::new();
        let end = self.stream.read_to_end(&mut bytes).await.map(drop);
        (bytes, end)
    }
}

/// Encodes a command.
pub(crate) fn message(id: i32, command: &Document, flags: MsgFlags) -> Vec<u8> {
    let mut bytes = Vec::new();
    OpMsg::new(encoded(command)).with_flags(flags).encode(id, 0, &mut bytes).unwrap();
    bytes
}

fn encoded(command: &Document) -> DocumentBytes {
    DocumentBytes::try_from(RawDocumentBuf::try_from(command).unwrap()).unwrap()
}
