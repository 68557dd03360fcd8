//! The client: the application's hold on a deployment.

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

/// A client of a MongoDB deployment.
///
/// It finds the deployment's servers, keeps watch over them, and holds a pool of connections to
/// each. Make one for the whole application and clone it: clones share everything. When the last
/// one is dropped the connections are closed; [`shutdown`](Client::shutdown) does so in good order.
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
    /// A client of the deployment that a connection string names.
    ///
    /// Returns at once: servers are looked for in the background, and the first operation waits for
    /// one. Only `mongodb+srv` is resolved before.
    pub async fn with_uri_str(uri: impl AsRef<str>) -> Result<Self> {
        Self::with_options(ClientOptions::parse(uri.as_ref()).await?)
    }

    /// A client with these options. To be called within a tokio runtime, which then runs the
    /// client's background work.
    pub fn with_options(options: ClientOptions) -> Result<Self> {
        Self::with_jitter(options, random_unit)
    }

    /// The same, with a die of the caller's own.
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

    /// Which servers reads go to, unless something nearer says otherwise.
    pub fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.executor.options().selection_criteria.as_ref()
    }

    /// What reads may see, unless something nearer says otherwise.
    pub fn read_concern(&self) -> Option<&ReadConcern> {
        self.executor.options().read_concern.as_ref()
    }

    /// How durable writes must be, unless something nearer says otherwise.
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.executor.options().write_concern.as_ref()
    }

    /// How long a call may take in all, unless something nearer says otherwise.
    pub fn timeout(&self) -> Option<Duration> {
        self.executor.options().timeout
    }

    /// Executes the commands of the client and of everything that is made from it.
    pub(crate) fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Returns `true` if both are clones of one client.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.executor.is_same_as(&other.executor)
    }

    /// What was counted so far.
    pub fn metrics(&self) -> ClientMetrics {
        self.executor.metrics()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(self.executor.topology()).finish()
    }
}
