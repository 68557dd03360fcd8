//! How a client finds its deployment, talks to it, and what it asks of it.

mod parse;

use std::time::Duration;

use steadfast_core::{
    address::ServerAddress,
    concern::{ReadConcern, WriteConcern},
    connection_string::{Compressor, ServerMonitoringMode, Tls},
    credential::Credential,
    selection::SelectionCriteria,
    server_api::ServerApi,
};

use crate::event::{
    EventHandler, cmap::CmapEvent, command::CommandEvent, retry::RetryEvent, sdam::SdamEvent,
};

pub use self::parse::ParseClientOptions;

/// Declares the client's options and their builder.
macro_rules! client_options {
    ($( $(#[doc = $doc:expr])+ $field:ident : $kind:ty ),* $(,)?) => {
        /// Everything that can be said of a client.
        ///
        /// Most come from a connection string; the rest, event handlers among them, are set on the
        /// struct or through its builder.
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
        #[derive(Clone, Debug, Default)]
        #[non_exhaustive]
        pub struct ClientOptions {
            /// The servers to begin with. If none is given, `localhost:27017`.
            pub hosts: Vec<ServerAddress>,
            $( $(#[doc = $doc])+ pub $field: Option<$kind>, )*
            /// The name that was resolved by `mongodb+srv`, to be asked again while the client lives.
            #[cfg_attr(not(feature = "dns"), allow(dead_code))]
            pub(crate) srv_host: Option<String>,
            #[cfg_attr(not(feature = "dns"), allow(dead_code))]
            pub(crate) srv_allowed_hosts_suffix: Option<String>,
        }

        /// Builds [`ClientOptions`].
        #[derive(Clone, Debug, Default)]
        #[must_use]
        pub struct ClientOptionsBuilder(ClientOptions);

        impl ClientOptionsBuilder {
            /// The servers to begin with. If none is given, `localhost:27017`.
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

            /// The options as they were set.
            pub fn build(self) -> ClientOptions {
                self.0
            }
        }
    };
}

client_options! {
    /// The application's name, which servers log and show.
    app_name: String,
    /// Who is told of commands.
    command_event_handler: EventHandler<CommandEvent>,
    /// Who is told of connections and pools.
    cmap_event_handler: EventHandler<CmapEvent>,
    /// Who is told of retries, and of what is not tried again while a server is overloaded.
    retry_event_handler: EventHandler<RetryEvent>,
    /// Who is told of servers and of the deployment.
    sdam_event_handler: EventHandler<SdamEvent>,
    /// How messages may be compressed, the best liked first. Each needs its cargo feature.
    compressors: Vec<Compressor>,
    /// How long opening a connection may take, up to the end of logging in. 10 s by default.
    connect_timeout: Duration,
    /// Who the client is.
    credential: Credential,
    /// Whether to talk to the one given server only, whatever it is part of.
    direct_connection: bool,
    /// The library that wraps this driver, for the server's logs.
    driver_info: DriverInfo,
    /// How often servers are checked where they cannot report by themselves. 10 s by default.
    heartbeat_freq: Duration,
    /// Whether a load balancer stands before the deployment.
    load_balanced: bool,
    /// How much slower than the nearest server another may be and still be used. 15 ms by default.
    local_threshold: Duration,
    /// How many connections to one server may be opened at the same time. 2 by default.
    max_connecting: u32,
    /// How long a connection may lie idle before it is closed. For ever by default.
    max_idle_time: Duration,
    /// How often a command is tried again at most while servers are overloaded. 5 by default.
    max_adaptive_retries: u32,
    /// How many connections there may be to one server; 0 is no limit. 100 by default.
    max_pool_size: u32,
    /// How many connections to one server are kept ready. 0 by default.
    min_pool_size: u32,
    /// What reads may see, unless a database, a collection or an action says otherwise.
    read_concern: ReadConcern,
    /// The name of the replica set. A server of another is not used.
    repl_set_name: String,
    /// Whether reads that failed for a passing reason are tried once more. True by default.
    retry_reads: bool,
    /// Whether writes that failed for a passing reason are tried once more, under the same
    /// transaction id, so that they are applied at most once. True by default.
    retry_writes: bool,
    /// Which servers reads go to, unless a database, a collection or an action says otherwise.
    selection_criteria: SelectionCriteria,
    /// The version of the server's interface to hold it to.
    server_api: ServerApi,
    /// Whether servers report their changes by themselves or are asked.
    server_monitoring_mode: ServerMonitoringMode,
    /// How long to look for a suitable server. 30 s by default.
    server_selection_timeout: Duration,
    /// How long sending a request and receiving its reply may take together. For ever by default.
    socket_timeout: Duration,
    /// The database that the connection string names.
    default_database: String,
    /// How many of the hosts that DNS names are used at most.
    srv_max_hosts: u32,
    /// The service whose records are looked up in DNS. `mongodb` by default.
    srv_service_name: String,
    /// How long a call may take in all, unless a database, a collection or the call itself says
    /// otherwise: to find a server, to get a connection, to be carried out, and to be tried again if
    /// need be. Zero is without end. Once it is set, `socket_timeout`, `wait_queue_timeout`, the
    /// `max_time` of calls and the `w_timeout` of write concerns do not count. By default there is no
    /// such limit.
    timeout: Duration,
    /// Whether and how connections are encrypted.
    tls: Tls,
    /// How much of a document is shown in log messages. 1000 bytes by default.
    tracing_max_document_length_bytes: usize,
    /// How long to wait for a connection while all are in use. For ever by default.
    wait_queue_timeout: Duration,
    /// How durable writes must be, unless a database, a collection or an action says otherwise.
    write_concern: WriteConcern,
    /// Whether a command that an overloaded server refused rather goes to another. True by default.
    enable_overload_retargeting: bool,
    /// How hard zlib compresses, from 0 to 9; -1, the default, leaves it to zlib.
    zlib_compression_level: i32,
}

/// The library that wraps this driver, for the server's logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// What it runs on.
    pub platform: Option<String>,
}

impl DriverInfo {
    /// A library called `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Begins to build a [`DriverInfo`].
    pub fn builder() -> DriverInfoBuilder {
        DriverInfoBuilder::default()
    }
}

/// Builds [`DriverInfo`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct DriverInfoBuilder(DriverInfo);

impl DriverInfoBuilder {
    /// Its name.
    pub fn name(mut self, value: impl Into<String>) -> Self {
        self.0.name = value.into();
        self
    }

    /// Its version.
    pub fn version(mut self, value: impl Into<Option<String>>) -> Self {
        self.0.version = value.into();
        self
    }

    /// What it runs on.
    pub fn platform(mut self, value: impl Into<Option<String>>) -> Self {
        self.0.platform = value.into();
        self
    }

    /// The library as described.
    pub fn build(self) -> DriverInfo {
        self.0
    }
}

impl ClientOptions {
    /// Reads a connection string. For `mongodb+srv` this asks DNS.
    pub fn parse(uri: impl AsRef<str>) -> ParseClientOptions {
        ParseClientOptions::new(uri.as_ref())
    }

    /// Begins to build options.
    pub fn builder() -> ClientOptionsBuilder {
        ClientOptionsBuilder::default()
    }
}
