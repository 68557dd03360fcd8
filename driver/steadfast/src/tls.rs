//! Encrypted connections: rustls over whatever stream a connection has.
//!
//! Everything is verified unless an option says otherwise: the chain of the server's certificate up
//! to an authority of the platform (or of `tlsCAFile`, which replaces them), its dates, and that it
//! names the host connected to. What the options relax, exactly:
//!
//! - `tlsAllowInvalidHostnames`: the name; chain and dates are still verified.
//! - `tlsAllowInvalidCertificates`: chain, dates and name, for a name in a certificate that nobody
//!   vouches for says nothing.
//! - `tlsInsecure`: the same.
//!
//! Always verified is that the server holds the key of the certificate it shows. Revocation is not
//! looked up, so the options that turn that off have nothing to do.
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
