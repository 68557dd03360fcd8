//! What a topology is told.

use std::time::Duration;

use bson::oid::ObjectId;

use crate::{address::ServerAddress, description::TopologyVersion, hello::HelloReply};

/// Something that happened outside, and may change what is known of the deployment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant)] // made one at a time and never stored
pub enum Input {
    /// A monitor has checked a server.
    Heartbeat {
        /// Which.
        address: ServerAddress,
        /// What came of it.
        outcome: Result<Checked, CheckFailure>,
    },
    /// An operation, or the establishing of a connection for one, failed.
    ///
    /// To be told before the connection is given back to its pool.
    OperationError {
        /// On which server.
        address: ServerAddress,
        /// How.
        error: ApplicationError,
    },
    /// The round trip to a server was measured apart from its heartbeats.
    RoundTrip {
        /// To which server.
        address: ServerAddress,
        /// How long it took.
        sample: Duration,
    },
    /// DNS names these hosts now: only those whose domain was verified, in random order.
    SrvHosts(Vec<ServerAddress>),
    /// An operation waits because no server suits it.
    NoSuitableServer,
    /// The client is closed. Nothing is heeded after this.
    Close,
}

/// The good end of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// What the server said. A reply with `ok: 0` is taken for a failed check.
    pub reply: HelloReply,
    /// How long it took; none if the server was free to wait before it replied (`awaited`), for
    /// then the time says nothing of the distance.
    pub round_trip: Option<Duration>,
}

/// The bad end of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckFailure {
    /// What kind of failure it was.
    pub kind: CheckFailureKind,
    /// What went wrong, in words.
    pub message: String,
}

/// What kinds of failures a check can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckFailureKind {
    /// The connection could not be made, or broke.
    Network,
    /// The server did not answer in time.
    NetworkTimeout,
    /// The server answered with an error, or with something that is no answer.
    Command,
}

impl CheckFailureKind {
    /// Whether the network is to blame.
    pub fn is_network(self) -> bool {
        match self {
            Self::Network | Self::NetworkTimeout => true,
            Self::Command => false,
        }
    }
}

/// How an operation, or the establishing of a connection for one, failed.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplicationError {
    /// How far the connection had come.
    pub phase: ConnectionPhase,
    /// What kind of failure it was.
    pub cause: ErrorCause,
    /// What went wrong, in words.
    pub message: String,
    /// The generation of the connection.
    pub generation: u64,
    /// Which server behind the load balancer it was.
    pub service_id: Option<ObjectId>,
    /// Whether the error bears the label `SystemOverloadedError`: put there by the server, or by
    /// the pool when the connection could not be established and overload may be the reason.
    pub overloaded: bool,
}

/// How far a connection had come when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectionPhase {
    /// Up to and including the reply to hello.
    Connecting,
    /// After that, while authenticating.
    Authenticating,
    /// In use by operations.
    Established,
}

/// What kinds of failures an operation can have, as far as the topology cares.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ErrorCause {
    /// The connection could not be made, or broke.
    Network,
    /// The server did not answer in time.
    NetworkTimeout,
    /// The server answered with an error, or with a write concern error. (Not for `writeErrors`.)
    Command(CommandFailure),
    /// Anything else, such as credentials or a certificate that was refused.
    Other,
}

/// A server's error, as far as the topology cares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandFailure {
    /// Its code.
    pub code: Option<i32>,
    /// Its message; decides only where there is no code.
    pub message: String,
    /// The server's count of its changes when it failed.
    pub topology_version: Option<TopologyVersion>,
}
