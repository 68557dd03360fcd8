//! Text of a connection string, and its serde form.

use std::{
    fmt::{self, Write},
    time::Duration,
};

use bson::UuidRepresentation;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{ConnectionString, HostInfo, Tls, TlsOptions, UriError};
use crate::{
    concern::{Acknowledgment, WriteConcern},
    credential::Credential,
    read_preference::ReadPreference,
};

/// Formats the connection string, **with its password**: the text parses to an equal connection
/// string. Do not log it.
impl fmt::Display for ConnectionString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.host_info {
            HostInfo::HostIdentifiers(_) => "mongodb://",
            HostInfo::DnsRecord(_) => "mongodb+srv://",
        })?;
        if let Some(Credential { username: Some(username), password, .. }) = &self.credential {
            encode(f, username)?;
            if let Some(password) = password {
                f.write_char(':')?;
                encode(f, password)?;
            }
            f.write_char('@')?;
        }
        match &self.host_info {
            HostInfo::HostIdentifiers(hosts) => {
                for (position, host) in hosts.iter().enumerate() {
                    f.write_str(if position > 0 { "," } else { "" })?;
                    match host.port() {
                        Some(_) => write!(f, "{host}")?,
                        None => encode(f, &host.host())?,
                    }
                }
            }
            HostInfo::DnsRecord(name) => f.write_str(name)?,
        }
        f.write_char('/')?;
        if let Some(database) = &self.default_database {
            encode(f, database)?;
            if let Some(collection) = &self.default_collection {
                f.write_char('.')?;
                encode(f, collection)?;
            }
        }
        self.write_options(&mut OptionWriter { out: f, separator: '?' })
    }
}

impl ConnectionString {
    fn write_options(&self, out: &mut OptionWriter<'_, '_>) -> fmt::Result {
        out.text("appname", self.app_name.as_deref())?;
        self.write_credential(out)?;
        let compressors = self.compressors.as_deref().filter(|list| !list.is_empty());
        let names = compressors.map(|list| list.iter().map(|one| one.as_str()).collect::<Vec<_>>());
        out.text("compressors", names.map(|names| names.join(",")).as_deref())?;
        out.millis("connectTimeoutMS", self.connect_timeout)?;
        out.value("directConnection", self.direct_connection)?;
        out.value("enableOverloadRetargeting", self.enable_overload_retargeting)?;
        out.millis("heartbeatFrequencyMS", self.heartbeat_frequency)?;
        out.value("loadBalanced", self.load_balanced)?;
        out.millis("localThresholdMS", self.local_threshold)?;
        out.value("maxAdaptiveRetries", self.max_adaptive_retries)?;
        out.value("maxConnecting", self.max_connecting)?;
        out.millis("maxIdleTimeMS", self.max_idle_time)?;
        out.value("maxPoolSize", self.max_pool_size)?;
        out.value("minPoolSize", self.min_pool_size)?;
        if let Some(proxy) = &self.socks5_proxy {
            out.text("proxyHost", Some(&proxy.host))?;
            out.value("proxyPort", proxy.port)?;
            let (username, password) = proxy.authentication.as_ref().map(|(u, p)| (u, p)).unzip();
            out.text("proxyUsername", username.map(String::as_str))?;
            out.text("proxyPassword", password.map(String::as_str))?;
        }
        out.text("readConcernLevel", self.read_concern.as_ref().map(|it| it.level.as_str()))?;
        if let Some(preference) = &self.read_preference {
            write_read_preference(preference, out)?;
        }
        out.text("replicaSet", self.replica_set.as_deref())?;
        out.value("retryReads", self.retry_reads)?;
        out.value("retryWrites", self.retry_writes)?;
        out.text("serverMonitoringMode", self.server_monitoring_mode.map(|mode| mode.as_str()))?;
        out.millis("serverSelectionTimeoutMS", self.server_selection_timeout)?;
        out.value("serverSelectionTryOnce", self.server_selection_try_once)?;
        out.millis("socketTimeoutMS", self.socket_timeout)?;
        out.text("srvAllowedHostsSuffix", self.srv_allowed_hosts_suffix.as_deref())?;
        out.value("srvMaxHosts", self.srv_max_hosts)?;
        out.text("srvServiceName", self.srv_service_name.as_deref())?;
        out.millis("timeoutMS", self.timeout)?;
        match &self.tls {
            None => {}
            Some(Tls::Disabled) => out.value("tls", Some(false))?,
            Some(Tls::Enabled(options)) => {
                out.value("tls", Some(true))?;
                write_tls(options, out)?;
            }
        }
        let uuid = self.uuid_representation.map(|representation| match representation {
            UuidRepresentation::CSharpLegacy => "csharpLegacy",
            UuidRepresentation::JavaLegacy => "javaLegacy",
            UuidRepresentation::PythonLegacy => "pythonLegacy",
            _ => "standard",
        });
        out.text("uuidRepresentation", uuid)?;
        out.millis("waitQueueTimeoutMS", self.wait_queue_timeout)?;
        if let Some(concern) = &self.write_concern {
            write_write_concern(concern, out)?;
        }
        out.value("zlibCompressionLevel", self.zlib_compression_level)
    }

