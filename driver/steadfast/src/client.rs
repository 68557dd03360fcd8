//! The client of a deployment.

mod metadata;
mod open;
mod shutdown;
mod warm;

use std::{fmt, time::Duration};

use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

pub use self::{shutdown::Shutdown, warm::WarmConnectionPool};
pub use crate::exec::ClientMetrics;
use crate::{error::Result, exec::Executor, options::ClientOptions, random::random_unit};

/// Client of a MongoDB deployment.
/// See the [connection string](https://www.mongodb.com/docs/manual/reference/connection-string/).
///
/// It discovers and monitors the servers and holds a connection pool for each. Create one client
/// per application and clone it: clones share all state. Connections are closed when the last clone
/// is dropped; [`shutdown`](Client::shutdown) also waits for operations in progress.
///
/// ```no_run
/// # async fn run() -> steadfast::error::Result<()> {
/// use steadfast::{Client, bson::{Document, doc}};
///
/// let client = Client::with_uri_str("mongodb://localhost:27017").await?;
/// let books = client.database("library").collection::<Document>("books");
/// books.insert_one(doc! { "title": "1984" }).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client {
    executor: Executor,
}

impl Client {
    /// Creates a client from a
    /// [connection string](https://www.mongodb.com/docs/manual/reference/connection-string/).
    ///
    /// Servers are discovered in the background; the first operation waits for a suitable one. Only
    /// the DNS records of `mongodb+srv` are resolved before the method returns.
    ///
    /// ```no_run
    /// # async fn run() -> steadfast::error::Result<()> {
    /// use steadfast::Client;
    ///
    /// let client = Client::with_uri_str("mongodb://db1,db2/?replicaSet=rs0").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) if the connection
    ///   string is invalid, or outside of a tokio runtime.
    /// - [`ErrorKind::DnsResolve`](crate::error::ErrorKind::DnsResolve) if the DNS records cannot
    ///   be resolved.
    /// - [`ErrorKind::InvalidTlsConfig`](crate::error::ErrorKind::InvalidTlsConfig) if a
    ///   certificate or key cannot be read.
    pub async fn with_uri_str(uri: impl AsRef<str>) -> Result<Self> {
        Self::with_options(ClientOptions::parse(uri.as_ref()).await?)
    }

    /// Creates a client from options. The current tokio runtime runs its background tasks.
    ///
    /// ```no_run
    /// # async fn run() -> steadfast::error::Result<()> {
    /// use steadfast::{Client, options::{ClientOptions, ServerAddress}};
    ///
    /// let options = ClientOptions::builder().hosts(vec![ServerAddress::parse("db1:27017")?]).build();
    /// let client = Client::with_options(options)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) if options
    ///   contradict each other, or outside of a tokio runtime.
    /// - [`ErrorKind::InvalidTlsConfig`](crate::error::ErrorKind::InvalidTlsConfig) if a
    ///   certificate or key cannot be read.
    pub fn with_options(options: ClientOptions) -> Result<Self> {
        Self::with_jitter(options, random_unit)
    }

    /// Creates a client with a given source of jitter, for tests.
    pub(crate) fn with_jitter(options: ClientOptions, jitter: fn() -> f64) -> Result<Self> {
        let topology = open::topology(&options)?;
        Ok(Self { executor: Executor::new(topology, options, jitter) })
    }

    /// Returns the options that the client was created with, credential included.
    ///
    /// ```no_run
    /// # fn run(client: &steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::Client;
    ///
    /// // The same deployment with the same credential, and other read preferences by default.
    /// let mut options = client.options().clone();
    /// options.selection_criteria = None;
    /// let other = Client::with_options(options)?;
    /// # Ok(()) }
    /// ```
    pub fn options(&self) -> &ClientOptions {
        self.executor.options()
    }

    /// Returns the default read preference, or predicate that selects servers.
    pub fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.executor.options().selection_criteria.as_ref()
    }

    /// Returns the default read concern.
    pub fn read_concern(&self) -> Option<&ReadConcern> {
        self.executor.options().read_concern.as_ref()
    }

    /// Returns the default write concern.
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.executor.options().write_concern.as_ref()
    }

    /// Returns the default time-out of a whole call (`timeoutMS`).
    pub fn timeout(&self) -> Option<Duration> {
        self.executor.options().timeout
    }

    /// Returns the executor of the commands of this client and its clones.
    pub(crate) fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Returns `true` if both are clones of one client.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.executor.is_same_as(&other.executor)
    }

    /// Returns the numbers of retries, overload errors and time-outs since the client was created.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) {
    /// println!("{} retries", client.metrics().retries);
    /// # }
    /// ```
    pub fn metrics(&self) -> ClientMetrics {
        self.executor.metrics()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(self.executor.topology()).finish()
    }
}
