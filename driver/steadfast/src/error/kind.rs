//! Kinds of errors.

use std::{convert::Infallible, fmt, io, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_core::description::TopologyVersion;
use steadfast_wire::WireError;

use super::{BulkWriteError, GridFsErrorKind, InsertManyError, Timeout, WriteFailure};

/// Kind of an error.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument or option is invalid. Nothing was sent.
    #[error("invalid argument: {message}")]
    #[non_exhaustive]
    InvalidArgument {
        /// Option or argument, and the reason.
        message: String,
    },
    /// Authentication failed.
    #[error("authentication failed: {message}")]
    #[non_exhaustive]
    Authentication {
        /// Mechanism and reason.
        message: String,
    },
    /// A value could not be converted from BSON. Used with the feature `bson-2`, if `bson-3` is off.
    #[error("BSON conversion failed: {0}")]
    BsonDeserialization(bson::error::DeserializeError),
    /// A value could not be converted to BSON. Used with the feature `bson-2`, if `bson-3` is off.
    #[error("BSON conversion failed: {0}")]
    BsonSerialization(bson::error::SerializeError),
    /// A value could not be converted to or from BSON. Used with the feature `bson-3`.
    #[error("BSON conversion failed: {0}")]
    Bson(bson::error::Error),
    /// Some documents of an `insert_many` were not inserted.
    #[error("insert_many failed: {0}")]
    InsertMany(InsertManyError),
    /// Some models of a `bulk_write` were not executed.
    #[error("bulk_write failed: {0}")]
    BulkWrite(BulkWriteError),
    /// The server returned an error for the command.
    #[error("command failed: {0}")]
    Command(CommandError),
    /// A DNS name could not be resolved.
    #[error("DNS resolution failed: {message}")]
    #[non_exhaustive]
    DnsResolve {
        /// Name and reason.
        message: String,
    },
    /// A GridFS operation failed without a server error.
    #[error("GridFS: {0}")]
    GridFs(GridFsErrorKind),
    /// An invariant of the driver was violated: a bug.
    #[error("internal error: {message}; please report this bug")]
    #[non_exhaustive]
    Internal {
        /// Description of the bug.
        message: String,
    },
    /// The network, or another I/O operation, failed.
    #[error("I/O error: {0}")]
    Io(Arc<io::Error>),
    /// The connection pool was cleared, because another operation or a monitor found the server
    /// unavailable.
    #[error("{message}")]
    #[non_exhaustive]
    ConnectionPoolCleared {
        /// Server and reason.
        message: String,
    },
    /// A connection through a SOCKS5 proxy failed. Not returned yet: proxies are not supported.
    #[error("proxy connection failed: {message}")]
    #[non_exhaustive]
    ProxyConnect {
        /// Proxy and reason.
        message: String,
    },
    /// The server sent an invalid reply.
    #[error("invalid reply: {message}")]
    #[non_exhaustive]
    InvalidResponse {
        /// Description of the reply.
        message: String,
    },
    /// A change stream event has no resume token: the pipeline removed its `_id`.
    #[error("cannot provide resume functionality when the resume token is missing")]
    MissingResumeToken,
    /// No suitable server was available within `serverSelectionTimeoutMS`.
    #[error("no suitable server: {message}")]
    #[non_exhaustive]
    ServerSelection {
        /// Requested kind of server, and the known servers with their states.
        message: String,
    },
    /// The deployment does not support sessions.
    #[error("this deployment does not support sessions")]
    SessionsNotSupported,
    /// The TLS options are invalid.
    #[error("invalid TLS configuration: {message}")]
    #[non_exhaustive]
    InvalidTlsConfig {
        /// File or option, and the reason.
        message: String,
    },
    /// The deadline of the call (`timeoutMS`) passed. The source is the last error.
    #[error("{0}")]
    Timeout(Timeout),
    /// The server reported a write error or a write concern error.
    #[error("write failed: {0}")]
    Write(WriteFailure),
    /// The operation is not allowed in the state of the transaction.
    #[error("transaction: {message}")]
    #[non_exhaustive]
    Transaction {
        /// Reason.
        message: String,
    },
    /// The server version does not support the operation.
    #[error("incompatible server: {message}")]
    #[non_exhaustive]
    IncompatibleServer {
        /// Required version.
        message: String,
    },
    /// The client was shut down.
    #[error("the client was shut down; create a new one")]
    Shutdown,
    /// An error of the application. See [`Error::custom`](super::Error::custom).
    #[error("application error")]
    Custom(Arc<dyn std::any::Any + Send + Sync>),
}

impl From<Infallible> for ErrorKind {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<io::Error> for ErrorKind {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

bson::only_bson_3! {
    impl From<bson::error::Error> for ErrorKind {
        fn from(error: bson::error::Error) -> Self {
            Self::Bson(error)
        }
    }
}

bson::only_bson_2! {
    impl From<bson::error::DeserializeError> for ErrorKind {
        fn from(error: bson::error::DeserializeError) -> Self {
            Self::BsonDeserialization(error)
        }
    }

    impl From<bson::error::SerializeError> for ErrorKind {
        fn from(error: bson::error::SerializeError) -> Self {
            Self::BsonSerialization(error)
        }
    }

    impl From<bson::error::RawError> for ErrorKind {
        fn from(error: bson::error::RawError) -> Self {
            Self::InvalidResponse { message: error.to_string() }
        }
    }

    impl From<bson::raw::ValueAccessError> for ErrorKind {
        fn from(error: bson::raw::ValueAccessError) -> Self {
            Self::InvalidResponse { message: error.to_string() }
        }
    }

    impl From<bson::document::ValueAccessError> for ErrorKind {
        fn from(error: bson::document::ValueAccessError) -> Self {
            Self::InvalidResponse { message: error.to_string() }
        }
    }

    impl From<bson::error::Error> for ErrorKind {
        fn from(error: bson::error::Error) -> Self {
            match error {
                bson::error::Error::Deserialize(error) => error.into(),
                bson::error::Error::Serialize(error) => error.into(),
                bson::error::Error::Raw(error) => error.into(),
                bson::error::Error::RawValueAccess(error) => error.into(),
                bson::error::Error::ValueAccess(error) => error.into(),
            }
        }
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

/// Command error: error reply of a server to a command.
/// See the [error codes](https://www.mongodb.com/docs/manual/reference/error-codes/).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CommandError {
    /// Error code (`code`).
    pub code: i32,
    /// Name of the error code (`codeName`).
    #[serde(rename = "codeName", default)]
    pub code_name: String,
    /// Error message (`errmsg`).
    #[serde(rename = "errmsg", default)]
    pub message: String,
    /// `topologyVersion` of the reply, which orders state changes of the server.
    #[serde(rename = "topologyVersion", default, skip_serializing_if = "Option::is_none")]
    pub(crate) topology_version: Option<TopologyVersion>,
    /// Base of the backoff that an overloaded server requests before a retry (`baseBackoffMS`).
    /// `None` if the server sent none.
    #[serde(
        rename = "baseBackoffMS",
        default,
        with = "crate::serde_helpers::millis",
        skip_serializing_if = "Option::is_none"
    )]
    pub base_backoff: Option<Duration>,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}", self.code)?;
        if !self.code_name.is_empty() {
            write!(f, " ({})", self.code_name)?;
        }
        match self.message.as_str() {
            "" => f.write_str(": the reply contains no message"),
            message => write!(f, ": {message}"),
        }
    }
}
