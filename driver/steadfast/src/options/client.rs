//! Options of clients: servers, connections, pools, monitoring, retries and defaults of operations.

mod parse;

use std::time::Duration;

use steadfast_core::{
    address::ServerAddress,
    concern::{ReadConcern, WriteConcern},
    connection_string::{Compressor, ConnectionString, ServerMonitoringMode, Tls},
    credential::Credential,
    selection::SelectionCriteria,
    server_api::ServerApi,
};

use crate::{
    error::Error,
    event::{
        EventHandler, cmap::CmapEvent, command::CommandEvent, retry::RetryEvent, sdam::SdamEvent,
    },
};

pub use self::parse::ParseClientOptions;

/// Declares the client's options and their builder.
macro_rules! client_options {
    ($( $(#[doc = $doc:expr])+ $(#[serde($($serde:tt)*)])? $field:ident : $kind:ty ),* $(,)?) => {
        /// Options of a [`Client`](crate::Client).
        ///
        /// [`parse`](Self::parse) reads them from a
        /// [connection string](https://www.mongodb.com/docs/manual/reference/connection-string/). Event
        /// handlers and other options without a URI option are set on the struct or through its builder.
        /// Each option names its
        /// [URI option](https://github.com/mongodb/specifications/blob/master/source/uri-options/uri-options.md).
        ///
        /// ```no_run
        /// # async fn run() -> steadfast::error::Result<()> {
        /// use std::time::Duration;
        /// use steadfast::{Client, options::ClientOptions};
        ///
        /// let mut options = ClientOptions::parse("mongodb://localhost:27017").await?;
        /// options.app_name = Some("stock".to_owned());
        /// options.server_selection_timeout = Some(Duration::from_secs(5));
        /// let client = Client::with_options(options)?;
        /// # Ok(()) }
        /// ```
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        #[non_exhaustive]
        pub struct ClientOptions {
            /// Seed list: addresses of servers to connect to first (`hosts`). Defaults to
            /// `localhost:27017`.
            pub hosts: Vec<ServerAddress>,
            $( $(#[doc = $doc])+ $(#[serde($($serde)*)])? pub $field: Option<$kind>, )*
            /// Host name of the `mongodb+srv` connection string, for SRV polling.
            #[cfg_attr(not(feature = "dns"), allow(dead_code))]
            #[serde(skip)]
            pub(crate) srv_host: Option<String>,
            #[cfg_attr(not(feature = "dns"), allow(dead_code))]
            #[serde(skip)]
            pub(crate) srv_allowed_hosts_suffix: Option<String>,
            /// Name servers for SRV polling.
            #[cfg(feature = "dns")]
            #[serde(skip)]
            pub(crate) resolver_config: Option<crate::dns::ResolverConfig>,
        }

        /// Builder for [`ClientOptions`].
        #[derive(Clone, Debug, Default)]
        #[must_use]
        pub struct ClientOptionsBuilder(ClientOptions);

        impl ClientOptionsBuilder {
            /// Seed list: addresses of servers to connect to first (`hosts`). Defaults to
            /// `localhost:27017`.
            pub fn hosts(mut self, value: impl Into<Vec<ServerAddress>>) -> Self {
                self.0.hosts = value.into();
                self
            }

            $(
                $(#[doc = $doc])+
                pub fn $field(mut self, value: impl Into<Option<$kind>>) -> Self {
                    self.0.$field = value.into();
                    self
                }
            )*

            /// Returns the options.
            pub fn build(self) -> ClientOptions {
                self.0
            }
        }
    };
}

client_options! {
    /// Application name (`appName`) in the server's log, the profiler and `$currentOp`, at most 128
    /// bytes. Defaults to none.
    app_name: String,
    /// Command event handler, called with each `CommandEvent`: command started, succeeded and
    /// failed. Defaults to none.
    #[serde(skip)]
    command_event_handler: EventHandler<CommandEvent>,
    /// CMAP event handler, called with each `CmapEvent` of a connection pool. Defaults to none.
    #[serde(skip)]
    cmap_event_handler: EventHandler<CmapEvent>,
    /// Retry event handler, called with each `RetryEvent`: retries, and retries that client
    /// backpressure prevented. Defaults to none.
    #[serde(skip)]
    retry_event_handler: EventHandler<RetryEvent>,
    /// SDAM event handler, called with each `SdamEvent` of server discovery and monitoring.
    /// Defaults to none.
    #[serde(skip)]
    sdam_event_handler: EventHandler<SdamEvent>,
    /// Compressors for network messages (`compressors`), in order of preference. Each requires its
    /// cargo feature (`snappy`, `zlib`, `zstd`); others are ignored with a warning. Defaults to no
    /// compression.
    #[serde(skip)]
    compressors: Vec<Compressor>,
    /// Time-out of establishing a connection (`connectTimeoutMS`), including TLS, handshake and
    /// authentication. Zero means no limit. Defaults to 10 seconds.
    connect_timeout: Duration,
    /// Credential used to authenticate: user name, password and the URI options `authSource`,
    /// `authMechanism` and `authMechanismProperties`. Defaults to none.
    credential: Credential,
    /// Connects to the one given server only (`directConnection`) if `true`, without discovery of
    /// the deployment. Defaults to `false`.
    direct_connection: bool,
    /// Name, version and platform of a library that wraps this driver (`driverInfo`), appended to
    /// the handshake. Defaults to none.
    driver_info: DriverInfo,
    /// Interval between server checks (`heartbeatFrequencyMS`). A server that supports the
    /// streaming protocol reports changes without delay. Defaults to 10 seconds.
    heartbeat_freq: Duration,
    /// Connects through a load balancer (`loadBalanced`) if `true`. Defaults to `false`.
    #[serde(rename = "loadbalanced", alias = "loadBalanced")]
    load_balanced: bool,
    /// Width of the latency window (`localThresholdMS`): servers whose round trip time exceeds that
    /// of the nearest suitable server by more are not selected. Defaults to 15 milliseconds.
    local_threshold: Duration,
    /// Maximum number of connections that one pool establishes at the same time (`maxConnecting`).
    /// Defaults to 2.
    max_connecting: u32,
    /// Maximum time that a pooled connection may be idle before it is closed (`maxIdleTimeMS`).
    /// Zero means no limit. Defaults to no limit.
    max_idle_time: Duration,
    /// Maximum number of retries of one operation on overloaded servers (`maxAdaptiveRetries`).
    /// Defaults to 5 retries. See
    /// [client backpressure](https://github.com/mongodb/specifications/blob/master/source/client-backpressure/client-backpressure.md).
    max_adaptive_retries: u32,
    /// Maximum number of connections in the pool of one server (`maxPoolSize`). Zero means no
    /// limit. Defaults to 100.
    max_pool_size: u32,
    /// Minimum number of connections in the pool of one server (`minPoolSize`), established in the
    /// background. Defaults to 0.
    min_pool_size: u32,
    /// Default read concern (`readConcernLevel`). Databases, collections and operations can
    /// override it. Defaults to the server's default. See
    /// [read concern](https://www.mongodb.com/docs/manual/reference/read-concern/).
    read_concern: ReadConcern,
    /// Name of the replica set (`replicaSet`). Servers with another set name are not used. Defaults
    /// to any.
    repl_set_name: String,
    /// Retries reads (`retryReads`) after a retryable error if `true`. Defaults to `true`. See
    /// [retryable reads](https://www.mongodb.com/docs/manual/core/retryable-reads/).
    retry_reads: bool,
    /// Retries writes (`retryWrites`) after a retryable error if `true`. Retries reuse the
    /// transaction number (`txnNumber`), so that servers apply the write at most once. Defaults to
    /// `true`. See [retryable writes](https://www.mongodb.com/docs/manual/core/retryable-writes/).
    retry_writes: bool,
    /// Default read preference (`readPreference`, `readPreferenceTags`, `maxStalenessSeconds`), or
    /// a predicate that selects servers. Databases, collections and operations can override it.
    /// Defaults to the primary. See
    /// [read preference](https://www.mongodb.com/docs/manual/core/read-preference/).
    selection_criteria: SelectionCriteria,
    /// Server API: version of the Stable API (`apiVersion`) declared with every command. Defaults
    /// to none. See [Stable API](https://www.mongodb.com/docs/manual/reference/stable-api/).
    server_api: ServerApi,
    /// Server monitoring mode (`serverMonitoringMode`): stream, poll, or auto. Defaults to auto,
    /// which streams except on function-as-a-service platforms.
    server_monitoring_mode: ServerMonitoringMode,
    /// Time-out of server selection (`serverSelectionTimeoutMS`). Defaults to 30 seconds.
    server_selection_timeout: Duration,
    /// Time-out of one request and its reply on a connection (`socketTimeoutMS`). Zero means no
    /// limit. Ignored if a `timeout` applies. Defaults to no limit.
    socket_timeout: Duration,
    /// Default database: the one in the path of the connection string (`defaultauthdb`), returned
    /// by [`Client::default_database`](crate::Client::default_database). Defaults to none.
    default_database: String,
    /// Maximum number of hosts from SRV records to use (`srvMaxHosts`), selected at random. Zero
    /// means all. Defaults to 0.
    srv_max_hosts: u32,
    /// Service name of the SRV records (`srvServiceName`). Defaults to `mongodb`.
    srv_service_name: String,
    /// Default time-out of a whole call (`timeoutMS`): server selection, connection checkout,
    /// execution and retries. Databases, collections and operations can override it. Zero means no
    /// limit. Once it is set, `socket_timeout`, `wait_queue_timeout`, the `max_time` of operations
    /// and the `w_timeout` of write concerns are ignored. Defaults to no limit. See
    /// [client-side operations timeout](https://github.com/mongodb/specifications/blob/master/source/client-side-operations-timeout/client-side-operations-timeout.md).
    timeout: Duration,
    /// Configuration of TLS (`tls` and the other URI options with this prefix). Requires the cargo
    /// feature `tls`. Defaults to no TLS.
    tls: Tls,
    /// Maximum length in bytes of a document in a log message (`maxDocumentLength`). Longer ones
    /// are truncated. Defaults to 1000.
    tracing_max_document_length_bytes: usize,
    /// Time-out of connection checkout (`waitQueueTimeoutMS`). Ignored if a `timeout` applies.
    /// Defaults to no limit.
    wait_queue_timeout: Duration,
    /// Default write concern (`w`, `journal`, `wTimeoutMS`). Databases, collections and operations
    /// can override it. Defaults to the server's default. See
    /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
    write_concern: WriteConcern,
    /// Deprioritizes an overloaded server when its rejected command is retried
    /// (`enableOverloadRetargeting`) if `true`. Defaults to `true`.
    enable_overload_retargeting: bool,
    /// Compression level of zlib (`zlibCompressionLevel`), from 0 (none) to 9 (smallest). -1
    /// selects zlib's own default. Defaults to -1.
    zlib_compression_level: i32,
}

/// Name, version and platform of a library that wraps this driver, appended to the
/// [handshake](https://github.com/mongodb/specifications/blob/master/source/mongodb-handshake/handshake.md).
///
/// ```
/// use steadfast::options::DriverInfo;
///
/// let library = DriverInfo::builder().name("shelves").version("2.1".to_owned()).build();
/// assert_eq!(library.name, "shelves");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[non_exhaustive]
pub struct DriverInfo {
    /// Name of the library (`driver.name`).
    pub name: String,
    /// Version of the library (`driver.version`). Defaults to none.
    pub version: Option<String>,
    /// Platform of the library (`platform`). Defaults to none.
    pub platform: Option<String>,
}

impl DriverInfo {
    /// Creates the metadata of a library called `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Returns a builder for [`DriverInfo`].
    pub fn builder() -> DriverInfoBuilder {
        DriverInfoBuilder::default()
    }
}

/// Builder for [`DriverInfo`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct DriverInfoBuilder(DriverInfo);

impl DriverInfoBuilder {
    /// Sets the name of the library (`driver.name`). Required.
    pub fn name(mut self, value: impl Into<String>) -> Self {
        self.0.name = value.into();
        self
    }

    /// Sets the version of the library (`driver.version`).
    pub fn version(mut self, value: impl Into<Option<String>>) -> Self {
        self.0.version = value.into();
        self
    }

    /// Sets the platform of the library (`platform`).
    pub fn platform(mut self, value: impl Into<Option<String>>) -> Self {
        self.0.platform = value.into();
        self
    }

    /// Returns the metadata.
    pub fn build(self) -> DriverInfo {
        self.0
    }
}

impl ClientOptions {
    /// Parses a
    /// [connection string](https://www.mongodb.com/docs/manual/reference/connection-string/).
    ///
    /// Accepts a text or a [`ConnectionString`]. With `mongodb+srv`, awaiting the action resolves the SRV and TXT records of the host.
    ///
    /// ```no_run
    /// # async fn run() -> steadfast::error::Result<()> {
    /// use steadfast::options::ClientOptions;
    ///
    /// let options = ClientOptions::parse("mongodb://db1,db2/?replicaSet=rs0&w=majority").await?;
    /// assert_eq!(options.repl_set_name.as_deref(), Some("rs0"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) if the connection
    ///   string is malformed, contains contradicting options or uses an option or cargo feature
    ///   that is not supported.
    /// - [`ErrorKind::DnsResolve`](crate::error::ErrorKind::DnsResolve) if the records cannot be
    ///   resolved.
    pub fn parse<C, E>(uri: C) -> ParseClientOptions
    where
        C: TryInto<ConnectionString, Error = E>,
        E: Into<Error>,
    {
        ParseClientOptions::new(uri.try_into().map_err(Into::into))
    }

    /// Returns a builder for [`ClientOptions`].
    pub fn builder() -> ClientOptionsBuilder {
        ClientOptionsBuilder::default()
    }
}
