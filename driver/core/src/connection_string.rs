//! Connection strings: the text that says which deployment to use, as whom, and how.
//!
//! [`ConnectionString::parse`] turns the text into typed options. What cannot be is an error, what
//! is unknown or malformed is left out with a warning, as MongoDB's connection string and URI
//! options specifications ask. Neither errors, warnings nor `Debug` show a secret.
//!
//! A `mongodb+srv` string names no servers yet; [`ConnectionString::resolve_srv`] completes it with
//! what DNS says.

mod draft;
mod error;
mod option_table;
mod resolve;
mod settings;
mod text;
mod tls;

use std::{str::FromStr, time::Duration};

use bson::UuidRepresentation;

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

/// What a connection string says. An option it does not mention is `None`.
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
    /// The servers, or the DNS name under which they are found.
    pub host_info: HostInfo,
    /// The DNS name that [`resolve_srv`](Self::resolve_srv) replaced by servers.
    pub original_srv_hostname: Option<String>,
    /// `appname`: what servers log the client as.
    pub app_name: Option<String>,
    /// `authSource` as written; where it takes effect is the credential's source.
    pub auth_source: Option<String>,
    /// Who the client is: user name and password, `authMechanism`, `authMechanismProperties`.
    pub credential: Option<Credential>,
    /// `compressors`, in order of preference.
    pub compressors: Option<Vec<Compressor>>,
    /// `connectTimeoutMS`; zero means no limit.
    pub connect_timeout: Option<Duration>,
    /// The database after the hosts.
    pub default_database: Option<String>,
    /// What follows a dot in the database after the hosts.
    pub default_collection: Option<String>,
    /// `directConnection`: use this one server, whatever it is.
    pub direct_connection: Option<bool>,
    /// `enableOverloadRetargeting`: whether a retry after overload avoids the overloaded server.
    pub enable_overload_retargeting: Option<bool>,
    /// `heartbeatFrequencyMS`: how often servers are checked.
    pub heartbeat_frequency: Option<Duration>,
    /// `loadBalanced`: whether the one host is a load balancer.
    pub load_balanced: Option<bool>,
    /// `localThresholdMS`: how much slower than the nearest a server may be.
    pub local_threshold: Option<Duration>,
    /// `maxAdaptiveRetries`: how often an operation is tried again after overload.
    pub max_adaptive_retries: Option<u32>,
    /// `maxConnecting`: how many connections a pool establishes at once.
    pub max_connecting: Option<u32>,
    /// `maxIdleTimeMS`: how long a connection may be idle; zero means no limit.
    pub max_idle_time: Option<Duration>,
    /// `maxPoolSize`; zero means no limit.
    pub max_pool_size: Option<u32>,
    /// `minPoolSize`.
    pub min_pool_size: Option<u32>,
    /// `readConcernLevel`.
    pub read_concern: Option<ReadConcern>,
    /// `readPreference`, `readPreferenceTags`, `maxStalenessSeconds`.
    pub read_preference: Option<ReadPreference>,
    /// `replicaSet`: the name that the set must have.
    pub replica_set: Option<String>,
    /// `retryReads`.
    pub retry_reads: Option<bool>,
    /// `retryWrites`.
    pub retry_writes: Option<bool>,
    /// `serverMonitoringMode`.
    pub server_monitoring_mode: Option<ServerMonitoringMode>,
    /// `serverSelectionTimeoutMS`; zero means that no server is waited for.
    pub server_selection_timeout: Option<Duration>,
    /// `serverSelectionTryOnce`: for single-threaded drivers; it has no effect on this one.
    pub server_selection_try_once: Option<bool>,
    /// `socketTimeoutMS`; zero means no limit.
    pub socket_timeout: Option<Duration>,
    /// `proxyHost` and its companions.
    pub socks5_proxy: Option<Socks5Proxy>,
    /// `srvAllowedHostsSuffix`: the domain that servers found by DNS must be in, where it is not
    /// the one that the specification derives from the DNS name.
    pub srv_allowed_hosts_suffix: Option<String>,
    /// `srvMaxHosts`: how many of the hosts found by DNS are used; zero means all.
    pub srv_max_hosts: Option<u32>,
    /// `srvServiceName`: what is asked of DNS.
    pub srv_service_name: Option<String>,
    /// `timeoutMS`: how long an operation may take as a whole; zero means no limit.
    pub timeout: Option<Duration>,
    /// `tls` and its companions.
    pub tls: Option<Tls>,
    /// `uuidRepresentation`.
    pub uuid_representation: Option<UuidRepresentation>,
    /// `waitQueueTimeoutMS`: how long a connection is waited for.
    pub wait_queue_timeout: Option<Duration>,
    /// `w`, `wTimeoutMS`, `journal`.
    pub write_concern: Option<WriteConcern>,
    /// `zlibCompressionLevel`: from 0 to 9, or -1 for the default.
    pub zlib_compression_level: Option<i32>,
    /// What was left out, and why.
    pub warnings: Vec<String>,
}

/// Where a deployment is found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostInfo {
    /// By these addresses, of which there is at least one.
    HostIdentifiers(Vec<ServerAddress>),
    /// By the SRV records of this DNS name.
    DnsRecord(String),
}

impl Default for HostInfo {
    fn default() -> Self {
        Self::HostIdentifiers(vec![ServerAddress::default()])
    }
}

impl ConnectionString {
    /// Reads a connection string.
    pub fn parse(uri: impl AsRef<str>) -> Result<Self, UriError> {
        let parts = text::Parts::split(uri.as_ref())?;
        let user = parts.user()?;
        let mut draft = draft::Draft::new(parts.host_info()?, parts.default_namespace()?);
        option_table::read(parts.options, &mut draft)?;
        draft.finish(user)
    }

    /// Refuses options that contradict each other. Parsing does this already; it serves those who
    /// change options afterwards.
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

    /// The rules of the load balancer specification.
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

    /// The rules of the initial DNS seedlist discovery specification.
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
                return Err(UriError::conflict(name, "any scheme but mongodb+srv"));
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