    fn write_credential(&self, out: &mut OptionWriter<'_, '_>) -> fmt::Result {
        let Some(credential) = &self.credential else {
            return out.text("authSource", self.auth_source.as_deref());
        };
        let mechanism = credential.mechanism.as_ref();
        out.text("authMechanism", mechanism.map(|mechanism| mechanism.as_str()))?;
        let properties = credential.mechanism_properties.iter().flatten();
        let properties: Vec<_> = properties
            .map(|(name, value)| match value.as_str() {
                Some(text) => format!("{name}:{text}"),
                None => format!("{name}:{value}"),
            })
            .collect();
        let properties = (!properties.is_empty()).then(|| properties.join(","));
        out.text("authMechanismProperties", properties.as_deref())?;
        out.text("authSource", self.auth_source.as_deref().or(credential.source.as_deref()))
    }
}

fn write_read_preference(
    preference: &ReadPreference,
    out: &mut OptionWriter<'_, '_>,
) -> fmt::Result {
    out.text("readPreference", Some(preference.mode()))?;
    for tags in preference.tag_sets() {
        let tags: Vec<_> = tags.iter().map(|(name, value)| format!("{name}:{value}")).collect();
        out.text("readPreferenceTags", Some(&tags.join(",")))?;
    }
    out.value("maxStalenessSeconds", preference.max_staleness().map(|time| time.as_secs()))
}

fn write_tls(options: &TlsOptions, out: &mut OptionWriter<'_, '_>) -> fmt::Result {
    out.value("tlsAllowInvalidCertificates", options.allow_invalid_certificates)?;
    out.value("tlsAllowInvalidHostnames", options.allow_invalid_hostnames)?;
    let path = |path: &Option<std::path::PathBuf>| {
        path.as_ref().map(|path| path.to_string_lossy().into_owned())
    };
    out.text("tlsCAFile", path(&options.ca_file_path).as_deref())?;
    out.text("tlsCertificateKeyFile", path(&options.cert_key_file_path).as_deref())?;
    let password = options.tls_certificate_key_file_password.as_deref();
    let password = password.map(String::from_utf8_lossy);
    out.text("tlsCertificateKeyFilePassword", password.as_deref())?;
    let revocation = options.disable_certificate_revocation_check;
    out.value("tlsDisableCertificateRevocationCheck", revocation)?;
    out.value("tlsDisableOCSPEndpointCheck", options.disable_ocsp_endpoint_check)?;
    out.value("tlsInsecure", options.insecure)
}

fn write_write_concern(concern: &WriteConcern, out: &mut OptionWriter<'_, '_>) -> fmt::Result {
    match &concern.w {
        None => {}
        Some(Acknowledgment::Nodes(count)) => out.value("w", Some(count))?,
        Some(Acknowledgment::Majority) => out.value("w", Some("majority"))?,
        Some(Acknowledgment::Custom(mode)) => out.text("w", Some(mode))?,
    }
    out.millis("wTimeoutMS", concern.w_timeout)?;
    out.value("journal", concern.journal)
}

