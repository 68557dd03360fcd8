//! Expectations of parsed connection strings that several suites share.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use steadfast_core::{
    address::ServerAddress,
    concern::Acknowledgment,
    connection_string::{ConnectionString, HostInfo, Tls, TlsOptions},
};

/// A file whose cases each parse one connection string.
#[derive(Deserialize)]
pub(super) struct UriFile {
    pub(super) tests: Vec<UriCase>,
}

/// One connection string and its expected parts. Parts that are `null` are not compared.
#[derive(Deserialize)]
pub(super) struct UriCase {
    pub(super) description: String,
    uri: String,
    valid: bool,
    warning: Option<bool>,
    hosts: Option<Vec<ExpectedHost>>,
    auth: Option<ExpectedAuth>,
    options: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct ExpectedHost {
    r#type: String,
    host: String,
    port: Option<u16>,
}

#[derive(Deserialize)]
struct ExpectedAuth {
    username: Option<String>,
    password: Option<String>,
    db: Option<String>,
}

impl UriCase {
    /// Parses the connection string and compares its parts.
    pub(super) fn check(&self) -> Result<(), String> {
        let parsed = match (ConnectionString::parse(&self.uri), self.valid) {
            (Err(_), false) => return Ok(()),
            (Err(error), true) => return Err(format!("rejected: {error}")),
            (Ok(_), false) => return Err("was not rejected".to_owned()),
            (Ok(parsed), true) => parsed,
        };
        if let Some(warning) = self.warning {
            equal("warned", !parsed.warnings.is_empty(), warning)
                .map_err(|error| format!("{error}: {:?}", parsed.warnings))?;
        }
        if let Some(hosts) = &self.hosts {
            check_hosts(&parsed, hosts)?;
        }
        if let Some(auth) = &self.auth {
            check_auth(&parsed, auth)?;
        }
        check_options(&parsed, self.options.iter().flatten())?;
        self.check_ignored_option(&parsed)
    }

    /// Fails if a single option with a warning has an effect.
    fn check_ignored_option(&self, parsed: &ConnectionString) -> Result<(), String> {
        let no_options = self.options.as_ref().is_some_and(Map::is_empty);
        match self.uri.split_once('?') {
            Some((before, options)) if no_options && !options.contains('&') => {
                if self.warning != Some(true) {
                    return Ok(());
                }
                let mut bare =
                    ConnectionString::parse(before).map_err(|error| error.to_string())?;
                bare.warnings.clone_from(&parsed.warnings);
                equal("the connection string with an ignored option", parsed, &bare)
            }
            _ => Ok(()),
        }
    }
}

/// Fails if the values differ.
pub(super) fn equal<A: PartialEq<B> + std::fmt::Debug, B: std::fmt::Debug>(
    what: &str,
    actual: A,
    expected: B,
) -> Result<(), String> {
    if actual == expected {
        Ok(())
    } else {
        Err(format!("{what} is {actual:?}, expected {expected:?}"))
    }
}

fn check_hosts(parsed: &ConnectionString, expected: &[ExpectedHost]) -> Result<(), String> {
    let HostInfo::HostIdentifiers(hosts) = &parsed.host_info else {
        return Err("there are no hosts".to_owned());
    };
    equal("the number of hosts", hosts.len(), expected.len())?;
    for (host, expected) in hosts.iter().zip(expected) {
        equal("the host", host.host().as_ref(), expected.host.as_str())?;
        equal("the type of the host", host_type(host), expected.r#type.as_str())?;
        let port = match host {
            ServerAddress::Tcp { port, .. } => *port,
            _ => None,
        };
        equal("the port", port, expected.port)?;
    }
    Ok(())
}

fn host_type(host: &ServerAddress) -> &'static str {
    match host {
        ServerAddress::Tcp { host, .. } if host.parse::<Ipv4Addr>().is_ok() => "ipv4",
        ServerAddress::Tcp { host, .. } if host.parse::<Ipv6Addr>().is_ok() => "ip_literal",
        ServerAddress::Tcp { .. } => "hostname",
        _ => "unix",
    }
}

fn check_auth(parsed: &ConnectionString, expected: &ExpectedAuth) -> Result<(), String> {
    let credential = parsed.credential.as_ref();
    let username = credential.and_then(|credential| credential.username.as_ref());
    let password = credential.and_then(|credential| credential.password.as_ref());
    equal("the user name", username, expected.username.as_ref())?;
    equal("the password", password, expected.password.as_ref())?;
    equal("the database", namespace(parsed), expected.db.clone())
}

/// Default database of the connection string, with the collection if it names one.
pub(super) fn namespace(parsed: &ConnectionString) -> Option<String> {
    let database = parsed.default_database.clone()?;
    Some(match &parsed.default_collection {
        Some(collection) => format!("{database}.{collection}"),
        None => database,
    })
}

/// Compares options with their expected values.
pub(super) fn check_options<'a>(
    parsed: &ConnectionString,
    expected: impl IntoIterator<Item = (&'a String, &'a Value)>,
) -> Result<(), String> {
    for (name, expected) in expected {
        let actual = option(parsed, name).ok_or_else(|| format!("no option is called {name}"))?;
        equal(name, &actual, expected)?;
    }
    Ok(())
}

