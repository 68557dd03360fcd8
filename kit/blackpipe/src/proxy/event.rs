//! Events of the proxy for observers.

use std::net::SocketAddr;

use bson::RawDocument;

/// An event of the proxy. [`ProxyBuilder::observe`](super::ProxyBuilder::observe) registers an
/// observer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ProxyEvent<'a> {
    /// A client connected.
    Connected {
        /// Number of the connection.
        connection: u64,
        /// Server of the connection.
        server: &'a str,
        /// Address of the client.
        client: SocketAddr,
    },
    /// A request arrived completely.
    Request {
        /// Number of the connection.
        connection: u64,
        /// Server of the connection.
        server: &'a str,
        /// Summary of the message.
        message: MessageSummary<'a>,
        /// `true` if the client sent the same retryable write before.
        is_retry: bool,
    },
    /// A reply arrived completely from the server, or the proxy made one.
    Reply {
        /// Number of the connection.
        connection: u64,
        /// Server of the connection.
        server: &'a str,
        /// Summary of the message.
        message: MessageSummary<'a>,
        /// `true` if the command succeeded (`ok: 1`).
        ok: bool,
        /// Error code (`code`).
        code: Option<i32>,
        /// Microseconds since the request arrived. `None` for replies of the proxy.
        micros: Option<u64>,
        /// `true` if the proxy made the reply.
        by_proxy: bool,
    },
    /// A rule was applied.
    Fault {
        /// Number of the connection.
        connection: u64,
        /// Server of the connection.
        server: &'a str,
        /// Names of the rules.
        rules: &'a [String],
        /// Description of the fault.
        what: &'a str,
    },
    /// A connection was closed.
    Closed {
        /// Number of the connection.
        connection: u64,
        /// Server of the connection.
        server: &'a str,
        /// Reason for the end of the connection.
        why: &'a str,
    },
}

/// Summary of a message for observers.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MessageSummary<'a> {
    /// Name of the command; for a reply, of its request.
    pub command: &'a str,
    /// Collection, or database if the command has none.
    pub namespace: &'a str,
    /// Length of the message in bytes.
    pub bytes: usize,
    /// `requestID` of the message.
    pub request_id: i32,
    /// `responseTo` of the message.
    pub response_to: i32,
    /// Body of the message without document sequences. `None` if it may contain secrets or is
    /// invalid.
    pub body: Option<&'a RawDocument>,
}

/// Returns `true` if the command or its reply may contain secrets.
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
