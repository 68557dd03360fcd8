//! A connection string while its options are being read: what several options make up together is
//! collected here and put together at the end.

use std::{collections::BTreeSet, time::Duration};

use bson::Document;

use super::{ConnectionString, HostInfo, Socks5Proxy, Tls, TlsOptions, UriError, text::Namespace};
use crate::{
    concern::WriteConcern,
    credential::{AuthMechanism, Credential, InvalidCredential},
    description::TagSet,
    read_preference::{ReadPreference, ReadPreferenceOptions},
};

/// The options of which no two may appear, whatever their values: one of them would weaken what
/// the other was meant to control.
const EXCLUSIVE_TLS_OPTIONS: &[(&str, &str)] = &[
    ("tlsInsecure", "tlsAllowInvalidCertificates"),
    ("tlsInsecure", "tlsAllowInvalidHostnames"),
    ("tlsInsecure", "tlsDisableOCSPEndpointCheck"),
    ("tlsInsecure", "tlsDisableCertificateRevocationCheck"),
    ("tlsAllowInvalidCertificates", "tlsDisableOCSPEndpointCheck"),
    ("tlsAllowInvalidCertificates", "tlsDisableCertificateRevocationCheck"),
    ("tlsDisableOCSPEndpointCheck", "tlsDisableCertificateRevocationCheck"),
];

#[derive(Default)]
pub(super) struct Draft {
    /// What is complete as it was read.
    pub(super) uri: ConnectionString,
    /// The options that appear, whether or not their values were usable.
    pub(super) mentioned: BTreeSet<&'static str>,
    pub(super) tls: Option<bool>,
    pub(super) tls_options: TlsOptions,
    pub(super) write_concern: WriteConcern,
    pub(super) read_mode: Option<&'static str>,
    pub(super) tag_sets: Vec<TagSet>,
    pub(super) max_staleness: Option<Duration>,
    pub(super) mechanism: Option<AuthMechanism>,
    pub(super) mechanism_properties: Option<Document>,
    pub(super) proxy: ProxyDraft,
}

#[derive(Default)]
pub(super) struct ProxyDraft {
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
}

impl Draft {
    pub(super) fn new(host_info: HostInfo, namespace: Namespace) -> Self {
        let uri = ConnectionString {
            host_info,
            default_database: namespace.database,
            default_collection: namespace.collection,
            ..ConnectionString::default()
        };
        Self { uri, ..Self::default() }
    }

    pub(super) fn warn(&mut self, warning: String) {
        self.uri.warnings.push(warning);
    }

    /// Puts everything together.
    pub(super) fn finish(mut self, user: Option<Credential>) -> Result<ConnectionString, UriError> {
        self.uri.tls = self.finish_tls()?;
        self.uri.read_preference = self.finish_read_preference()?;
        self.uri.write_concern = self.finish_write_concern()?;
        self.uri.credential = self.finish_credential(user)?;
        self.uri.socks5_proxy = self.finish_proxy()?;
        self.uri.validate()?;
        Ok(self.uri)
    }

    fn finish_tls(&mut self) -> Result<Option<Tls>, UriError> {
        for (one, other) in EXCLUSIVE_TLS_OPTIONS {
            if self.mentioned.contains(one) && self.mentioned.contains(other) {
                return Err(UriError::conflict(one, other));
            }
        }
        let options = std::mem::take(&mut self.tls_options);
        let has_options = options != TlsOptions::default();
        let by_default = has_options || matches!(self.uri.host_info, HostInfo::DnsRecord(_));
        match self.tls {
            Some(true) => Ok(Some(Tls::Enabled(options))),
            None if by_default => Ok(Some(Tls::Enabled(options))),
            None => Ok(None),
            Some(false) => {
                if has_options {
                    self.warn("tls=false: the other tls options are ignored".to_owned());
                }
                Ok(Some(Tls::Disabled))
            }
        }
    }

    fn finish_read_preference(&mut self) -> Result<Option<ReadPreference>, UriError> {
        let tag_sets = std::mem::take(&mut self.tag_sets);
        let options = ReadPreferenceOptions::builder()
            .tag_sets((!tag_sets.is_empty()).then_some(tag_sets))
            .max_staleness(self.max_staleness)
            .build();
        match self.read_mode {
            None if options == ReadPreferenceOptions::default() => Ok(None),
            mode => Ok(Some(ReadPreference::from_parts(mode.unwrap_or("primary"), options)?)),
        }
    }

    fn finish_write_concern(&mut self) -> Result<Option<WriteConcern>, UriError> {
        let write_concern = std::mem::take(&mut self.write_concern);
        write_concern.validate()?;
        Ok((!write_concern.is_empty()).then_some(write_concern))
    }

    /// User name and password, or a mechanism, ask for authentication; a database or an
    /// `authSource` alone does not.
    fn finish_credential(
        &mut self,
        user: Option<Credential>,
    ) -> Result<Option<Credential>, UriError> {
        let properties = self.mechanism_properties.take();
        if self.mechanism.is_none() && properties.is_some() {
            self.warn("authMechanismProperties is ignored without authMechanism".to_owned());
        }
        if user.is_none() && self.mechanism.is_none() {
            return Ok(None);
        }
        let properties_unusable =
            properties.is_none() && self.mentioned.contains("authMechanismProperties");
        let mut credential = user.unwrap_or_default();
        credential.source = self.uri.auth_source.clone();
        credential.mechanism = self.mechanism;
        credential.mechanism_properties = properties.filter(|_| self.mechanism.is_some());
        let credential = credential.with_defaults(self.uri.default_database.as_deref());
        match credential.validate() {
            // Properties that were left out with a warning are not missed a second time; using
            // the mechanism without them fails.
            Err(InvalidCredential::MissingProperty { .. }) if properties_unusable => {
                Ok(Some(credential))
            }
            Err(error) => Err(error.into()),
            Ok(()) => Ok(Some(credential)),
        }
    }

    /// The rules of the SOCKS5 specification.
    fn finish_proxy(&mut self) -> Result<Option<Socks5Proxy>, UriError> {
        let ProxyDraft { host, port, username, password } = std::mem::take(&mut self.proxy);
        let Some(host) = host else {
            let orphan = ["proxyPort", "proxyUsername", "proxyPassword"]
                .into_iter()
                .find(|name| self.mentioned.contains(name));
            return match orphan {
                Some(name) => Err(UriError::Option { name, problem: "needs proxyHost" }),
                None => Ok(None),
            };
        };
        let mut proxy = Socks5Proxy::new(host);
        proxy.port = port;
        proxy.authentication = match (username, password) {
            (Some(username), Some(password)) => Some((username, password)),
            (None, None) => None,
            (Some(_), None) => {
                return Err(UriError::Option {
                    name: "proxyUsername",
                    problem: "needs proxyPassword",
                });
            }
            (None, Some(_)) => {
                return Err(UriError::Option {
                    name: "proxyPassword",
                    problem: "needs proxyUsername",
                });
            }
        };
        Ok(Some(proxy))
    }
}
