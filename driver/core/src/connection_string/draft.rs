//! A connection string whose options are being parsed. Values made of several options are assembled
//! at the end.

use std::{collections::BTreeSet, time::Duration};

use bson::Document;

use super::{
    ConnectionString, HostInfo, Socks5Proxy, Tls, TlsOptions, UriError, text::DefaultNamespace,
};
use crate::{
    concern::WriteConcern,
    credential::{AuthMechanism, Credential, InvalidCredential},
    description::TagSet,
    read_preference::{ReadPreference, ReadPreferenceOptions},
};

/// Pairs of TLS options that exclude each other, whatever their values: one would weaken what the
/// other controls.
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
pub(super) struct UriDraft {
    /// The options that need no further assembly.
    pub(super) uri: ConnectionString,
    /// Names of the options present, with usable values or not.
    pub(super) present: BTreeSet<&'static str>,
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

impl UriDraft {
    pub(super) fn new(host_info: HostInfo, namespace: DefaultNamespace) -> Self {
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

    /// Assembles the connection string and validates it.
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
            if self.present.contains(one) && self.present.contains(other) {
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
                    self.warn("tls=false: the other TLS options are ignored".to_owned());
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

    /// Assembles the credential. A user name or `authMechanism` requests authentication; a database
    /// or `authSource` alone does not.
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
            properties.is_none() && self.present.contains("authMechanismProperties");
        let mut credential = user.unwrap_or_default();
        credential.source = self.uri.auth_source.clone();
        credential.mechanism = self.mechanism;
        credential.mechanism_properties = properties.filter(|_| self.mechanism.is_some());
        let credential = credential.with_defaults(self.uri.default_database.as_deref());
        match credential.validate() {
            // The properties were ignored with a warning already. Authentication without them will
            // fail.
            Err(InvalidCredential::MissingProperty { .. }) if properties_unusable => {
                Ok(Some(credential))
            }
            Err(error) => Err(error.into()),
            Ok(()) => Ok(Some(credential)),
        }
    }

    /// Assembles the proxy by the rules of the SOCKS5 specification.
    fn finish_proxy(&mut self) -> Result<Option<Socks5Proxy>, UriError> {
        let ProxyDraft { host, port, username, password } = std::mem::take(&mut self.proxy);
        let Some(host) = host else {
            let orphan = ["proxyPort", "proxyUsername", "proxyPassword"]
                .into_iter()
                .find(|name| self.present.contains(name));
            return match orphan {
                Some(name) => Err(UriError::Option { name, problem: "requires proxyHost" }),
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
                    problem: "requires proxyPassword",
                });
            }
            (None, Some(_)) => {
                return Err(UriError::Option {
                    name: "proxyPassword",
                    problem: "requires proxyUsername",
                });
            }
        };
        Ok(Some(proxy))
    }
}
