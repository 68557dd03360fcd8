//! What a connection string says about TLS.

use std::{fmt, path::PathBuf};

use zeroize::Zeroize;

use crate::credential::REDACTED;

/// Whether connections are encrypted, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tls {
    /// With these options.
    Enabled(TlsOptions),
    /// Not at all.
    Disabled,
}

/// How connections are encrypted. Everything is verified unless an option says otherwise; ask
/// [`verifies_certificates`](Self::verifies_certificates) and
/// [`verifies_hostnames`](Self::verifies_hostnames) rather than the options one by one.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsOptions {
    /// `tlsCAFile`: the certificate authorities to trust, instead of the platform's.
    pub ca_file_path: Option<PathBuf>,
    /// `tlsCertificateKeyFile`: the client's certificate and private key.
    pub cert_key_file_path: Option<PathBuf>,
    /// `tlsCertificateKeyFilePassword`: what the private key is encrypted with.
    pub tls_certificate_key_file_password: Option<Vec<u8>>,
    /// `tlsAllowInvalidCertificates`.
    pub allow_invalid_certificates: Option<bool>,
    /// `tlsAllowInvalidHostnames`.
    pub allow_invalid_hostnames: Option<bool>,
    /// `tlsInsecure`: both of the above.
    pub insecure: Option<bool>,
    /// `tlsDisableOCSPEndpointCheck`.
    pub disable_ocsp_endpoint_check: Option<bool>,
    /// `tlsDisableCertificateRevocationCheck`.
    pub disable_certificate_revocation_check: Option<bool>,
}

impl TlsOptions {
    /// Options to be filled in one by one.
    pub fn builder() -> TlsOptionsBuilder {
        TlsOptionsBuilder::default()
    }

    /// Whether the server's certificate must be valid.
    pub fn verifies_certificates(&self) -> bool {
        self.insecure != Some(true) && self.allow_invalid_certificates != Some(true)
    }

    /// Whether the server's certificate must be for the host connected to.
    pub fn verifies_hostnames(&self) -> bool {
        // A certificate that nobody vouches for can name any host.
        self.verifies_certificates() && self.allow_invalid_hostnames != Some(true)
    }
}

impl From<TlsOptions> for Tls {
    fn from(options: TlsOptions) -> Self {
        Self::Enabled(options)
    }
}

impl From<TlsOptions> for Option<Tls> {
    fn from(options: TlsOptions) -> Self {
        Some(Tls::Enabled(options))
    }
}

impl Drop for TlsOptions {
    fn drop(&mut self) {
        self.tls_certificate_key_file_password.zeroize();
    }
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.tls_certificate_key_file_password.as_ref().map(|_| REDACTED);
        f.debug_struct("TlsOptions")
            .field("ca_file_path", &self.ca_file_path)
            .field("cert_key_file_path", &self.cert_key_file_path)
            .field("tls_certificate_key_file_password", &password)
            .field("allow_invalid_certificates", &self.allow_invalid_certificates)
            .field("allow_invalid_hostnames", &self.allow_invalid_hostnames)
            .field("insecure", &self.insecure)
            .field("disable_ocsp_endpoint_check", &self.disable_ocsp_endpoint_check)
            .field(
                "disable_certificate_revocation_check",
                &self.disable_certificate_revocation_check,
            )
            .finish()
    }
}

/// Fills in [`TlsOptions`].
#[derive(Clone, Debug, Default)]
pub struct TlsOptionsBuilder(TlsOptions);

impl TlsOptionsBuilder {
    /// The certificate authorities to trust, instead of the platform's.
    #[must_use]
    pub fn ca_file_path(mut self, path: impl Into<Option<PathBuf>>) -> Self {
        self.0.ca_file_path = path.into();
        self
    }

    /// The client's certificate and private key.
    #[must_use]
    pub fn cert_key_file_path(mut self, path: impl Into<Option<PathBuf>>) -> Self {
        self.0.cert_key_file_path = path.into();
        self
    }

    /// What the private key is encrypted with.
    #[must_use]
    pub fn tls_certificate_key_file_password(
        mut self,
        password: impl Into<Option<Vec<u8>>>,
    ) -> Self {
        self.0.tls_certificate_key_file_password = password.into();
        self
    }

    /// Whether the server's certificate may be invalid.
    #[must_use]
    pub fn allow_invalid_certificates(mut self, allow: impl Into<Option<bool>>) -> Self {
        self.0.allow_invalid_certificates = allow.into();
        self
    }

    /// Whether the server's certificate may be for another host.
    #[must_use]
    pub fn allow_invalid_hostnames(mut self, allow: impl Into<Option<bool>>) -> Self {
        self.0.allow_invalid_hostnames = allow.into();
        self
    }

    /// The finished options.
    pub fn build(self) -> TlsOptions {
        self.0
    }
}
