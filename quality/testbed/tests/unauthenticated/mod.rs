//! Commands over a connection that does not authenticate.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use bson::Document;

/// Time-out of a reply. Exceeded only by a hang.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
const OP_MSG: i32 = 2013;

/// Sends a command to the database `admin` and returns the reply, or an error if the server closes the connection.
pub(crate) fn run(address: SocketAddr, mut command: Document) -> io::Result<Document> {
    command.insert("$db", "admin");
    let body = bson::document_to_vec(&command).unwrap();
    let mut message = Vec::new();
    for field in [i32::try_from(21 + body.len()).unwrap(), 1, 0, OP_MSG, 0] {
        message.extend(field.to_le_bytes());
    }
    message.push(0);
    message.extend(body);
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    stream.write_all(&message)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut rest = vec![0; usize::try_from(i32::from_le_bytes(length)).unwrap() - 4];
    stream.read_exact(&mut rest)?;
    Document::from_reader(&rest[17..]).map_err(io::Error::other)
}

/// Returns true if the server requires authentication for this command.
pub(crate) fn is_rejected(address: SocketAddr, command: Document) -> bool {
    run(address, command).unwrap().get_str("codeName").is_ok_and(|name| name == "Unauthorized")
}
