//! Inputs of a topology.

use std::time::Duration;

use bson::oid::ObjectId;

use crate::{address::ServerAddress, description::TopologyVersion, hello::HelloReply};

/// An input that can change the topology.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant)] // created one at a time and never stored
pub enum TopologyInput {
    /// A monitor has checked a server.
    Heartbeat {
        /// Address of the server.
        address: ServerAddress,
        /// Result of the check.
        outcome: Result<CheckSuccess, CheckFailure>,
    },
    /// An operation, or establishing a connection for it, failed.
    ///
    /// Apply this input before the connection is checked in.
    OperationError {
        /// Address of the server.
        address: ServerAddress,
        /// The error.
        error: ApplicationError,
    },
    /// A round trip time was measured apart from heartbeats.
    RoundTrip {
        /// Address of the server.
        address: ServerAddress,
        /// The round trip time.
        sample: Duration,
    },
    /// The SRV records were polled. Only hosts of the verified domain, in random order.
    SrvHosts(Vec<ServerAddress>),
    /// An operation waits because no server is suitable.
    NoSuitableServer,
    /// The client is closed. Later inputs have no effect.
    Close,
}

/// A successful heartbeat.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckSuccess {
    /// Reply of the server. A reply with `ok: 0` counts as a failed check.
    pub reply: HelloReply,
    /// Round trip time. `None` if the server was allowed to delay its reply (`awaited`).
    pub round_trip: Option<Duration>,
}

/// A failed heartbeat.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckFailure {
    /// Kind of the failure.
    pub kind: CheckFailureKind,
    /// Error message.
    pub message: String,
}

/// Kind of a failed heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckFailureKind {
    /// The connection could not be established, or broke.
    Network,
    /// The server did not respond in time.
    NetworkTimeout,
    /// The server replied with an error or a malformed document.
    Command,
}

impl CheckFailureKind {
    /// Returns `true` for a network error or network time-out.
    pub fn is_network(self) -> bool {
        match self {
            Self::Network | Self::NetworkTimeout => true,
            Self::Command => false,
        }
    }
}

/// Error of an operation, or of establishing a connection for it.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplicationError {
    /// State of the connection.
    pub phase: ConnectionPhase,
    /// Kind of the error.
    pub cause: ApplicationErrorKind,
    /// Error message.
    pub message: String,
    /// Generation of the connection.
    pub generation: u64,
    /// Id of the service behind a load balancer (`serviceId`).
    pub service_id: Option<ObjectId>,
    /// The error has the label `SystemOverloadedError`, from the server or from the pool, which
    /// adds it if overload may be the reason for a failed connection.
    pub overloaded: bool,
}

/// State of a connection at the time of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectionPhase {
    /// Before the end of the `hello` exchange.
    Connecting,
    /// Authenticating, after `hello`.
    Authenticating,
    /// Established and in use by operations.
    Established,
}

/// Kind of an operation error.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ApplicationErrorKind {
    /// The connection could not be established, or broke.
    Network,
    /// The server did not respond in time.
    NetworkTimeout,
    /// Command error or write concern error. Statement errors (`writeErrors`) do not count.
    Command(CommandFailure),
    /// Any other error, such as invalid credentials or an invalid certificate.
    Other,
}

/// Command error or write concern error of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandFailure {
    /// Error code (`code`).
    pub code: Option<i32>,
    /// Error message (`errmsg`). It decides only without a code.
    pub message: String,
    /// Version of the server's state at the time of the error (`topologyVersion`).
    pub topology_version: Option<TopologyVersion>,
}