macro_rules! options {
    ($name:expr, { $($key:literal => $value:expr,)* }) => {
        match $name.to_ascii_lowercase() {
            $(name if name == $key.to_ascii_lowercase() => Some(json!($value)),)*
            _ => None,
        }
    };
}

/// Value of an option in the suites' notation; `None` if the option is unknown.
fn option(uri: &ConnectionString, name: &str) -> Option<Value> {
    let millis = |duration: Option<std::time::Duration>| duration.map(|time| time.as_millis());
    let credential = uri.credential.as_ref();
    let concern = uri.write_concern.as_ref();
    let preference = uri.read_preference.as_ref();
    options!(name, {
        "appname" => uri.app_name,
        "authMechanism" => credential.and_then(|user| user.mechanism),
        "authMechanismProperties" => credential.and_then(|user| user.mechanism_properties.clone()),
        "authSource" => uri.auth_source,
        "compressors" => uri.compressors.as_ref().map(|all| {
            all.iter().map(|compressor| compressor.as_str()).collect::<Vec<_>>()
        }),
        "connectTimeoutMS" => millis(uri.connect_timeout),
        "directConnection" => uri.direct_connection,
        "enableOverloadRetargeting" => uri.enable_overload_retargeting,
        "heartbeatFrequencyMS" => millis(uri.heartbeat_frequency),
        "journal" => concern.and_then(|concern| concern.journal),
        "loadBalanced" => uri.load_balanced,
        "localThresholdMS" => millis(uri.local_threshold),
        "maxAdaptiveRetries" => uri.max_adaptive_retries,
        "maxConnecting" => uri.max_connecting,
        "maxIdleTimeMS" => millis(uri.max_idle_time),
        "maxPoolSize" => uri.max_pool_size,
        "maxStalenessSeconds" => preference
            .and_then(|preference| preference.max_staleness())
            .map(|staleness| staleness.as_secs()),
        "minPoolSize" => uri.min_pool_size,
        "readConcernLevel" => uri.read_concern.as_ref().map(|concern| concern.level.as_str()),
        "readPreference" => preference.map(|preference| preference.mode()),
        "readPreferenceTags" => preference.map(|preference| preference.tag_sets()),
        "replicaSet" => uri.replica_set,
        "retryReads" => uri.retry_reads,
        "retryWrites" => uri.retry_writes,
        "serverMonitoringMode" => uri.server_monitoring_mode.map(|mode| mode.as_str()),
        "serverSelectionTimeoutMS" => millis(uri.server_selection_timeout),
        "serverSelectionTryOnce" => uri.server_selection_try_once,
        "socketTimeoutMS" => millis(uri.socket_timeout),
        "srvMaxHosts" => uri.srv_max_hosts,
        "srvServiceName" => uri.srv_service_name,
        "timeoutMS" => millis(uri.timeout),
        "w" => concern.and_then(|concern| concern.w.as_ref()).map(w),
        "waitQueueTimeoutMS" => millis(uri.wait_queue_timeout),
        "wTimeoutMS" => millis(concern.and_then(|concern| concern.w_timeout)),
        "zlibCompressionLevel" => uri.zlib_compression_level,
    })
    .or_else(|| tls_option(uri.tls.as_ref(), name))
}

fn tls_option(tls: Option<&Tls>, name: &str) -> Option<Value> {
    let enabled = tls.map(|tls| matches!(tls, Tls::Enabled(_)));
    let none = TlsOptions::default();
    let tls = match tls {
        Some(Tls::Enabled(options)) => options,
        _ => &none,
    };
    let password = tls.tls_certificate_key_file_password.as_deref();
    options!(name, {
        "ssl" => enabled,
        "tls" => enabled,
        "tlsAllowInvalidCertificates" => tls.allow_invalid_certificates,
        "tlsAllowInvalidHostnames" => tls.allow_invalid_hostnames,
        "tlsCAFile" => tls.ca_file_path,
        "tlsCertificateKeyFile" => tls.cert_key_file_path,
        "tlsCertificateKeyFilePassword" => password.map(String::from_utf8_lossy),
        "tlsDisableCertificateRevocationCheck" => tls.disable_certificate_revocation_check,
        "tlsDisableOCSPEndpointCheck" => tls.disable_ocsp_endpoint_check,
        "tlsInsecure" => tls.insecure,
    })
}

fn w(w: &Acknowledgment) -> Value {
    match w {
        Acknowledgment::Nodes(count) => json!(count),
        Acknowledgment::Majority => json!("majority"),
        Acknowledgment::Custom(mode) => json!(mode),
        other => json!(format!("{other:?}")),
    }
}
