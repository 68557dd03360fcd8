//! A connection to a real or embedded server.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use bson::{Bson, Document, RawDocumentBuf, doc};
use steadfast_wire::{DEFAULT_MAX_MESSAGE_SIZE, Message, MsgFlags, OpMsg, decode};

/// Field of a substitute for an invalid reply: a real server truncates some error messages within a
/// UTF-8 character.
pub(crate) const UNREADABLE: &str = "unreadable";

pub(crate) struct Server {
    stream: TcpStream,
    next_id: i32,
}

impl Server {
    pub(crate) fn at(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a server that listens");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a socket");
        Self { stream, next_id: 1 }
    }

    /// Runs a command and exhausts its cursor. The reply has all documents in its first batch, and
    /// the size of each batch. An error of a `getMore` is returned instead.
    pub(crate) fn run_to_end(&mut self, command: &Document) -> Document {
        let mut reply = self.run(command);
        let Ok(cursor) = reply.get_document_mut("cursor") else { return reply };
        let Ok(first) = cursor.get_array_mut("firstBatch") else { return reply };
        let mut all = std::mem::take(first);
        let mut id = cursor_id(cursor);
        let mut sizes = vec![counted(all.len())];
        while id != 0 {
            let (collection, database) = (command.values().next(), command.get("$db"));
            let mut more = self.run(
                &doc! { "getMore": id, "collection": collection, "batchSize": 3, "$db": database },
            );
            let Ok(cursor) = more.get_document_mut("cursor") else { return more };
            id = cursor_id(cursor);
            let batch = cursor.get_array_mut("nextBatch").expect("a batch");
            sizes.push(counted(batch.len()));
            all.append(batch);
        }
        cursor.insert("firstBatch", all);
        cursor.insert("sizes", sizes);
        reply
    }

    /// Runs a command.
    pub(crate) fn run(&mut self, command: &Document) -> Document {
        self.try_run(command).expect("the server answers")
    }

    /// Runs a command. Returns an error if the server closed the connection.
    pub(crate) fn try_run(&mut self, command: &Document) -> io::Result<Document> {
        self.write(command, false)?;
        let mut reply = vec![0; 16];
        self.stream.read_exact(&mut reply)?;
        let length = i32::from_le_bytes(*reply.first_chunk().expect("a header"));
        reply.resize(usize::try_from(length).expect("a length"), 0);
        self.stream.read_exact(&mut reply[16..])?;
        match decode(reply.into(), DEFAULT_MAX_MESSAGE_SIZE).expect("a message").message {
            Message::Msg(msg) => {
                Ok(Document::try_from(msg.body.as_raw())
                    .unwrap_or_else(|_| doc! { UNREADABLE: true }))
            }
            _ => panic!("not an OP_MSG"),
        }
    }

    /// Sends a command to which no reply comes (`moreToCome`).
    pub(crate) fn send(&mut self, command: &Document) {
        self.write(command, true).expect("the server accepts the message");
    }

    fn write(&mut self, command: &Document, more_to_come: bool) -> io::Result<()> {
        let body = RawDocumentBuf::try_from(command).expect("a command");
        let flags = if more_to_come { MsgFlags::MORE_TO_COME } else { MsgFlags::empty() };
        let message = OpMsg::new(body.try_into().expect("a command")).with_flags(flags);
        let mut bytes = Vec::new();
        message.encode(self.next_id, 0, &mut bytes).expect("a command of sound size");
        self.next_id += 1;
        self.stream.write_all(&bytes)
    }
}

fn cursor_id(cursor: &Document) -> i64 {
    cursor.get_i64("id").expect("a cursor's id")
}

fn counted(count: usize) -> Bson {
    i32::try_from(count).expect("few documents").into()
}
