//! Connection strings.
//!
//! [`ConnectionString::parse`] converts the text into typed options. As the [connection string] and
//! [URI options] specifications require, contradictory options are errors, and unknown or malformed
//! options are ignored with a warning. Errors, warnings and `Debug` never contain a password.
//!
//! A `mongodb+srv` string contains no hosts; [`ConnectionString::resolve_srv`] adds them from DNS.
//!
//! [connection string]: https://www.mongodb.com/docs/manual/reference/connection-string/
//! [URI options]: https://www.mongodb.com/docs/manual/reference/connection-string-options/

mod display;
mod draft;
mod error;
mod option_table;
mod resolve;
mod settings;
mod text;
mod tls;

use std::{str::FromStr, time::Duration};

use bson::UuidRepresentation;
use serde::Serialize;

pub use self::{
    error::UriError,
    settings::{Compressor, ServerMonitoringMode, Socks5Proxy, UnknownName},
    tls::{Tls, TlsOptions, TlsOptionsBuilder},
};
use crate::{
    address::ServerAddress,
    concern::{ReadConcern, WriteConcern},
    credential::Credential,
    read_preference::ReadPreference,
};

/// A parsed connection string. Options that it does not contain are `None`.
///
/// ```
/// use std::time::Duration;
/// use steadfast_core::connection_string::ConnectionString;
///
/// let uri = ConnectionString::parse("mongodb://db.example/shop?replicaSet=rs&timeoutMS=500")?;
/// assert_eq!(uri.default_database.as_deref(), Some("shop"));
/// assert_eq!(uri.timeout, Some(Duration::from_millis(500)));
/// assert!(uri.warnings.is_empty());
/// # Ok::<(), steadfast_core::connection_string::UriError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ConnectionString {
    /// Hosts, or the DNS name of a `mongodb+srv` string. Defaults to `localhost:27017`.
    pub host_info: HostInfo,
    /// DNS name that [`resolve_srv`](Self::resolve_srv) has replaced by hosts.
    pub original_srv_hostname: Option<String>,
    /// Application name, sent in the handshake and shown in server logs (`appname`). Defaults to
    /// none.
    pub app_name: Option<String>,
    /// Authentication database as written (`authSource`). The effective one is the source of
    /// [`credential`](Self::credential).
    pub auth_source: Option<String>,
    /// Credential: user name, password, `authMechanism` and `authMechanismProperties`. Defaults to
    /// none: the client does not authenticate.
    pub credential: Option<Credential>,
    /// Compressors of OP_COMPRESSED, in order of preference (`compressors`). Defaults to none.
    pub compressors: Option<Vec<Compressor>>,
    /// Time-out for establishing a connection (`connectTimeoutMS`). Defaults to 10 seconds; zero
    /// disables it.
    pub connect_timeout: Option<Duration>,
    /// Default database, after the hosts. Defaults to none.
    pub default_database: Option<String>,
    /// Default collection, after a dot in the default database. Defaults to none.
    pub default_collection: Option<String>,
    /// Connects to the single host directly, whatever its server type (`directConnection`).
    /// Defaults to `false`.
    pub direct_connection: Option<bool>,
    /// Retries after overload errors avoid the overloaded server (`enableOverloadRetargeting`).
    /// Defaults to `true`.
    pub enable_overload_retargeting: Option<bool>,
    /// Interval between heartbeats (`heartbeatFrequencyMS`). Defaults to 10 seconds; the minimum is
    /// 500 ms.
    pub heartbeat_frequency: Option<Duration>,
    /// The single host is a load balancer (`loadBalanced`). Defaults to `false`.
    pub load_balanced: Option<bool>,
    /// Size of the latency window: how much longer than that of the fastest suitable server a round
    /// trip may take (`localThresholdMS`). Defaults to 15 ms.
    pub local_threshold: Option<Duration>,
    /// Maximum number of retries of a command after an overload error (`maxAdaptiveRetries`).
    /// Defaults to 5.
    pub max_adaptive_retries: Option<u32>,
    /// Maximum number of connections that a pool establishes concurrently (`maxConnecting`).
    /// Defaults to 2.
    pub max_connecting: Option<u32>,
    /// Time after which an idle connection is closed (`maxIdleTimeMS`). Defaults to no limit; zero
    /// means no limit.
    pub max_idle_time: Option<Duration>,
    /// Maximum number of connections in a pool (`maxPoolSize`). Defaults to 100; zero means no
    /// limit.
    pub max_pool_size: Option<u32>,
    /// Minimum number of connections in a pool (`minPoolSize`). Defaults to 0.
    pub min_pool_size: Option<u32>,
    /// Read concern of the client (`readConcernLevel`). Defaults to none: the server's default
    /// applies.
    pub read_concern: Option<ReadConcern>,
    /// Read preference of the client (`readPreference`, `readPreferenceTags`,
    /// `maxStalenessSeconds`). Defaults to primary.
    pub read_preference: Option<ReadPreference>,
    /// Required name of the replica set (`replicaSet`). Defaults to none.
    pub replica_set: Option<String>,
    /// Retries reads after retryable errors (`retryReads`). Defaults to `true`.
    pub retry_reads: Option<bool>,
    /// Retries writes after retryable errors (`retryWrites`). Defaults to `true`.
    pub retry_writes: Option<bool>,
    /// Streaming or polling heartbeat protocol (`serverMonitoringMode`). Defaults to `auto`.
    pub server_monitoring_mode: Option<ServerMonitoringMode>,
    /// Time-out of server selection (`serverSelectionTimeoutMS`). Defaults to 30 seconds; with
    /// zero, server selection does not wait.
    pub server_selection_timeout: Option<Duration>,
    /// Option of single-threaded drivers (`serverSelectionTryOnce`). It has no effect in this
    /// driver.
    pub server_selection_try_once: Option<bool>,
    /// Time-out for sending and receiving on a socket (`socketTimeoutMS`). Defaults to no limit;
    /// zero means no limit.
    pub socket_timeout: Option<Duration>,
    /// SOCKS5 proxy (`proxyHost`, `proxyPort`, `proxyUsername`, `proxyPassword`). Defaults to none.
    pub socks5_proxy: Option<Socks5Proxy>,
    /// Domain suffix that hosts from SRV records must have (`srvAllowedHostsSuffix`). Defaults to
    /// the domain derived from the DNS name.
    pub srv_allowed_hosts_suffix: Option<String>,
    /// Maximum number of hosts used from SRV records (`srvMaxHosts`). Defaults to zero, which means
    /// all.
    pub srv_max_hosts: Option<u32>,
    /// Service name of the SRV query (`srvServiceName`). Defaults to `mongodb`.
    pub srv_service_name: Option<String>,
    /// Time-out of a whole operation, retries included (`timeoutMS`). Defaults to none; zero means
    /// no limit.
    pub timeout: Option<Duration>,
    /// TLS (`tls` and the options that begin with `tls`). Defaults to off, and to on for
    /// `mongodb+srv`.
    pub tls: Option<Tls>,
    /// Representation of UUIDs in BSON (`uuidRepresentation`). Defaults to none.
    pub uuid_representation: Option<UuidRepresentation>,
    /// Time-out for checking out a connection (`waitQueueTimeoutMS`). Defaults to no limit.
    pub wait_queue_timeout: Option<Duration>,
    /// Write concern of the client (`w`, `wTimeoutMS`, `journal`). Defaults to none: the server's
    /// default applies.
    pub write_concern: Option<WriteConcern>,
    /// Compression level of zlib, 0 to 9, or -1 for zlib's default (`zlibCompressionLevel`).
    /// Defaults to -1.
    pub zlib_compression_level: Option<i32>,
    /// Warnings about ignored options.
    pub warnings: Vec<String>,
}

