//! Types of single options: compressor, monitoring mode, proxy.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use crate::credential::REDACTED;

/// Compressor of OP_COMPRESSED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[non_exhaustive]
pub enum Compressor {
    /// Snappy (`snappy`).
    Snappy,
    /// zlib (`zlib`).
    Zlib {
        /// Compression level, from 0 (none) to 9 (smallest). Defaults to `zlibCompressionLevel`.
        level: Option<u32>,
    },
    /// Zstandard (`zstd`).
    Zstd {
        /// Compression level, from -131072 (fastest) to 22 (smallest). Defaults to 3.
        level: Option<i32>,
    },
}

/// Heartbeat protocol (`serverMonitoringMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ServerMonitoringMode {
    /// Streaming, where the server supports it.
    #[serde(alias = "stream")]
    Stream,
    /// Polling.
    #[serde(alias = "poll")]
    Poll,
    /// Streaming, except on function-as-a-service platforms, where it would keep the process awake.
    #[default]
    #[serde(alias = "auto")]
    Auto,
}

/// SOCKS5 proxy.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Socks5Proxy {
    /// Host of the proxy (`proxyHost`).
    pub host: String,
    /// Port of the proxy (`proxyPort`). Defaults to 1080.
    pub port: Option<u16>,
    /// User name and password (`proxyUsername`, `proxyPassword`). Defaults to none.
    pub authentication: Option<(String, String)>,
}

/// Error for a name that is not a compressor or monitoring mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown compressor or monitoring mode")]
pub struct UnknownName;

impl Compressor {
    /// Returns the name used in the handshake and in connection strings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Snappy => "snappy",
            Self::Zlib { .. } => "zlib",
            Self::Zstd { .. } => "zstd",
        }
    }
}

impl FromStr for Compressor {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        match name {
            "snappy" => Ok(Self::Snappy),
            "zlib" => Ok(Self::Zlib { level: None }),
            "zstd" => Ok(Self::Zstd { level: None }),
            _ => Err(UnknownName),
        }
    }
}

impl ServerMonitoringMode {
    /// Returns the name used in connection strings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Poll => "poll",
            Self::Auto => "auto",
        }
    }
}

impl FromStr for ServerMonitoringMode {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        match name {
            "stream" => Ok(Self::Stream),
            "poll" => Ok(Self::Poll),
            "auto" => Ok(Self::Auto),
            _ => Err(UnknownName),
        }
    }
}

impl Socks5Proxy {
    /// Creates a proxy on the default port without authentication.
    pub fn new(host: impl Into<String>) -> Self {
        Self { host: host.into(), port: None, authentication: None }
    }
}

impl Drop for Socks5Proxy {
    fn drop(&mut self) {
        if let Some((_, password)) = &mut self.authentication {
            password.zeroize();
        }
    }
}

impl fmt::Debug for Socks5Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socks5Proxy")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("authentication", &self.authentication.as_ref().map(|_| REDACTED))
            .finish()
    }
}
