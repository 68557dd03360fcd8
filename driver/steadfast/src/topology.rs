//! Topology of the deployment, its servers, and server selection.
//!
//! The rules are in [`steadfast_core::sdam`] and [`steadfast_core::selection`]. Monitors and failed
//! operations apply their inputs under one lock and perform the effects in order, without a task.

mod monitor;
mod select;
mod server;
#[cfg(feature = "dns")]
mod srv;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bson::oid::ObjectId;
use steadfast_core::{
    address::ServerAddress,
    description::TopologyDescription,
    event::cmap::{CmapEvent, ConnectionPoolOptions},
    monitor::MonitorSettings,
    pool::{ClearRequest, Generation},
    sdam::{
        self, ApplicationError, ApplicationErrorKind, CommandFailure, ConnectionPhase,
        TopologyEffect, TopologyInput, TopologySettings,
    },
    selection,
};
use tokio::sync::watch;

use self::monitor::Monitor;
pub(crate) use self::{select::SelectedServer, server::Server};
use crate::{
    connection::{Connection, EstablishError, Establisher},
    error::{Error, ErrorKind, SYSTEM_OVERLOADED_ERROR},
    event::{Outbox, lock, sdam::SdamEvent},
    pool::PoolObserver,
    pool::{DeferredEffects, Pool},
};

/// Arguments of [`Topology::open`].
pub(crate) struct TopologyConfig {
    /// Id of the topology in its events.
    pub(crate) id: ObjectId,
    pub(crate) settings: TopologySettings,
    pub(crate) selection: selection::SelectionSettings,
    pub(crate) selection_timeout: Duration,
    pub(crate) pool: ConnectionPoolOptions,
    pub(crate) monitor: MonitorSettings,
    pub(crate) establisher: Arc<Establisher>,
    pub(crate) sdam_events: Outbox<SdamEvent>,
    pub(crate) cmap_events: Outbox<CmapEvent>,
}

/// Topology of a client. Dropping the last reference closes it.
pub(crate) struct Topology {
    id: ObjectId,
    state: Mutex<TopologyState>,
    view: watch::Sender<Arc<TopologyView>>,
    closed: AtomicBool,
    selection: selection::SelectionSettings,
    selection_timeout: Duration,
    pool_options: ConnectionPoolOptions,
    monitor_settings: MonitorSettings,
    establisher: Arc<Establisher>,
    events: Outbox<SdamEvent>,
    cmap_events: Arc<Outbox<CmapEvent>>,
    weak_self: WeakTopology,
}

struct TopologyState {
    topology: sdam::Topology,
    servers: BTreeMap<ServerAddress, Arc<Server>>,
}

/// Snapshot for server selection: a description, and the servers in it.
#[derive(Debug, Default)]
pub(crate) struct TopologyView {
    pub(crate) description: Arc<TopologyDescription>,
    servers: BTreeMap<ServerAddress, Arc<Server>>,
}

impl Topology {
    /// Opens the topology: creates the pools and starts the monitors.
    pub(crate) fn open(parts: TopologyConfig) -> Arc<Self> {
        let (topology, effects) = sdam::Topology::new(parts.settings, Instant::now());
        let this = Arc::new_cyclic(|weak_self| Self {
            id: parts.id,
            state: Mutex::new(TopologyState { topology, servers: BTreeMap::new() }),
            view: watch::Sender::new(Arc::default()),
            closed: AtomicBool::new(false),
            selection: parts.selection,
            selection_timeout: parts.selection_timeout,
            pool_options: parts.pool,
            monitor_settings: parts.monitor,
            establisher: parts.establisher,
            events: parts.sdam_events,
            cmap_events: Arc::new(parts.cmap_events),
            weak_self: WeakTopology(weak_self.clone()),
        });
        this.change(None, |_| effects);
        this
    }

    /// Returns the id of the topology in its events.
    pub(crate) fn id(&self) -> ObjectId {
        self.id
    }

