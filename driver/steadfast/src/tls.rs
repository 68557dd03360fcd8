//! TLS connections with rustls.
//!
//! By default everything is verified: the chain of the server's certificate up to an authority of
//! the platform (or of `tlsCAFile`, which replaces them), its dates, and its host name. The options
//! disable:
//!
//! - `tlsAllowInvalidHostnames`: the name; chain and dates are still verified.
//! - `tlsAllowInvalidCertificates`: chain, dates and name. The name in an untrusted certificate
//!   proves nothing.
//! - `tlsInsecure`: the same.
//!
//! The server must always prove that it holds the key of its certificate. Revocation is not checked,
//! so the options that disable the check have no effect.
//!
//! The platform's authorities are read with `rustls-native-certs` rather than asked through
//! `rustls-platform-verifier`: on Linux the latter does the same with more crates, and one verifier
//! on all platforms makes the options above mean the same everywhere.

#[cfg(feature = "tls")]
mod connector;
#[cfg(feature = "tls")]
mod pem;
#[cfg(feature = "tls")]
mod verifier;

#[cfg(feature = "tls")]
pub(crate) use self::connector::{TlsConnector, TlsError};

/// Without the feature `tls` there are no encrypted connections, and so there is no such value.
#[cfg(not(feature = "tls"))]
#[derive(Clone, Debug)]
pub(crate) enum TlsConnector {}

#[cfg(not(feature = "tls"))]
impl TlsConnector {
    /// For the places that only a value could reach.
    pub(crate) fn unreachable(&self) -> ! {
        match *self {}
    }
}