/// Hosts of a deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum HostInfo {
    /// Addresses of the hosts; at least one.
    HostIdentifiers(Vec<ServerAddress>),
    /// DNS name with the SRV records of the hosts (`mongodb+srv`).
    DnsRecord(String),
}

impl Default for HostInfo {
    fn default() -> Self {
        Self::HostIdentifiers(vec![ServerAddress::default()])
    }
}

impl ConnectionString {
    /// Parses a connection string.
    ///
    /// # Errors
    ///
    /// An error if the text is not a connection string, or options contradict each other.
    pub fn parse(uri: impl AsRef<str>) -> Result<Self, UriError> {
        let parts = text::UriParts::split(uri.as_ref())?;
        let user = parts.user()?;
        let mut draft = draft::UriDraft::new(parts.host_info()?, parts.default_namespace()?);
        option_table::read(parts.options, &mut draft)?;
        draft.finish(user)
    }

    /// Returns the time-out for checking out a connection (`waitQueueTimeoutMS`).
    pub fn wait_queue_timeout(&self) -> Option<Duration> {
        self.wait_queue_timeout
    }

    /// Returns `true` if invalid certificates and other host names are accepted (`tlsInsecure`).
    /// `None` if the option is missing.
    pub fn tls_insecure(&self) -> Option<bool> {
        match &self.tls {
            Some(Tls::Enabled(options)) => options.insecure,
            Some(Tls::Disabled) | None => None,
        }
    }