    /// Returns the establisher of connections.
    pub(crate) fn establisher(&self) -> &Arc<Establisher> {
        &self.establisher
    }

    /// Returns the current view.
    pub(crate) fn view(&self) -> Arc<TopologyView> {
        Arc::clone(&self.view.borrow())
    }

    /// Returns all servers.
    pub(crate) fn servers(&self) -> Vec<Arc<Server>> {
        self.view().servers.values().cloned().collect()
    }

    /// Returns `true` if the topology was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Closes all pools and stops all monitors.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.apply(TopologyInput::Close, None);
        // Wakes server selections, which fail then.
        self.view.send_modify(|_| {});
    }

    /// Applies an input. `cause` is the error that is reported to operations whose pool is cleared.
    pub(crate) fn apply(&self, input: TopologyInput, cause: Option<&Error>) {
        self.change(cause, |state| state.topology.apply(input, Instant::now()));
    }

    fn change(
        &self,
        cause: Option<&Error>,
        change: impl FnOnce(&mut TopologyState) -> Vec<TopologyEffect>,
    ) {
        let mut state = lock(&self.state);
        let effects = change(&mut state);
        let mut deferred = Vec::new();
        for effect in effects {
            deferred.extend(self.perform(&mut state, effect, cause));
        }
        drop(state);
        self.events.deliver();
        for effects in deferred {
            effects.run();
        }
    }

    /// Performs an effect under the lock. Returns the part to perform afterwards.
    fn perform(
        &self,
        state: &mut TopologyState,
        effect: TopologyEffect,
        cause: Option<&Error>,
    ) -> Option<DeferredEffects> {
        match effect {
            TopologyEffect::Emit(event) => {
                self.events.push(event.into());
                None
            }
            TopologyEffect::AddServer(address) => {
                let monitored = state.topology.is_monitored();
                let (server, effects) = self.add_server(&address, monitored);
                state.servers.insert(address, server);
                Some(effects)
            }
            TopologyEffect::RemoveServer(address) => {
                let server = state.servers.remove(&address)?;
                server.stop_monitor();
                Some(server.pool.close())
            }
            TopologyEffect::ReadyPool(address) => Some(state.servers.get(&address)?.pool.ready()),
            TopologyEffect::Preconnect(address) => {
                // Each operation in server selection is a receiver.
                let waiting = self.view.receiver_count();
                Some(state.servers.get(&address)?.pool.preconnect(waiting))
            }
            TopologyEffect::ClearPool { address, service_id, interrupt_in_use, generation } => {
                Some(state.servers.get(&address)?.pool.clear(ClearRequest {
                    service_id,
                    generation: Some(generation),
                    interrupt_in_use,
                    cause: cause.cloned(),
                }))
            }
            TopologyEffect::CheckNow(address) => {
                state.servers.get(&address)?.check_now();
                None
            }
            TopologyEffect::CancelCheck(address) => {
                state.servers.get(&address)?.cancel_check();
                None
            }
            TopologyEffect::Publish(description) => {
                let servers = state.servers.clone();
                self.view.send_replace(Arc::new(TopologyView { description, servers }));
                None
            }
            other => {
                debug_assert!(false, "unknown topology effect: {other:?}");
                None
            }
        }
    }

    fn add_server(
        &self,
        address: &ServerAddress,
        monitored: bool,
    ) -> (Arc<Server>, DeferredEffects) {
        let (pool, effects) = Pool::new(
            address.clone(),
            &self.pool_options,
            !monitored,
            Arc::clone(&self.establisher),
            Box::new(self.weak_self.clone()),
            Arc::clone(&self.cmap_events),
        );
        let monitor = monitored.then(|| {
            Monitor::start(
                address.clone(),
                self.monitor_settings,
                Arc::clone(&self.establisher),
                self.weak_self.clone(),
            )
        });
        (Arc::new(Server::new(address.clone(), pool, monitor)), effects)
    }

    /// Emits an event without a change of state.
    fn announce(&self, event: SdamEvent) {
        self.events.push(event);
        self.events.deliver();
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Topology").field(&self.view.borrow().description.topology_type).finish()
    }
}

