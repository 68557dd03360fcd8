//! The kinds of failure, and what other libraries' errors become of them.

use std::{fmt, io, sync::Arc};

use steadfast_core::description::TopologyVersion;
use steadfast_wire::WireError;

use super::{BulkWriteError, GridFsErrorKind, InsertManyError, Timeout, WriteFailure};

/// The kinds of failure.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call itself was at fault; nothing was sent.
    #[error("invalid argument: {message}")]
    #[non_exhaustive]
    InvalidArgument {
        /// What is wrong with it.
        message: String,
    },
    /// Logging in failed.
    #[error("authentication failed: {message}")]
    #[non_exhaustive]
    Authentication {
        /// Which mechanism, and why.
        message: String,
    },
    /// A value could not be turned into BSON, or BSON into a value.
    #[error("BSON: {0}")]
    Bson(bson::error::Error),
    /// Some documents of an `insert_many` were not inserted.
    #[error("insert_many failed: {0}")]
    InsertMany(InsertManyError),
    /// Some models of a `bulk_write` were not carried out.
    #[error("bulk_write failed: {0}")]
    BulkWrite(BulkWriteError),
    /// The server refused the command.
    #[error("command failed: {0}")]
    Command(CommandError),
    /// A name could not be resolved.
    #[error("DNS: {message}")]
    #[non_exhaustive]
    DnsResolve {
        /// Which name, and why.
        message: String,
    },
    /// A file of a GridFS bucket is not there, or is not what it must be.
    #[error("GridFS: {0}")]
    GridFs(GridFsErrorKind),
    /// A bug in this crate.
    #[error("internal error (please report it): {message}")]
    #[non_exhaustive]
    Internal {
        /// What should not have been.
        message: String,
    },
    /// The connection failed.
    #[error("I/O: {0}")]
    Io(Arc<io::Error>),
    /// The connections to a server were given up because another operation found it failing.
    #[error("{message}")]
    #[non_exhaustive]
    ConnectionPoolCleared {
        /// Which server, and why.
        message: String,
    },
    /// A server sent what no server may send.
    #[error("invalid reply: {message}")]
    #[non_exhaustive]
    InvalidResponse {
        /// What was wrong with it.
        message: String,
    },
    /// An event of a change stream came without the token that the stream could be resumed after.
    #[error("cannot provide resume functionality when the resume token is missing")]
    MissingResumeToken,
    /// No suitable server was found in time.
    #[error("no suitable server: {message}")]
    #[non_exhaustive]
    ServerSelection {
        /// What was wanted, and what each server is.
        message: String,
    },
    /// The deployment has no sessions.
    #[error("this deployment does not support sessions")]
    SessionsNotSupported,
    /// The TLS options cannot be used.
    #[error("invalid TLS configuration: {message}")]
    #[non_exhaustive]
    InvalidTlsConfig {
        /// Which file or option, and why.
        message: String,
    },
    /// The call was not done when its time was over. What it was at is the error's source.
    #[error("{0}")]
    Timeout(Timeout),
    /// A write was refused, or is not as durable as asked.
    #[error("write failed: {0}")]
    Write(WriteFailure),
    /// A transaction was used wrongly.
    #[error("transaction: {message}")]
    #[non_exhaustive]
    Transaction {
        /// What was wrong.
        message: String,
    },
    /// The server is too old, or too new, for this.
    #[error("incompatible server: {message}")]
    #[non_exhaustive]
    IncompatibleServer {
        /// What it lacks.
        message: String,
    },
    /// The client was shut down.
    #[error("the client has been shut down")]
    Shutdown,
    /// A value of the application's own.
    #[error("an error of the application")]
    Custom(Arc<dyn std::any::Any + Send + Sync>),
}

impl From<io::Error> for ErrorKind {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

impl From<bson::error::Error> for ErrorKind {
    fn from(error: bson::error::Error) -> Self {
        Self::Bson(error)
    }
}

impl From<WireError> for ErrorKind {
    fn from(error: WireError) -> Self {
        Self::InvalidResponse { message: error.to_string() }
    }
}

impl From<steadfast_core::address::InvalidAddress> for ErrorKind {
    fn from(error: steadfast_core::address::InvalidAddress) -> Self {
        Self::InvalidArgument { message: error.to_string() }
    }
}

/// A server's refusal of a whole command.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CommandError {
    /// The number of the error.
    pub code: i32,
    /// Its name.
    pub code_name: String,
    /// What the server says of it.
    pub message: String,
    /// The server's state when it said so, by which newer knowledge is told from older.
    pub(crate) topology_version: Option<TopologyVersion>,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}", self.code)?;
        if !self.code_name.is_empty() {
            write!(f, " ({})", self.code_name)?;
        }
        match self.message.as_str() {
            "" => f.write_str(": the server gave no reason"),
            message => write!(f, ": {message}"),
        }
    }
}
