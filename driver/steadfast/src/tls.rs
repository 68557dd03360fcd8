//! TLS connections with rustls.
//!
//! By default the server's certificate is verified: its chain to a certificate authority of the
//! platform (or of `tlsCAFile`, which replaces them), its validity period and the host name.
//! Options disable:
//!
//! - `tlsAllowInvalidHostnames`: the host name; chain and validity period are verified.
//! - `tlsAllowInvalidCertificates`: chain, validity period and host name.
//! - `tlsInsecure`: the same.
//!
//! The server must always prove that it holds the key of its certificate. Revocation is not checked,
//! so the options that disable the check have no effect.
//!
//! The platform's authorities are read with `rustls-native-certs`, not with
//! `rustls-platform-verifier`: on Linux the latter does the same with more crates, and with one
//! verifier the options have the same meaning on all platforms.

#[cfg(feature = "tls")]
mod connector;
#[cfg(feature = "tls")]
mod pem;
#[cfg(feature = "tls")]
mod verifier;

#[cfg(feature = "tls")]
pub(crate) use self::connector::{TlsConnector, TlsError};

#[cfg(not(feature = "tls"))]
pub(crate) use self::NoTlsConnector as TlsConnector;

/// Connector without values, if the cargo feature `tls` is disabled.
#[cfg(not(feature = "tls"))]
#[derive(Clone, Debug)]
pub(crate) enum NoTlsConnector {}

#[cfg(not(feature = "tls"))]
impl NoTlsConnector {
    /// Diverges: there is no value to call it with.
    pub(crate) fn unreachable(&self) -> ! {
        match *self {}
    }
}
