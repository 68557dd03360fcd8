//! Execution of commands: the path from a [`Command`] to its [`Reply`].
//!
//! Only this module retries commands. [`steadfast_core::retry`] decides on retries and on the error
//! that is raised; [`execution`] is the loop that follows it.

mod abort;
mod activity;
mod attempts;
mod context;
mod event_guard;
mod execution;
mod metrics;
mod operation_order;
#[cfg(test)]
mod tests;
mod transaction;
pub(crate) mod transaction_end;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use bson::RawDocument;
use steadfast_core::{
    description::{ServerDescription, TopologyDescription},
    read_preference::ReadPreference,
    retry::{RetryBudget, RetrySettings},
    selection::{self, SelectionCriteria},
    server_api::ServerApi,
};

pub use self::metrics::ClientMetrics;
use self::{
    activity::{Activity, OperationGuard, OwnedOperationGuard},
    execution::Execution,
    metrics::Counters,
    transaction::TransactionContext,
};
use crate::{
    command::{Command, Reply, Target},
    error::Result,
    error::{Error, ErrorKind},
    event::{command::CommandEvent, retry::RetryEvent},
    options::ClientOptions,
    sequence::DocumentSequenceRef,
    session::Sessions,
    topology::Topology,
    trace,
};

/// Returns the next operation id.
fn next_operation_id() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Executor of commands: selects servers, checks out connections and retries. Shared by the client,
/// its clones and everything created from them.
#[derive(Clone)]
pub(crate) struct Executor {
    inner: Arc<ExecutorInner>,
}

struct ExecutorInner {
    topology: Arc<Topology>,
    options: ClientOptions,
    activity: Activity,
    sessions: Arc<Sessions>,
    /// Token bucket of retries after overload errors.
    retry_budget: Arc<RetryBudget>,
    counters: Counters,
    /// Random factor of backoff.
    jitter: fn() -> f64,
}

impl Executor {
    pub(crate) fn new(
        topology: Arc<Topology>,
        options: ClientOptions,
        jitter: fn() -> f64,
    ) -> Self {
        let inner = ExecutorInner {
            topology,
            options,
            activity: Activity::default(),
            sessions: Arc::default(),
            retry_budget: Arc::default(),
            counters: Counters::default(),
            jitter,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the counter of operations in progress.
    pub(crate) fn activity(&self) -> &Activity {
        &self.inner.activity
    }

    pub(crate) fn topology(&self) -> &Arc<Topology> {
        &self.inner.topology
    }

    /// Returns the options `retryReads` and `retryWrites` with the limit of retries after overload
    /// errors.
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

    /// Returns the token bucket of retries after overload errors.
    pub(crate) fn retry_budget(&self) -> &Arc<RetryBudget> {
        &self.inner.retry_budget
    }

    pub(crate) fn jitter(&self) -> fn() -> f64 {
        self.inner.jitter
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    /// Returns the pool of server sessions.
    pub(crate) fn sessions(&self) -> &Arc<Sessions> {
        &self.inner.sessions
    }

    /// Returns `logicalSessionTimeoutMinutes` of the deployment, if it is known.
    pub(crate) fn session_lifetime(&self) -> Option<Duration> {
        self.topology().view().description.logical_session_timeout
    }

    /// Returns `true` if both are clones of one executor.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Returns the options of the client.
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
    pub(crate) fn begin_activity(&self) -> Result<OperationGuard<'_>> {
        self.inner.activity.begin().ok_or_else(|| Error::new(ErrorKind::Shutdown))
    }

    /// Counts a task, so that a shutdown waits for it. `None` after a shutdown.
    pub(crate) fn begin_owned_activity(&self) -> Option<OwnedOperationGuard> {
        OwnedOperationGuard::begin(self)
    }

    /// Returns `true` if a handler or log subscriber receives command events.
    pub(crate) fn monitors_commands(&self) -> bool {
        self.inner.options.command_event_handler.is_some() || trace::command_logging_enabled()
    }

    pub(crate) fn emit_command_event(&self, event: CommandEvent) {
        let max_document_bytes = self.inner.options.tracing_max_document_length_bytes;
        trace::command(&event, self.topology().id(), max_document_bytes);
        if let Some(handler) = &self.inner.options.command_event_handler {
            handler.handle(event);
        }
    }

    /// Emits a retry event, which is built only if there is a handler.
    pub(crate) fn emit_retry_event(&self, event: impl FnOnce() -> RetryEvent) {
        if let Some(handler) = &self.inner.options.retry_event_handler {
            handler.handle(event());
        }
    }

    /// Spawns a background task of the client.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.topology().establisher().spawn(task);
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Executor").field(&self.inner.topology).finish()
    }
}

impl Executor {
    /// Executes a command.
    pub(crate) fn run(
        &self,
        command: impl Into<Box<Command>>,
    ) -> impl Future<Output = Result<Reply>> + Send {
        self.run_boxed(next_operation_id(), command.into(), None)
    }

