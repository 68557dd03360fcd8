//! Parsing of connection strings into [`ClientOptions`].

use std::pin::Pin;

use steadfast_core::{
    connection_string::{ConnectionString, HostInfo, UriError},
    credential::InvalidCredential,
};

use super::ClientOptions;
#[cfg(feature = "dns")]
use crate::dns::ResolverConfig;
use crate::error::{Error, ErrorKind, Result};

/// Action that parses a connection string. See [`ClientOptions::parse`].
#[derive(Clone, Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct ParseClientOptions {
    parsed: Result<ConnectionString>,
    #[cfg(feature = "dns")]
    resolver_config: Option<ResolverConfig>,
}

impl ParseClientOptions {
    pub(super) fn new(parsed: Result<ConnectionString>) -> Self {
        Self {
            parsed,
            #[cfg(feature = "dns")]
            resolver_config: None,
        }
    }

    /// Sets the name servers for the SRV and TXT records of `mongodb+srv`, which are also those of
    /// SRV polling. Defaults to the name servers of the system.
    #[cfg(feature = "dns")]
    pub fn resolver_config(mut self, value: ResolverConfig) -> Self {
        self.resolver_config = Some(value);
        self
    }

    async fn execute(self) -> Result<ClientOptions> {
        #[cfg(feature = "dns")]
        let parsed = resolve(self.parsed?, self.resolver_config.as_ref()).await?;
        #[cfg(not(feature = "dns"))]
        let parsed = unresolved(self.parsed?)?;
        for warning in &parsed.warnings {
            tracing::warn!(target: "steadfast::client", "connection string: {warning}");
        }
        let options = ClientOptions::from_connection_string(parsed)?;
        #[cfg(feature = "dns")]
        let options = ClientOptions { resolver_config: self.resolver_config, ..options };
        Ok(options)
    }
}

#[cfg(feature = "sync")]
impl ParseClientOptions {
    /// Runs the action and blocks the thread until its result is there. See [`sync`](crate::sync#blocking), also for
    /// the error in a task of a current-thread runtime.
    pub fn run(self) -> Result<ClientOptions> {
        crate::runtime::block_on(self.execute())?
    }
}

impl IntoFuture for ParseClientOptions {
    type Output = Result<ClientOptions>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.execute())
    }
}

#[cfg(feature = "dns")]
async fn resolve(
    parsed: ConnectionString,
    config: Option<&ResolverConfig>,
) -> Result<ConnectionString> {
    let Some(name) = parsed.srv_name()? else { return Ok(parsed) };
    let answer = crate::dns::Resolver::configured(config)?.query(&name).await?;
    Ok(parsed.resolve_srv(&answer, crate::random::random_below)?)
}

#[cfg(not(feature = "dns"))]
fn unresolved(parsed: ConnectionString) -> Result<ConnectionString> {
    if parsed.srv_name()?.is_none() {
        return Ok(parsed);
    }
    Err(Error::invalid_argument(
        "mongodb+srv requires DNS resolution; enable the cargo feature `dns` of steadfast",
    ))
}

impl ClientOptions {
    /// Converts a resolved connection string into options.
    fn from_connection_string(uri: ConnectionString) -> Result<Self> {
        let HostInfo::HostIdentifiers(hosts) = uri.host_info else {
            return Err(Error::new(ErrorKind::Internal {
                message: "the mongodb+srv connection string was not resolved".to_owned(),
            }));
        };
        if uri.socks5_proxy.is_some() {
            return Err(Error::invalid_argument("proxyHost: SOCKS5 proxies are not supported"));
        }
        Ok(Self {
            hosts,
            app_name: uri.app_name,
            compressors: uri.compressors,
            zlib_compression_level: uri.zlib_compression_level,
            connect_timeout: uri.connect_timeout,
            credential: uri.credential,
            direct_connection: uri.direct_connection,
            heartbeat_freq: uri.heartbeat_frequency,
            load_balanced: uri.load_balanced,
            local_threshold: uri.local_threshold,
            enable_overload_retargeting: uri.enable_overload_retargeting,
            max_adaptive_retries: uri.max_adaptive_retries,
            max_connecting: uri.max_connecting,
            max_idle_time: uri.max_idle_time,
            max_pool_size: uri.max_pool_size,
            min_pool_size: uri.min_pool_size,
            read_concern: uri.read_concern,
            repl_set_name: uri.replica_set,
            retry_reads: uri.retry_reads,
            retry_writes: uri.retry_writes,
            selection_criteria: uri.read_preference.map(Into::into),
            server_monitoring_mode: uri.server_monitoring_mode,
            server_selection_timeout: uri.server_selection_timeout,
            socket_timeout: uri.socket_timeout,
            default_database: uri.default_database,
            srv_max_hosts: uri.srv_max_hosts,
            srv_service_name: uri.srv_service_name,
            srv_host: uri.original_srv_hostname,
            srv_allowed_hosts_suffix: uri.srv_allowed_hosts_suffix,
            timeout: uri.timeout,
            tls: uri.tls,
            wait_queue_timeout: uri.wait_queue_timeout,
            write_concern: uri.write_concern,
            ..Self::default()
        })
    }
}

impl From<InvalidCredential> for ErrorKind {
    fn from(error: InvalidCredential) -> Self {
        Self::InvalidArgument { message: format!("credential: {error}") }
    }
}

impl From<UriError> for ErrorKind {
    fn from(error: UriError) -> Self {
        Self::InvalidArgument { message: format!("connection string: {error}") }
    }
}
