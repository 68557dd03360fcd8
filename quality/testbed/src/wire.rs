//! A minimal client of the wire protocol for set-up commands: one command, one reply, blocking.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use bson::{Document, doc};

use crate::{Result, TestbedError, scram};

const OP_MSG: i32 = 2013;
const HEADER_BYTES: usize = 16;
/// Flags of an OP_MSG and the kind of its first section, before the body.
const PREFIX_BYTES: usize = 5;
/// Largest message that servers accept and send (`maxMessageSizeBytes`).
const MAX_MESSAGE_BYTES: usize = 48_000_000;

/// Bound on a set-up command on a busy machine.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a command on a new connection, which authenticates if `auth` is true. A reply with `ok: 0` is an error.
pub(crate) fn run_command(
    address: SocketAddr,
    auth: bool,
    db: &str,
    command: Document,
) -> Result<Document> {
    let name = command.keys().next().cloned().unwrap_or_default();
    let run = || {
        let mut connection = Connection::open(address, COMMAND_TIMEOUT)?;
        if auth {
            scram::authenticate(&mut connection)?;
        }
        connection.round_trip(db, command)
    };
    let reply = run().map_err(|error| TestbedError::io(format!("{name} on {address}"), &error))?;
    // Some releases return 1 instead of 1.0.
    let ok = reply.get("ok").is_some_and(|ok| {
        ok.as_f64() == Some(1.0) || ok.as_i32() == Some(1) || ok.as_bool() == Some(true)
    });
    match ok {
        true => Ok(reply),
        false => Err(TestbedError::new(format!("{name} on {address}: {reply}"))),
    }
}

/// Returns the reply to `hello`, or `None` if there is none within a second: the server may be down or frozen.
pub(crate) fn hello(address: SocketAddr) -> Option<Document> {
    const HELLO_TIMEOUT: Duration = Duration::from_secs(1);
    let mut connection = Connection::open(address, HELLO_TIMEOUT).ok()?;
    connection.round_trip("admin", doc! { "hello": 1 }).ok()
}

/// A connection without TLS.
pub(crate) struct Connection {
    stream: TcpStream,
}

impl Connection {
    fn open(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self { stream })
    }

    /// Sends a command and reads its reply.
    pub(crate) fn round_trip(&mut self, db: &str, mut command: Document) -> io::Result<Document> {
        command.insert("$db", db);
        let body = bson::document_to_vec(&command).map_err(io::Error::other)?;
        self.stream.write_all(&message(&body)?)?;
        read_reply(&mut self.stream)
    }
}

fn message(body: &[u8]) -> io::Result<Vec<u8>> {
    let length = HEADER_BYTES + PREFIX_BYTES + body.len();
    let length = i32::try_from(length).map_err(io::Error::other)?;
    let mut message = Vec::new();
    for field in [length, 1, 0, OP_MSG, 0] {
        message.extend(field.to_le_bytes());
    }
    message.push(0);
    message.extend(body);
    Ok(message)
}

fn read_reply(stream: &mut TcpStream) -> io::Result<Document> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(i32::from_le_bytes(length)).unwrap_or(0);
    if !(HEADER_BYTES + PREFIX_BYTES..=MAX_MESSAGE_BYTES).contains(&length) {
        return Err(io::Error::other(format!("the reply has an invalid length of {length} bytes")));
    }
    let mut rest = vec![0; length - 4];
    stream.read_exact(&mut rest)?;
    let body = &rest[HEADER_BYTES + PREFIX_BYTES - 4..];
    Document::from_reader(body).map_err(io::Error::other)
}
