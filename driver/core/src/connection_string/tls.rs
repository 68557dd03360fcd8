//! TLS options of a connection string.

use std::{fmt, path::PathBuf};

use serde::Deserialize;
use zeroize::Zeroize;

use crate::credential::REDACTED;

/// TLS setting of a client (`tls`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub enum Tls {
    /// TLS with these options.
    Enabled(TlsOptions),
    /// No TLS.
    Disabled,
}

/// Options of TLS. Certificates and host names are verified by default.
///
/// Use [`verifies_certificates`](Self::verifies_certificates) and
/// [`verifies_hostnames`](Self::verifies_hostnames) instead of the single options.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct TlsOptions {
    /// PEM file of trusted certificate authorities (`tlsCAFile`). Defaults to the platform's.
    pub ca_file_path: Option<PathBuf>,
    /// PEM file of the client certificate and private key (`tlsCertificateKeyFile`). Defaults to
    /// none.
    pub cert_key_file_path: Option<PathBuf>,
    /// Password of the private key (`tlsCertificateKeyFilePassword`). Defaults to none.
    pub tls_certificate_key_file_password: Option<Vec<u8>>,
    /// Accepts invalid certificates (`tlsAllowInvalidCertificates`). Defaults to `false`.
    pub allow_invalid_certificates: Option<bool>,
    /// Accepts certificates of other host names (`tlsAllowInvalidHostnames`). Defaults to `false`.
    pub allow_invalid_hostnames: Option<bool>,
    /// Accepts invalid certificates and other host names (`tlsInsecure`). Defaults to `false`.
    pub insecure: Option<bool>,
    /// Disables requests to OCSP responders (`tlsDisableOCSPEndpointCheck`). Defaults to none.
    pub disable_ocsp_endpoint_check: Option<bool>,
    /// Disables all revocation checks (`tlsDisableCertificateRevocationCheck`). Defaults to none.
    pub disable_certificate_revocation_check: Option<bool>,
}

impl TlsOptions {
    /// Returns a builder of options.
    pub fn builder() -> TlsOptionsBuilder {
        TlsOptionsBuilder::default()
    }

    /// Returns `true` if the server's certificate must be valid.
    pub fn verifies_certificates(&self) -> bool {
        self.insecure != Some(true) && self.allow_invalid_certificates != Some(true)
    }

    /// Returns `true` if the server's certificate must match the host name.
    pub fn verifies_hostnames(&self) -> bool {
        // An unverified certificate can contain any host name.
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

/// Builder of [`TlsOptions`].
#[derive(Clone, Debug, Default)]
pub struct TlsOptionsBuilder(TlsOptions);

impl TlsOptionsBuilder {
    /// Sets the PEM file of trusted certificate authorities (`tlsCAFile`).
    #[must_use]
    pub fn ca_file_path(mut self, path: impl Into<Option<PathBuf>>) -> Self {
        self.0.ca_file_path = path.into();
        self
    }

    /// Sets the PEM file of the client certificate and private key (`tlsCertificateKeyFile`).
    #[must_use]
    pub fn cert_key_file_path(mut self, path: impl Into<Option<PathBuf>>) -> Self {
        self.0.cert_key_file_path = path.into();
        self
    }

    /// Sets the password of the private key (`tlsCertificateKeyFilePassword`).
    #[must_use]
    pub fn tls_certificate_key_file_password(
        mut self,
        password: impl Into<Option<Vec<u8>>>,
    ) -> Self {
        self.0.tls_certificate_key_file_password = password.into();
        self
    }

    /// Accepts invalid certificates if `true` (`tlsAllowInvalidCertificates`).
    #[must_use]
    pub fn allow_invalid_certificates(mut self, allow: impl Into<Option<bool>>) -> Self {
        self.0.allow_invalid_certificates = allow.into();
        self
    }

    /// Accepts certificates of other host names if `true` (`tlsAllowInvalidHostnames`).
    #[must_use]
    pub fn allow_invalid_hostnames(mut self, allow: impl Into<Option<bool>>) -> Self {
        self.0.allow_invalid_hostnames = allow.into();
        self
    }

    /// Returns the options.
    pub fn build(self) -> TlsOptions {
        self.0
    }
}
