//! The client: the application's hold on a deployment.

mod activity;
mod metadata;
mod metrics;
mod open;
mod shutdown;
mod warm;

use std::{fmt, sync::Arc, time::Duration};

use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    retry::{Budget, RetrySettings},
    selection::SelectionCriteria,
    server_api::ServerApi,
};

use self::activity::{Active, Activity, OwnedActive};
pub(crate) use self::metrics::Counters;
pub use self::{metrics::ClientMetrics, shutdown::Shutdown, warm::WarmConnectionPool};
use crate::{
    Database,
    error::{Error, ErrorKind, Result},
    event::{command::CommandEvent, retry::RetryEvent},
    options::{ClientOptions, DatabaseOptions},
    random::random_unit,
    session::Sessions,
    topology::Topology,
    trace,
};

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
    inner: Arc<Inner>,
}

struct Inner {
    topology: Arc<Topology>,
    options: ClientOptions,
    activity: Activity,
    sessions: Arc<Sessions>,
    /// What retries after overload errors are paid from.
    retry_budget: Arc<Budget>,
    counters: Counters,
    /// By how much of its length a wait is really waited.
    jitter: fn() -> f64,
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
        let inner = Inner {
            topology,
            options,
            activity: Activity::default(),
            sessions: Arc::default(),
            retry_budget: Arc::default(),
            counters: Counters::default(),
            jitter,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The database `name`, with the client's defaults.
    pub fn database(&self, name: &str) -> Database {
        self.database_with_options(name, DatabaseOptions::default())
    }

    /// The database `name` with defaults of its own; what is not set is as in the client.
    pub fn database_with_options(&self, name: &str, options: DatabaseOptions) -> Database {
        let ours = &self.inner.options;
        let options = DatabaseOptions {
            selection_criteria: options
                .selection_criteria
                .or_else(|| ours.selection_criteria.clone()),
            read_concern: options.read_concern.or_else(|| ours.read_concern.clone()),
            write_concern: options.write_concern.or_else(|| ours.write_concern.clone()),
            timeout: options.timeout.or(ours.timeout),
        };
        Database::new(self.clone(), name, options)
    }

    /// The database that the connection string names, if it does.
    pub fn default_database(&self) -> Option<Database> {
        self.inner.options.default_database.as_deref().map(|name| self.database(name))
    }

    /// Which servers reads go to, unless something nearer says otherwise.
    pub fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.inner.options.selection_criteria.as_ref()
    }

    /// What reads may see, unless something nearer says otherwise.
    pub fn read_concern(&self) -> Option<&ReadConcern> {
        self.inner.options.read_concern.as_ref()
    }

    /// How durable writes must be, unless something nearer says otherwise.
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.inner.options.write_concern.as_ref()
    }

    /// How long a call may take in all, unless something nearer says otherwise.
    pub fn timeout(&self) -> Option<Duration> {
        self.inner.options.timeout
    }

    pub(crate) fn topology(&self) -> &Arc<Topology> {
        &self.inner.topology
    }

    /// Whether reads and writes may be tried again.
    pub(crate) fn retry_settings(&self) -> RetrySettings {
        let options = &self.inner.options;
        RetrySettings {
            retry_writes: options.retry_writes.unwrap_or(true),
            retry_reads: options.retry_reads.unwrap_or(true),
            max_adaptive_retries: options.max_adaptive_retries,
            overload_retargeting: options.enable_overload_retargeting,
            server_selection_timeout: self.topology().selection_timeout(),
        }
    }

    /// What retries after overload errors are paid from.
    pub(crate) fn retry_budget(&self) -> &Arc<Budget> {
        &self.inner.retry_budget
    }

    pub(crate) fn jitter(&self) -> fn() -> f64 {
        self.inner.jitter
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    /// The client's sessions.
    pub(crate) fn sessions(&self) -> &Arc<Sessions> {
        &self.inner.sessions
    }

    /// How long the deployment remembers an unused session, as far as that is known.
    pub(crate) fn session_lifetime(&self) -> Option<Duration> {
        self.topology().view().description.logical_session_timeout
    }

    /// Whether both are clones of one client.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The options that the client was made with.
    pub(crate) fn options(&self) -> &ClientOptions {
        &self.inner.options
    }

    pub(crate) fn server_api(&self) -> Option<&ServerApi> {
        self.inner.options.server_api.as_ref()
    }

    pub(crate) fn is_load_balanced(&self) -> bool {
        self.inner.options.load_balanced == Some(true)
    }

    /// Counts an operation, so that a shutdown can wait for it.
    pub(crate) fn begin_activity(&self) -> Result<Active<'_>> {
        self.inner.activity.begin().ok_or_else(|| Error::new(ErrorKind::Shutdown))
    }

    /// Counts what a task does, so that a shutdown waits for it. None while the client is shut down.
    pub(crate) fn begin_owned_activity(&self) -> Option<OwnedActive> {
        OwnedActive::begin(self)
    }

    /// Whether anyone hears of commands.
    pub(crate) fn watches_commands(&self) -> bool {
        self.inner.options.command_event_handler.is_some() || trace::logs_commands()
    }

    pub(crate) fn tell_of_command(&self, event: CommandEvent) {
        let max_document_bytes = self.inner.options.tracing_max_document_length_bytes;
        trace::command(&event, self.topology().id(), max_document_bytes);
        if let Some(handler) = &self.inner.options.command_event_handler {
            handler.handle(event);
        }
    }

    /// Tells of what becomes of a command that failed, which is put into words only if anyone listens.
    pub(crate) fn tell_of_retry(&self, event: impl FnOnce() -> RetryEvent) {
        if let Some(handler) = &self.inner.options.retry_event_handler {
            handler.handle(event());
        }
    }

    /// Runs a task of the client's own in the background.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.topology().establisher().spawn(task);
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.inner.topology).finish()
    }
}
