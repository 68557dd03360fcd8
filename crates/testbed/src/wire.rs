//! Just enough of the wire protocol to set a server up: one command, one reply, blocking.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use bson::{Document, doc};

use crate::{Result, TestbedError};

const OP_MSG: i32 = 2013;
const HEADER_BYTES: usize = 16;
/// Before the body of an OP_MSG: the flags, and the kind of its first section.
const PREFIX_BYTES: usize = 5;
/// What servers accept and send at most.
const MAX_MESSAGE_BYTES: usize = 48_000_000;

/// Longer than any set-up command takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a command on a connection of its own; a reply with `ok: 0` is an error.
pub(crate) fn run_command(address: SocketAddr, db: &str, command: Document) -> Result<Document> {
    let name = command.keys().next().cloned().unwrap_or_default();
    let reply = round_trip(address, db, command, PATIENCE)
        .map_err(|error| TestbedError::io(format!("{name} on {address}"), &error))?;
    // The server writes 1.0, or 1 in some releases.
    let ok = reply.get("ok").is_some_and(|ok| {
        ok.as_f64() == Some(1.0) || ok.as_i32() == Some(1) || ok.as_bool() == Some(true)
    });
    match ok {
        true => Ok(reply),
        false => Err(TestbedError::new(format!("{name} on {address}: {reply}"))),
    }
}

/// What the server says of itself, if it answers soon: it may be down or frozen.
pub(crate) fn hello(address: SocketAddr) -> Option<Document> {
    const SOON: Duration = Duration::from_secs(1);
    round_trip(address, "admin", doc! { "hello": 1 }, SOON).ok()
}

fn round_trip(
    address: SocketAddr,
    db: &str,
    mut command: Document,
    patience: Duration,
) -> io::Result<Document> {
    command.insert("$db", db);
    let body = command.to_vec().map_err(io::Error::other)?;
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    stream.write_all(&message(&body)?)?;
    read_reply(&mut stream)
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
        return Err(io::Error::other(format!("the reply claims {length} bytes")));
    }
    let mut rest = vec![0; length - 4];
    stream.read_exact(&mut rest)?;
    let body = &rest[HEADER_BYTES + PREFIX_BYTES - 4..];
    Document::from_reader(body).map_err(io::Error::other)
}
