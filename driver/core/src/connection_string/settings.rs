//! The small types that options have: compressors, monitoring modes, proxies.

use std::{fmt, str::FromStr};

use zeroize::Zeroize;

use crate::credential::REDACTED;

/// A way to compress messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Compressor {
    /// Snappy.
    Snappy,
    /// zlib, with a choice of levels.
    Zlib,
    /// Zstandard.
    Zstd,
}

/// How servers are watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerMonitoringMode {
    /// The server reports changes as they happen, if it can.
    Stream,
    /// The server is asked from time to time.
    Poll,
    /// Stream, except where a function as a service would be kept awake by it.
    #[default]
    Auto,
}

/// A SOCKS5 proxy to connect through.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Socks5Proxy {
    /// Where it is.
    pub host: String,
    /// Its port; 1080 if none is given.
    pub port: Option<u16>,
    /// User name and password for it.
    pub authentication: Option<(String, String)>,
}

/// There is no such choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown name")]
pub struct UnknownName;

impl Compressor {
    /// Its name in the handshake and in a connection string.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }
}

impl FromStr for Compressor {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        match name {
            "snappy" => Ok(Self::Snappy),
            "zlib" => Ok(Self::Zlib),
            "zstd" => Ok(Self::Zstd),
            _ => Err(UnknownName),
        }
    }
}

impl ServerMonitoringMode {
    /// Its name in a connection string.
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
    /// A proxy at that host, on the default port.
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