    /// Returns an operation id for several commands.
    pub(crate) fn begin_operation(&self) -> i64 {
        next_operation_id()
    }

    /// Executes a command of an operation with several commands. Its document sequence can be
    /// borrowed.
    pub(crate) fn run_in_operation<'c>(
        &'c self,
        operation_id: i64,
        command: impl Into<Box<Command>>,
        borrowed: Option<&'c DocumentSequenceRef<'c>>,
    ) -> impl Future<Output = Result<Reply>> + Send + 'c {
        self.run_boxed(operation_id, command.into(), borrowed)
    }

    async fn run_boxed(
        &self,
        operation_id: i64,
        mut command: Box<Command>,
        borrowed: Option<&DocumentSequenceRef<'_>>,
    ) -> Result<Reply> {
        let _active = self.begin_activity()?;
        match operation_order::ordered_session(self, &command) {
            // Boxed, to keep the future small for commands outside of transactions.
            Some(session) => {
                command.copy_sequence(borrowed)?;
                Box::pin(self.execute_in_order(session, operation_id, command)).await
            }
            None => {
                let transaction = TransactionContext::of(&command)?;
                Execution::new(self, operation_id, command, borrowed, transaction).run().await
            }
        }
    }

    /// Executes a command even while the client is being shut down.
    pub(crate) async fn execute(&self, operation_id: i64, command: Box<Command>) -> Result<Reply> {
        let transaction = TransactionContext::of(&command)?;
        Execution::new(self, operation_id, command, None, transaction).run().await
    }
}

/// Returns the document of a reply, which was validated when it was read.
fn raw(body: &[u8]) -> &RawDocument {
    RawDocument::from_bytes(body).expect("checked when it was read")
}

impl Target {
    /// Converts the target for server selection.
    fn for_selection(&self) -> selection::SelectionTarget<'_> {
        match self {
            Self::Write => selection::SelectionTarget::Write,
            Self::Read(criteria) => selection::SelectionTarget::Read(criteria),
            Self::WritingAggregate(criteria) => {
                selection::SelectionTarget::WritingAggregate(criteria)
            }
            Self::Cursor(pin) => selection::SelectionTarget::Server(&pin.server.address),
        }
    }

    /// Returns the `$readPreference` to send to the selected server.
    fn read_preference(
        &self,
        topology: &TopologyDescription,
        server: Option<&ServerDescription>,
    ) -> Option<&ReadPreference> {
        /// Sent if a predicate selected the server: any member may reply.
        static ANY_MEMBER: ReadPreference = ReadPreference::PrimaryPreferred { options: None };

        let preference = match self.for_selection().resolve(topology) {
            selection::SelectionTarget::Read(SelectionCriteria::ReadPreference(preference)) => {
                preference
            }
            selection::SelectionTarget::Read(_) => &ANY_MEMBER,
            _ => return None,
        };
        selection::read_preference_for(topology.topology_type, server?.server_type, preference)
    }
}
