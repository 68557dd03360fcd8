//! Why there is no proxy.

use std::{io, net::SocketAddr};

use super::rule::RuleError;

/// Why a proxy could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The address of the servers makes no sense, or asks for what the proxy cannot do.
    #[error("the address of the servers: {0}")]
    Upstream(String),
    /// No server answered.
    #[error("no server can be reached: {0}")]
    Unreachable(String),
    /// The address to listen on is taken, or is not ours.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Rules that are none.
    #[error("{0}")]
    Rules(String),
}

impl From<RuleError> for ProxyError {
    fn from(error: RuleError) -> Self {
        Self::Rules(error.to_string())
    }
}
