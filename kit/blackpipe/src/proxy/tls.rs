//! TLS for connections to servers, with rustls. Certificates are verified unless the connection
//! string disables it.

use std::{fmt, fs, io, path::Path, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor,
    },
    crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::upstream::TlsSettings;

/// TLS client for connections to servers.
#[derive(Clone)]
pub(crate) struct TlsDialer {
    connector: tokio_rustls::TlsConnector,
}

impl TlsDialer {
    /// Loads the files of the settings, or the root certificates of the platform.
    pub(crate) fn new(settings: &TlsSettings) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let verifier: Arc<dyn ServerCertVerifier> = if settings.allow_invalid_certificates {
            Arc::new(SkipHostnameVerifier { roots: None, algorithms })
        } else {
            let roots = Arc::new(root_certificates(settings.ca_file.as_deref())?);
            match settings.allow_invalid_hostnames {
                true => Arc::new(SkipHostnameVerifier { roots: Some(roots), algorithms }),
                false => WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                    .build()
                    .map_err(|error| error.to_string())?,
            }
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match &settings.certificate_key_file {
            None => config.with_no_client_auth(),
            Some(path) => {
                let content = read(path)?;
                let key = PrivateKeyDer::from_pem_slice(&content)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                config
                    .with_client_auth_cert(certificates(path, &content)?, key)
                    .map_err(|error| format!("{}: {error}", path.display()))?
            }
        };
        Ok(Self { connector: Arc::new(config).into() })
    }

    pub(crate) async fn connect(
        &self,
        stream: TcpStream,
        host: &str,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        self.connector.connect(name, stream).await
    }
}

impl fmt::Debug for TlsDialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsDialer").finish_non_exhaustive()
    }
}

fn root_certificates(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(path) => {
            for certificate in certificates(path, &read(path)?)? {
                roots.add(certificate).map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
        // Some platform certificates cannot be parsed by rustls; the others suffice.
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    match roots.is_empty() {
        true => Err("no root certificates found; set tlsCAFile".to_owned()),
        false => Ok(roots),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn certificates(path: &Path, content: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
    found.map_err(|error| format!("{}: {error}", path.display()))
}

/// Certificate verifier that skips the host name. Without roots it accepts any certificate.
#[derive(Debug)]
struct SkipHostnameVerifier {
    roots: Option<Arc<RootCertStore>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for SkipHostnameVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                roots,
                intermediates,
                now,
                algorithms,
            )?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
