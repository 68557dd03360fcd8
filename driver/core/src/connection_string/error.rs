//! Why a connection string cannot be used. No error quotes what could be part of a password.

use crate::{
    concern::InvalidWriteConcern, credential::InvalidCredential,
    read_preference::InvalidReadPreference, srv::SrvError,
};

/// Why a connection string cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriError {
    /// Neither of the two schemes.
    #[error("a connection string starts with mongodb:// or mongodb+srv://")]
    Scheme,
    /// User name and password are not written as they must be.
    #[error(
        "{0}; in user name and password, the characters : / ? # [ ] @ % must be percent-encoded"
    )]
    UserInfo(&'static str),
    /// There is no host.
    #[error(
        "the connection string names no host (the path of a Unix domain socket must be \
         percent-encoded)"
    )]
    NoHost,
    /// One of the hosts is not an address.
    #[error(
        "host number {position}{} is not an address: write host, host:port, [ipv6]:port or the \
         percent-encoded path of a Unix domain socket that ends in .sock; if the connection \
         string has a password, percent-encode it",
        shown(.host)
    )]
    Host {
        /// Which one, counted from 1.
        position: usize,
        /// Its name, where that can be no part of a password.
        host: Option<String>,
    },
    /// A `mongodb+srv` string has one DNS name and nothing else.
    #[error("mongodb+srv takes exactly one host name: {0}")]
    SrvHost(&'static str),
    /// The name after the hosts can be no database's.
    #[error("the database name in the connection string {0}")]
    Database(&'static str),
    /// An option without a value.
    #[error("an option in the connection string is not written as name=value")]
    IncompleteOption,
    /// An option's value that must not be ignored.
    #[error("the option {name} {problem}")]
    Option {
        /// The option's name.
        name: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Two things that exclude each other.
    #[error("{0} cannot be combined with {1}")]
    Conflict(&'static str, &'static str),
    /// The credential cannot work.
    #[error(transparent)]
    Credential(#[from] InvalidCredential),
    /// The write concern cannot be obeyed.
    #[error(transparent)]
    WriteConcern(#[from] InvalidWriteConcern),
    /// The read preference cannot be obeyed.
    #[error(transparent)]
    ReadPreference(#[from] InvalidReadPreference),
    /// What DNS says cannot be used.
    #[error(transparent)]
    Srv(#[from] SrvError),
}

impl UriError {
    pub(super) fn conflict(one: &'static str, other: &'static str) -> Self {
        Self::Conflict(one, other)
    }
}

fn shown(host: &Option<String>) -> String {
    host.as_ref().map(|host| format!(" (\"{host}\")")).unwrap_or_default()
}
