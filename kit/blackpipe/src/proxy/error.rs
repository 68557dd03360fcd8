//! Errors of a proxy.

use std::{io, net::SocketAddr};

use super::rule::RuleError;

/// Error while a proxy starts, or in its rules.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The connection string of the servers is invalid or not supported.
    #[error("invalid connection string of the servers: {0}")]
    Upstream(String),
    /// No server of the connection string replied.
    #[error("cannot connect to any server: {0}")]
    Unreachable(String),
    /// The listening address cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Listening address.
        address: SocketAddr,
        /// Error of the socket.
        source: io::Error,
    },
    /// A rule is invalid.
    #[error("{0}")]
    Rules(String),
}

impl From<RuleError> for ProxyError {
    fn from(error: RuleError) -> Self {
        Self::Rules(error.to_string())
    }
}
