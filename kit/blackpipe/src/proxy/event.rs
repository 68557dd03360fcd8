//! What passes, for whoever watches.

use std::net::SocketAddr;

use bson::RawDocument;

/// Something that happened at the proxy.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A client connected.
    Connected {
        /// The connection's number.
        connection: u64,
        /// The server that it is for.
        server: &'a str,
        /// Where the client is.
        client: SocketAddr,
    },
    /// A request came whole.
    Request {
        /// The connection's number.
        connection: u64,
        /// The server that it is for.
        server: &'a str,
        /// What it is.
        message: Shown<'a>,
        /// Whether the same write was sent before.
        is_retry: bool,
    },
    /// A reply came whole from the server, or was made by the proxy.
    Reply {
        /// The connection's number.
        connection: u64,
        /// The server that it is from.
        server: &'a str,
        /// What it is.
        message: Shown<'a>,
        /// Whether it says that the command succeeded.
        ok: bool,
        /// The error's number.
        code: Option<i32>,
        /// Microseconds since the request came; nothing for a reply that nobody asked for.
        micros: Option<u64>,
        /// Whether the proxy answered in the server's place.
        by_proxy: bool,
    },
    /// A rule was applied.
    Fault {
        /// The connection's number.
        connection: u64,
        /// The server that it is for.
        server: &'a str,
        /// The rules.
        rules: &'a [String],
        /// What they did, in words.
        what: &'a str,
    },
    /// A connection ended.
    Closed {
        /// The connection's number.
        connection: u64,
        /// The server that it was for.
        server: &'a str,
        /// Why, in words.
        why: &'a str,
    },
}

/// A message as it is shown.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Shown<'a> {
    /// The command's name; of a reply, that of its request.
    pub command: &'a str,
    /// The collection or database.
    pub namespace: &'a str,
    /// How long the message is.
    pub bytes: usize,
    /// The id in its header.
    pub request_id: i32,
    /// The id of the message that it answers.
    pub response_to: i32,
    /// The command or reply, documents beside it left out. `None` if it may hold secrets, or cannot
    /// be read.
    pub body: Option<&'a RawDocument>,
}

/// Whether a command or the reply to it may hold secrets.
pub(crate) fn is_sensitive(command: &str, body: Option<&RawDocument>) -> bool {
    const SENSITIVE: [&str; 9] = [
        "authenticate",
        "copydb",
        "copydbgetnonce",
        "copydbsaslstart",
        "createuser",
        "getnonce",
        "saslcontinue",
        "saslstart",
        "updateuser",
    ];
    let speculative =
        body.is_some_and(|body| steadfast_wire::field(body, "speculativeAuthenticate").is_some());
    speculative || SENSITIVE.iter().any(|name| name.eq_ignore_ascii_case(command))
}
