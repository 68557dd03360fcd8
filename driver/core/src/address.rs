//! Server addresses: a host and port, or a Unix domain socket.

use std::{fmt, net::Ipv6Addr, path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize};

/// Default port of a MongoDB server.
pub const DEFAULT_PORT: u16 = 27017;

/// Address of a MongoDB server.
///
/// TCP addresses are equal if their hosts and effective ports are. Hosts compare without regard to
/// letter case: [`ServerAddress::parse`] stores them in lower case.
#[derive(Clone, Debug, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum ServerAddress {
    /// Host name or IP address, and port.
    Tcp {
        /// Host name, IPv4 address, or IPv6 address without brackets.
        host: String,
        /// Port. Defaults to 27017.
        port: Option<u16>,
    },
    /// A Unix domain socket.
    Unix {
        /// Path of the socket.
        path: PathBuf,
    },
}

/// Error for a text that is not a server address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid server address \"{text}\": {reason}")]
pub struct InvalidAddress {
    text: String,
    reason: &'static str,
}

impl ServerAddress {
    /// Parses `host`, `host:port`, `[ipv6]`, `[ipv6]:port` or a path that ends in `.sock`.
    ///
    /// # Errors
    ///
    /// An error that quotes the text and names its fault.
    pub fn parse(text: impl AsRef<str>) -> Result<Self, InvalidAddress> {
        let text = text.as_ref();
        let fail = |reason| InvalidAddress { text: text.to_owned(), reason };
        if text.contains('\0') {
            return Err(fail("it contains a NUL byte"));
        }
        if text.ends_with(".sock") {
            return Ok(Self::Unix { path: PathBuf::from(text) });
        }
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, after) = rest.split_once(']').ok_or_else(|| fail("a '[' has no ']'"))?;
            host.parse::<Ipv6Addr>().map_err(|_| fail("the brackets contain no IPv6 address"))?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(fail("only a port may follow the ']'")),
            }
        } else {
            match text.split_once(':') {
                Some((_, port)) if port.contains(':') => {
                    return Err(fail("more than one ':'; write an IPv6 address in brackets"));
                }
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if host.is_empty() {
            return Err(fail("the host is empty"));
        }
        if host.contains(char::is_whitespace) || host.contains('/') {
            return Err(fail("a host must not contain spaces or slashes"));
        }
        let port = port
            .map(|port| match port.parse::<u16>() {
                Ok(port) if port != 0 && !port_has_sign(text) => Ok(port),
                _ => Err(fail("the port must be a number from 1 to 65535")),
            })
            .transpose()?;
        Ok(Self::Tcp { host: host.to_ascii_lowercase(), port })
    }

    /// Returns the host name, or the path of the socket.
    pub fn host(&self) -> std::borrow::Cow<'_, str> {
        match self {
            Self::Tcp { host, .. } => host.as_str().into(),
            Self::Unix { path } => path.to_string_lossy(),
        }
    }

    /// Returns the effective port, or `None` for a Unix domain socket.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp { port, .. } => Some(port.unwrap_or(DEFAULT_PORT)),
            Self::Unix { .. } => None,
        }
    }

    fn key(&self) -> (std::borrow::Cow<'_, str>, Option<u16>) {
        (self.host(), self.port())
    }
}

/// Returns `true` if the port has a plus sign, which `u16::from_str` would accept.
fn port_has_sign(text: &str) -> bool {
    text.rsplit(':').next().is_some_and(|port| port.starts_with('+'))
}

impl Default for ServerAddress {
    fn default() -> Self {
        Self::Tcp { host: "localhost".to_owned(), port: None }
    }
}

impl PartialEq for ServerAddress {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl std::hash::Hash for ServerAddress {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialOrd for ServerAddress {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ServerAddress {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, .. } if host.contains(':') => {
                write!(f, "[{host}]:{}", self.port().unwrap_or(DEFAULT_PORT))
            }
            Self::Tcp { host, .. } => write!(f, "{host}:{}", self.port().unwrap_or(DEFAULT_PORT)),
            Self::Unix { path } => write!(f, "{}", path.display()),
        }
    }
}

impl FromStr for ServerAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        Self::parse(text)
    }
}

impl TryFrom<String> for ServerAddress {
    type Error = InvalidAddress;

    fn try_from(text: String) -> Result<Self, InvalidAddress> {
        Self::parse(text)
    }
}

impl From<ServerAddress> for String {
    fn from(address: ServerAddress) -> Self {
        address.to_string()
    }
}

impl From<std::net::SocketAddr> for ServerAddress {
    fn from(address: std::net::SocketAddr) -> Self {
        Self::Tcp { host: address.ip().to_string(), port: Some(address.port()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_form_of_address() {
        for (text, shown) in [
            ("localhost", "localhost:27017"),
            ("LocalHost:1", "localhost:1"),
            ("[::1]", "[::1]:27017"),
            ("[::1]:65535", "[::1]:65535"),
            ("/tmp/mongodb.sock", "/tmp/mongodb.sock"),
        ] {
            assert_eq!(ServerAddress::parse(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn rejects_invalid_addresses() {
        for text in [
            "", ":1", "a:", "a:0", "a:65536", "a:+1", "a:b", "::1", "[::1", "[x]", "[::1]x", "a b",
            "a\0b",
        ] {
            assert!(ServerAddress::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn missing_port_equals_default_port() {
        assert_eq!(ServerAddress::parse("a").unwrap(), ServerAddress::parse("A:27017").unwrap());
    }
}