/// Weak reference of pools and monitors, which does not keep the topology open.
#[derive(Clone)]
pub(crate) struct WeakTopology(Weak<Topology>);

impl WeakTopology {
    fn apply(&self, input: TopologyInput, cause: Option<&Error>) {
        if let Some(topology) = self.0.upgrade() {
            topology.apply(input, cause);
        }
    }

    fn announce(&self, event: impl FnOnce() -> SdamEvent) {
        if let Some(topology) = self.0.upgrade()
            && topology.events.is_enabled()
        {
            topology.announce(event());
        }
    }
}

impl PoolObserver for WeakTopology {
    /// Returns `true` if the topology was closed or dropped.
    fn is_closed(&self) -> bool {
        self.0.upgrade().is_none_or(|topology| topology.is_closed())
    }

    /// Processes a failed connection attempt.
    fn connect_failed(
        &self,
        address: &ServerAddress,
        failure: &EstablishError,
        generation: Generation,
        service_id: Option<ObjectId>,
    ) {
        let error = ApplicationError {
            phase: failure.phase,
            cause: error_cause(&failure.error),
            message: failure.error.to_string(),
            generation,
            service_id,
            overloaded: failure.error.contains_label(SYSTEM_OVERLOADED_ERROR),
        };
        let input = TopologyInput::OperationError { address: address.clone(), error };
        self.apply(input, Some(&failure.error));
    }

    fn operation_failed(&self, connection: &Connection, generation: Generation, error: &Error) {
        if let Some(topology) = self.0.upgrade() {
            topology.operation_failed(connection, generation, error);
        }
    }
}

impl Topology {
    /// Processes a network error or error reply of an operation. Must be called before the
    /// connection is checked in.
    pub(crate) fn operation_failed(
        &self,
        connection: &Connection,
        generation: Generation,
        error: &Error,
    ) {
        let cause = error_cause(error);
        if cause != ApplicationErrorKind::Other {
            self.report_operation_error(connection, generation, cause, error);
        }
    }

    /// Processes a write concern error that reports a state change of the server.
    pub(crate) fn write_concern_failed(
        &self,
        connection: &Connection,
        generation: Generation,
        failure: CommandFailure,
    ) {
        let message = failure.message.clone();
        let error = Error::new(ErrorKind::ConnectionPoolCleared { message });
        self.report_operation_error(
            connection,
            generation,
            ApplicationErrorKind::Command(failure),
            &error,
        );
    }

    fn report_operation_error(
        &self,
        connection: &Connection,
        generation: Generation,
        cause: ApplicationErrorKind,
        error: &Error,
    ) {
        let failure = ApplicationError {
            phase: ConnectionPhase::Established,
            cause,
            message: error.to_string(),
            generation,
            service_id: connection.hello.service_id,
            overloaded: error.contains_label(SYSTEM_OVERLOADED_ERROR),
        };
        let input =
            TopologyInput::OperationError { address: connection.address.clone(), error: failure };
        self.apply(input, Some(error));
    }
}

impl fmt::Debug for WeakTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakTopology")
    }
}

/// Classifies an error for the topology.
fn error_cause(error: &Error) -> ApplicationErrorKind {
    match &*error.kind {
        ErrorKind::Io(_) if error.is_network_timeout() => ApplicationErrorKind::NetworkTimeout,
        ErrorKind::Io(_) => ApplicationErrorKind::Network,
        ErrorKind::Command(command_error) => ApplicationErrorKind::Command(CommandFailure {
            code: Some(command_error.code).filter(|&code| code != 0),
            message: command_error.message.clone(),
            topology_version: command_error.topology_version,
        }),
        _ => ApplicationErrorKind::Other,
    }
}