/// Writes the options that are set, with their separators.
struct OptionWriter<'f, 'g> {
    out: &'f mut fmt::Formatter<'g>,
    separator: char,
}

impl OptionWriter<'_, '_> {
    fn name(&mut self, name: &str) -> fmt::Result {
        write!(self.out, "{}{name}=", self.separator)?;
        self.separator = '&';
        Ok(())
    }

    /// Writes a value without special characters.
    fn value(&mut self, name: &str, value: Option<impl fmt::Display>) -> fmt::Result {
        let Some(value) = value else { return Ok(()) };
        self.name(name)?;
        write!(self.out, "{value}")
    }

    fn millis(&mut self, name: &str, value: Option<Duration>) -> fmt::Result {
        self.value(name, value.map(|value| value.as_millis()))
    }

    fn text(&mut self, name: &str, value: Option<&str>) -> fmt::Result {
        let Some(value) = value else { return Ok(()) };
        self.name(name)?;
        encode(self.out, value)
    }
}

/// Writes a text percent-encoded.
fn encode(out: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.write_char(byte.into())?;
            }
            byte => write!(out, "%{byte:02X}")?,
        }
    }
    Ok(())
}

impl TryFrom<&str> for ConnectionString {
    type Error = UriError;

    fn try_from(uri: &str) -> Result<Self, UriError> {
        Self::parse(uri)
    }
}

impl TryFrom<&String> for ConnectionString {
    type Error = UriError;

    fn try_from(uri: &String) -> Result<Self, UriError> {
        Self::parse(uri)
    }
}

impl TryFrom<String> for ConnectionString {
    type Error = UriError;

    fn try_from(uri: String) -> Result<Self, UriError> {
        Self::parse(uri)
    }
}

/// Serializes the text, with its password.
impl Serialize for ConnectionString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ConnectionString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_parses_to_an_equal_connection_string() {
        for uri in [
            "mongodb://localhost:27017/",
            "mongodb://u%40:p%3A%2F@a:1,[::1]:2,%2Ftmp%2Fmongodb-1.sock/db.coll?authSource=x",
            "mongodb+srv://cluster.example.com/?srvMaxHosts=3&srvServiceName=other",
            "mongodb://a:1/?tls=false&retryWrites=false&w=2&wTimeoutMS=5&journal=true",
            "mongodb://a:1/?tls=true&tlsCAFile=%2Fa%20b.pem&tlsInsecure=true",
            "mongodb://a:1/?readPreference=nearest&readPreferenceTags=dc%3Any&\
             readPreferenceTags=&maxStalenessSeconds=120&readConcernLevel=majority",
            "mongodb://a:1/?compressors=zstd,zlib&zlibCompressionLevel=7&w=majority",
            "mongodb://u@a:1/?authMechanism=MONGODB-X509&tls=true&authSource=%24external",
            "mongodb://u:p@a:1/?authMechanism=SCRAM-SHA-1&timeoutMS=7&waitQueueTimeoutMS=8",
            "mongodb://a:1/?uuidRepresentation=javaLegacy&serverMonitoringMode=poll&appname=x%26y",
            "mongodb://a:1/?proxyHost=p&proxyPort=9&proxyUsername=u&proxyPassword=%3A",
        ] {
            let parsed = ConnectionString::parse(uri).unwrap();
            assert!(parsed.warnings.is_empty(), "{uri}: {:?}", parsed.warnings);
            let shown = parsed.to_string();
            let mut back = ConnectionString::parse(&shown).unwrap();
            back.auth_source.clone_from(&parsed.auth_source);
            assert_eq!(back, parsed, "{shown}");
        }
    }

    #[test]
    fn serde_form_is_the_text() {
        let uri = ConnectionString::parse("mongodb://a/?replicaSet=rs").unwrap();
        let value = bson::serialize_to_bson(&uri).unwrap();
        assert_eq!(value.as_str(), Some("mongodb://a:27017/?replicaSet=rs"));
        assert_eq!(bson::deserialize_from_bson::<ConnectionString>(value).unwrap(), uri);
    }
}
