//! TLS configuration from the options, and TLS handshakes.

use std::{fmt, io, path::PathBuf, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    client::danger::ServerCertVerifier,
    crypto::{CryptoProvider, ring},
    pki_types::ServerName,
};
use steadfast_core::connection_string::TlsOptions;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::client::TlsStream;

use super::{pem, verifier};
use crate::error::{Error, ErrorKind};

/// Error of the TLS configuration or of a TLS handshake.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// A file could not be read.
    #[error("cannot read the TLS file {}: {source}", path.display())]
    ReadFile {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file has the wrong contents.
    #[error("the TLS file {} {problem}", path.display())]
    BadFile {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        problem: String,
    },
    /// The platform has no certificate authorities, so that no server could be verified.
    #[error(
        "no certificate authorities were found on this system; name some with tlsCAFile{}",
        if problem.is_empty() { String::new() } else { format!(" ({problem})") }
    )]
    NoPlatformAuthorities {
        /// Description of the problem, if the search failed.
        problem: String,
    },
    /// The host is neither a host name nor an IP address.
    #[error("\"{host}\" is neither a host name nor an IP address, as TLS needs")]
    InvalidHost {
        /// Host of the connection string.
        host: String,
    },
    /// rustls rejects the configuration.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
    /// The connection broke, or one side rejected the other.
    #[error("the TLS handshake with {host} failed: {source}")]
    Handshake {
        /// Host of the connection string.
        host: String,
        /// Cause. It contains a [`rustls::Error`] unless the network failed.
        source: io::Error,
    },
}

impl From<TlsError> for Error {
    fn from(error: TlsError) -> Self {
        match error {
            // A network error, even if this side rejected the certificate.
            TlsError::Handshake { ref source, .. } => {
                Self::of_socket(io::Error::new(source.kind(), error))
            }
            TlsError::ReadFile { .. }
            | TlsError::BadFile { .. }
            | TlsError::NoPlatformAuthorities { .. }
            | TlsError::InvalidHost { .. }
            | TlsError::Setup(_) => {
                Self::new(ErrorKind::InvalidTlsConfig { message: error.to_string() })
            }
        }
    }
}

/// TLS connector of a client.
#[derive(Clone)]
pub(crate) struct TlsConnector {
    connector: tokio_rustls::TlsConnector,
}

impl TlsConnector {
    /// Reads the files in the options, and the platform's authorities if needed.
    pub(crate) fn new(options: &TlsOptions) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let verifier = verifier(options, &provider)?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match &options.cert_key_file_path {
            None => config.with_no_client_auth(),
            Some(path) => {
                let password = options.tls_certificate_key_file_password.as_deref();
                let (certificates, key) = pem::client_certificate(path, password)?;
                config.with_client_auth_cert(certificates, key).map_err(|error| {
                    let problem = format!("cannot be used as client certificate: {error}");
                    TlsError::BadFile { path: path.clone(), problem }
                })?
            }
        };
        Ok(Self { connector: Arc::new(config).into() })
    }

    /// Starts TLS on a stream. The host is that of the connection string: a name or an IP address.
    pub(crate) async fn connect<S>(&self, stream: S, host: &str) -> Result<TlsStream<S>, TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = server_name(host)?;
        let connected = self.connector.connect(name, stream).await;
        connected.map_err(|source| TlsError::Handshake { host: host.to_owned(), source })
    }
}

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConnector").finish_non_exhaustive()
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = ServerName::try_from(bare.to_owned());
    name.map_err(|_| TlsError::InvalidHost { host: host.to_owned() })
}

fn verifier(
    options: &TlsOptions,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    let algorithms = provider.signature_verification_algorithms;
    if !options.verifies_certificates() {
        // The file is read nevertheless, so that a wrong path is reported.
        if let Some(path) = &options.ca_file_path {
            pem::authorities(path)?;
        }
        return Ok(Arc::new(verifier::AnyName { roots: None, algorithms }));
    }
    let roots = Arc::new(match &options.ca_file_path {
        Some(path) => pem::authorities(path)?,
        None => platform_authorities()?,
    });
    if !options.verifies_hostnames() {
        return Ok(Arc::new(verifier::AnyName { roots: Some(roots), algorithms }));
    }
    Ok(verifier::full(roots, provider.clone())?)
}

fn platform_authorities() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Certificates that rustls cannot parse are ignored.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let problem = found.errors.first().map(ToString::to_string).unwrap_or_default();
        return Err(TlsError::NoPlatformAuthorities { problem });
    }
    Ok(roots)
}

#[cfg(test)]
mod tests;
