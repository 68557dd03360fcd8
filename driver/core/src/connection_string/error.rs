//! Errors of connection strings. They never quote text that can be part of a password.

use crate::{
    concern::InvalidWriteConcern, credential::InvalidCredential,
    read_preference::InvalidReadPreference, srv::SrvError,
};

/// Error of a connection string.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriError {
    /// The scheme is neither `mongodb://` nor `mongodb+srv://`.
    #[error("unknown scheme: a connection string starts with mongodb:// or mongodb+srv://")]
    Scheme,
    /// User name or password contain characters that must be percent-encoded.
    #[error(
        "invalid user name or password: {0}; percent-encode the characters : / ? # [ ] @ % in them"
    )]
    UserInfo(&'static str),
    /// There is no host.
    #[error(
        "no host after the scheme; write host, host:port or the percent-encoded path of a Unix \
         domain socket"
    )]
    NoHost,
    /// A host is not a server address.
    #[error(
        "host number {position}{} is not a server address; write host, host:port, [ipv6]:port or \
         the percent-encoded path of a Unix domain socket that ends in .sock; percent-encode the \
         password if there is one",
        quoted_host(.host)
    )]
    Host {
        /// Position of the host, counted from 1.
        position: usize,
        /// The host, unless it can be part of a password.
        host: Option<String>,
    },
    /// A `mongodb+srv` string does not have exactly one DNS name.
    #[error("mongodb+srv requires exactly one DNS name without a port: {0}")]
    SrvHost(&'static str),
    /// The database after the hosts is not a database name.
    #[error("invalid database name after the hosts: it {0}")]
    Database(&'static str),
    /// An option has no `=`.
    #[error("an option has no value; write options as name=value, separated by &")]
    IncompleteOption,
    /// An option has a value that cannot be ignored.
    #[error("the option {name} {problem}")]
    Option {
        /// Name of the option.
        name: &'static str,
        /// Fault of its value.
        problem: &'static str,
    },
    /// Two options, or an option and the hosts, exclude each other.
    #[error("{0} cannot be combined with {1}")]
    Conflict(&'static str, &'static str),
    /// The credential is invalid.
    #[error(transparent)]
    Credential(#[from] InvalidCredential),
    /// The write concern is invalid.
    #[error(transparent)]
    WriteConcern(#[from] InvalidWriteConcern),
    /// The read preference is invalid.
    #[error(transparent)]
    ReadPreference(#[from] InvalidReadPreference),
    /// The SRV or TXT records are invalid.
    #[error(transparent)]
    Srv(#[from] SrvError),
}

impl UriError {
    pub(super) fn conflict(one: &'static str, other: &'static str) -> Self {
        Self::Conflict(one, other)
    }
}

fn quoted_host(host: &Option<String>) -> String {
    host.as_ref().map(|host| format!(" (\"{host}\")")).unwrap_or_default()
}