    /// Checks for contradictory options. Parsing does this already; call it after changing options.
    ///
    /// # Errors
    ///
    /// The first contradiction found.
    pub fn validate(&self) -> Result<(), UriError> {
        self.validate_hosts()?;
        self.validate_load_balancing()?;
        self.validate_srv()?;
        match (self.min_pool_size, self.max_pool_size) {
            (Some(min), Some(max)) if max > 0 && min > max => {
                Err(UriError::conflict("minPoolSize", "a smaller maxPoolSize"))
            }
            _ => Ok(()),
        }
    }

    fn validate_hosts(&self) -> Result<(), UriError> {
        let direct = self.direct_connection == Some(true);
        match &self.host_info {
            HostInfo::HostIdentifiers(hosts) if hosts.is_empty() => Err(UriError::NoHost),
            HostInfo::HostIdentifiers(hosts) if direct && hosts.len() > 1 => {
                Err(UriError::conflict("directConnection=true", "more than one host"))
            }
            _ if direct && self.is_srv() => {
                Err(UriError::conflict("directConnection=true", "mongodb+srv"))
            }
            HostInfo::HostIdentifiers(_) | HostInfo::DnsRecord(_) => Ok(()),
        }
    }

    /// Checks the rules of the load balancer specification.
    fn validate_load_balancing(&self) -> Result<(), UriError> {
        if self.load_balanced != Some(true) {
            return Ok(());
        }
        let several_hosts =
            matches!(&self.host_info, HostInfo::HostIdentifiers(hosts) if hosts.len() > 1);
        for (conflicts, with) in [
            (several_hosts, "more than one host"),
            (self.replica_set.is_some(), "replicaSet"),
            (self.direct_connection == Some(true), "directConnection=true"),
            (self.limits_srv_hosts(), "srvMaxHosts"),
        ] {
            if conflicts {
                return Err(UriError::conflict("loadBalanced=true", with));
            }
        }
        Ok(())
    }

    /// Checks the rules of the initial DNS seedlist discovery specification.
    fn validate_srv(&self) -> Result<(), UriError> {
        if self.limits_srv_hosts() && self.replica_set.is_some() {
            return Err(UriError::conflict("srvMaxHosts", "replicaSet"));
        }
        for (given, name) in [
            (self.srv_service_name.is_some(), "srvServiceName"),
            (self.srv_max_hosts.is_some(), "srvMaxHosts"),
            (self.srv_allowed_hosts_suffix.is_some(), "srvAllowedHostsSuffix"),
        ] {
            if given && !self.is_srv() {
                return Err(UriError::conflict(name, "the scheme mongodb://; use mongodb+srv://"));
            }
        }
        Ok(())
    }

    fn is_srv(&self) -> bool {
        matches!(self.host_info, HostInfo::DnsRecord(_)) || self.original_srv_hostname.is_some()
    }

    fn limits_srv_hosts(&self) -> bool {
        self.srv_max_hosts.is_some_and(|hosts| hosts > 0)
    }
}

impl FromStr for ConnectionString {
    type Err = UriError;

    fn from_str(uri: &str) -> Result<Self, UriError> {
        Self::parse(uri)
    }
}

#[cfg(test)]
mod tests;
