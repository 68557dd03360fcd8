//! Connection pool of a server.
//!
//! The rules are in [`steadfast_core::pool`]. This module adds a lock, the tasks that establish
//! connections, and the wake-up of waiting operations. An operation takes an idle connection under
//! the lock, without a task, channel or timer.

mod pooled;
mod wait;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak},
    time::{Duration, Instant},
};

use bson::oid::ObjectId;
use steadfast_core::{
    address::ServerAddress,
    event::cmap::{CmapEvent, ConnectionClosedReason, ConnectionPoolOptions},
    hello::HelloReply,
    pool::{
        self as core, CheckOutError, CheckOutResult, ClearRequest, ConnectionId, Generation,
        WaiterId,
    },
};
use tokio::{
    sync::{Notify, oneshot},
    task::AbortHandle,
};

pub(crate) use self::pooled::{PinnedBy, PooledConnection};
use self::{pooled::PinnedCounts, wait::Wait};
use crate::{
    connection::{Connection, EstablishError, Establisher, Interrupt},
    error::{Error, ErrorKind, NetworkFailure, Result},
    event::{Outbox, lock},
};

/// Interval of maintenance.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(10);
/// Minimum interval of maintenance, for pools with a short `maxIdleTimeMS`.
const MIN_MAINTENANCE_INTERVAL: Duration = Duration::from_millis(100);

type CheckOutAnswer = std::result::Result<PooledConnection, CheckOutError<Error>>;
type Effect = core::PoolEffect<Box<Connection>, Error>;

/// Observer of a pool: the topology, which the pool does not depend on.
pub(crate) trait PoolObserver: Send + Sync {
    /// Returns `true` if the topology was closed or dropped.
    fn is_closed(&self) -> bool;

    /// Reports that a connection could not be established. `service_id` is that of the service
    /// behind a load balancer, once the reply to `hello` was received.
    fn connect_failed(
        &self,
        address: &ServerAddress,
        failure: &EstablishError,
        generation: Generation,
        service_id: Option<ObjectId>,
    );

    /// Reports a network error or error reply of an operation. Must be called before the connection
    /// is checked in.
    fn operation_failed(&self, connection: &Connection, generation: Generation, error: &Error);
}

/// Connection pool of a server.
pub(crate) struct Pool {
    pub(crate) address: ServerAddress,
    state: Mutex<PoolShared>,
    events: Arc<Outbox<CmapEvent>>,
    establisher: Arc<Establisher>,
    observer: Box<dyn PoolObserver>,
    wait_queue_timeout: Option<Duration>,
    /// `maxPoolSize`, for error messages.
    max_size: u32,
    load_balanced: bool,
    pinned: PinnedCounts,
    maintenance_interval: Duration,
    maintenance: Notify,
    /// Notified when a connection was established or failed to be.
    established: Notify,
    weak_self: Weak<Pool>,
}

struct PoolShared {
    /// Boxed, because each operation moves the connection.
    pool: core::Pool<Box<Connection>, Error>,
    waiters: BTreeMap<WaiterId, oneshot::Sender<CheckOutAnswer>>,
    establishing: BTreeMap<ConnectionId, AbortHandle>,
    interrupts: BTreeMap<ConnectionId, Arc<Interrupt>>,
    /// Number of failed connection attempts.
    failures: u64,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({}, {:?})", self.address, self.counts())
    }
}

impl Pool {
    /// Creates a pool, which is paused until the first successful heartbeat of its server.
    pub(crate) fn new(
        address: ServerAddress,
        options: &ConnectionPoolOptions,
        load_balanced: bool,
        establisher: Arc<Establisher>,
        observer: Box<dyn PoolObserver>,
        events: Arc<Outbox<CmapEvent>>,
    ) -> (Arc<Self>, DeferredEffects) {
        let listening = events.is_enabled();
        let mut effects = Vec::new();
        let pool =
            core::Pool::new(address.clone(), options, load_balanced, listening, &mut effects);
        let state = PoolShared {
            pool,
            waiters: BTreeMap::new(),
            establishing: BTreeMap::new(),
            interrupts: BTreeMap::new(),
            failures: 0,
        };
        let pool = Arc::new_cyclic(|weak_self| Self {
            address,
            state: Mutex::new(state),
            events,
            establisher,
            observer,
            wait_queue_timeout: options.wait_queue_timeout.filter(|time| !time.is_zero()),
            max_size: options.max_pool_size.unwrap_or(core::DEFAULT_MAX_POOL_SIZE),
            load_balanced,
            pinned: PinnedCounts::default(),
            maintenance_interval: maintenance_interval(options),
            maintenance: Notify::new(),
            established: Notify::new(),
            weak_self: weak_self.clone(),
        });
        let ((), deferred) = pool.change_deferred(|_, done| done.append(&mut effects));
        pool.establisher.spawn(maintain(Arc::clone(&pool)));
        (pool, deferred)
    }

    /// Checks out a connection: the most recently used idle one, or the next that becomes
    /// available.
    ///
    /// `until` replaces `waitQueueTimeoutMS`. Dropping the future leaves the wait queue.
    pub(crate) async fn check_out(
        self: &Arc<Self>,
        until: Option<Instant>,
    ) -> Result<PooledConnection> {
        let mut discards_left = None;
        loop {
            let connection = self.check_out_any(until).await?;
            if connection.is_healthy() {
                return Ok(connection);
            }
            // The server closed the idle connection. Nothing was sent, so the next connection or a
            // new one is used. The number of discards is limited, because a server may close new
            // connections, too.
            let left = discards_left.get_or_insert_with(|| self.counts().total);
            if *left == 0 {
                return Err(self.report_closed(connection));
            }
            *left -= 1;
            connection.discard(ConnectionClosedReason::Error, None);
        }
    }

    /// Reports a new connection that the server closed, or on which it sent bytes, before any
    /// request.
    fn report_closed(&self, connection: PooledConnection) -> Error {
        let text = "the server closed the connection, or sent an unexpected message, right after the handshake";
        let error = Error::network(NetworkFailure::ClosedByClient, text).with_server(&self.address);
        self.observer.operation_failed(&connection, connection.generation(), &error);
        connection.discard(ConnectionClosedReason::Error, Some(&error));
        error
    }

    async fn check_out_any(self: &Arc<Self>, until: Option<Instant>) -> Result<PooledConnection> {
        let answer =
            self.change(|state, effects| match state.pool.check_out(Instant::now(), effects) {
                CheckOutResult::Ready(conn) => Ok(Ok(conn)),
                CheckOutResult::Failed(error) => Ok(Err(error)),
                CheckOutResult::Wait(waiter) => {
                    let (sender, receiver) = oneshot::channel();
                    state.waiters.insert(waiter, sender);
                    Err((waiter, receiver))
                }
            });
        let wait = match answer {
            Ok(Ok(conn)) => return Ok(PooledConnection::new(conn, Arc::clone(self))),
            Ok(Err(error)) => return Err(self.check_out_error(error)),
            Err((waiter, receiver)) => Wait::new(self, waiter, receiver),
        };
        wait.connection(until).await
    }

    fn check_out_error(&self, error: CheckOutError<Error>) -> Error {
        match error {
            CheckOutError::Connect(error) => error,
            CheckOutError::Closed if self.observer.is_closed() => Error::new(ErrorKind::Shutdown),
            CheckOutError::Closed => Error::new(ErrorKind::ConnectionPoolCleared {
                message: format!("the server {} was removed from the topology", self.address),
            })
            .with_server(&self.address),
            CheckOutError::Cleared { cause } => Error::new(ErrorKind::ConnectionPoolCleared {
                message: match cause {
                    Some(cause) => format!(
                        "the connection pool of {} was cleared after another error: {cause}",
                        self.address
                    ),
                    None => format!(
                        "the connection pool of {} is paused until a heartbeat succeeds",
                        self.address
                    ),
                },
            })
            .with_server(&self.address),
            other => Error::new(ErrorKind::Internal { message: other.to_string() }),
        }
    }

    /// Marks the pool as ready.
    pub(crate) fn ready(&self) -> DeferredEffects {
        self.change_deferred(|state, effects| state.pool.ready(Instant::now(), effects)).1
    }

    /// Establishes connections for operations that wait for a server.
    pub(crate) fn preconnect(&self, operations: usize) -> DeferredEffects {
        self.change_deferred(|state, effects| {
            state.pool.preconnect(operations, Instant::now(), effects);
        })
        .1
    }

    /// Clears the pool: increments the generation.
    pub(crate) fn clear(&self, clear: ClearRequest<Error>) -> DeferredEffects {
        let cleared =
            self.change_deferred(|state, effects| state.pool.clear(clear, Instant::now(), effects));
        // Wakes [`wait_until_filled`](Self::wait_until_filled): pending connections may have been aborted.
        self.established.notify_waiters();
        cleared.1
    }

    /// Closes the pool and all connections.
    pub(crate) fn close(&self) -> DeferredEffects {
        self.maintenance.notify_one();
        let closed =
            self.change_deferred(|state, effects| state.pool.close(Instant::now(), effects));
        self.established.notify_waiters();
        closed.1
    }

    /// Waits until `wanted` connections are established, or one fails. (A failure does not always
    /// clear the pool: the server may be overloaded.)
    pub(crate) async fn wait_until_filled(&self, wanted: usize) {
        let failures_before = lock(&self.state).failures;
        loop {
            let established = self.established.notified();
            {
                let state = lock(&self.state);
                let counts = state.pool.counts();
                let reachable = state.pool.state() == core::PoolState::Ready
                    && state.failures == failures_before;
                if !reachable || counts.total - counts.pending >= wanted {
                    return;
                }
            }
            established.await;
        }
    }

    /// Returns the number of connections in each state.
    pub(crate) fn counts(&self) -> core::PoolCounts {
        lock(&self.state).pool.counts()
    }

    /// Changes the state and performs all effects.
    fn change<R>(&self, change: impl FnOnce(&mut PoolShared, &mut Vec<Effect>) -> R) -> R {
        let (result, deferred) = self.change_deferred(change);
        deferred.run();
        result
    }

    /// Changes the state and performs the effects that require the lock. Returns the others, for
    /// callers that hold a lock themselves.
    fn change_deferred<R>(
        &self,
        change: impl FnOnce(&mut PoolShared, &mut Vec<Effect>) -> R,
    ) -> (R, DeferredEffects) {
        let mut effects = Vec::new();
        let mut state = lock(&self.state);
        let result = change(&mut state, &mut effects);
        // Most changes have no effects and allocate nothing.
        let mut deferred = DeferredEffects::default();
        for effect in effects {
            if matches!(effect, Effect::Emit(_)) {
                deferred.events.get_or_insert_with(|| Arc::clone(&self.events));
            }
            deferred.effects.extend(self.perform_locked(&mut state, effect));
        }
        (result, deferred)
    }

    /// Performs an effect under the lock. Returns the part to perform afterwards.
    fn perform_locked(&self, state: &mut PoolShared, effect: Effect) -> Option<DeferredEffect> {
        match effect {
            Effect::Emit(event) => {
                self.events.push(event);
                None
            }
            Effect::Connect { id, generation, awaited } => {
                let pool = self.weak_self.upgrade()?;
                let task = self.establisher.spawn(pool.establish(id, generation, awaited));
                state.establishing.insert(id, task);
                None
            }
            Effect::Abort(id) => {
                state.establishing.remove(&id)?.abort();
                None
            }
            Effect::Deliver(waiter, conn) => {
                let connection = PooledConnection::new(conn, self.weak_self.upgrade()?);
                Some(DeferredEffect::Deliver(state.waiters.remove(&waiter), Ok(connection)))
            }
            Effect::Fail(waiter, error) => {
                Some(DeferredEffect::Deliver(state.waiters.remove(&waiter), Err(error)))
            }
            Effect::Close { id, payload, .. } => {
                state.interrupts.remove(&id);
                Some(DeferredEffect::Close(payload))
            }
            Effect::Interrupt(id) => {
                state.interrupts.get(&id).cloned().map(DeferredEffect::Interrupt)
            }
            Effect::WakeMaintenance => {
                self.maintenance.notify_one();
                None
            }
        }
    }

    /// Establishes a connection in its own task and adds it to the pool.
    async fn establish(self: Arc<Self>, id: ConnectionId, generation: Generation, awaited: bool) {
        let interrupt = Arc::new(Interrupt::default());
        let handshake_completed = |hello: &HelloReply| {
            self.change(|state, _| state.pool.handshake_completed(id, hello.service_id));
        };
        let outcome = self
            .establisher
            .establish(&self.address, Arc::clone(&interrupt), awaited, handshake_completed)
            .await;
        match outcome {
            Ok(mut connection) => {
                connection.id = id.number();
                let service_id = connection.hello.service_id;
                self.change(|state, effects| {
                    state.establishing.remove(&id);
                    state.interrupts.insert(id, interrupt);
                    state.pool.connected(
                        id,
                        Box::new(connection),
                        service_id,
                        Instant::now(),
                        effects,
                    );
                });
            }
            Err(failure) => {
                // First the topology, then the waiting operations: a retry must find the server
                // marked as unknown.
                let failing = self.change(|state, _| {
                    state.establishing.remove(&id);
                    state.failures += 1;
                    state.pool.connect_failing(id)
                });
                let (generation, service_id) = failing.unwrap_or((generation, None));
                self.observer.connect_failed(&self.address, &failure, generation, service_id);
                self.change(|state, effects| {
                    state.pool.connect_failed(id, failure.error, Instant::now(), effects);
                });
            }
        }
        self.established.notify_waiters();
    }
}

/// Effects to perform after all locks are released.
#[derive(Default)]
#[must_use = "operations may wait for these effects"]
pub(crate) struct DeferredEffects {
    events: Option<Arc<Outbox<CmapEvent>>>,
    effects: Vec<DeferredEffect>,
}

impl DeferredEffects {
    /// Delivers the events, wakes waiting operations and closes connections.
    pub(crate) fn run(self) {
        if let Some(events) = self.events {
            events.deliver();
        }
        for effect in self.effects {
            effect.run();
        }
    }
}

enum DeferredEffect {
    /// Result for a waiting operation. If its future was dropped, so is the connection, which is
    /// then checked in.
    Deliver(Option<oneshot::Sender<CheckOutAnswer>>, CheckOutAnswer),
    Close(Box<Connection>),
    Interrupt(Arc<Interrupt>),
}

impl DeferredEffect {
    fn run(self) {
        match self {
            Self::Deliver(Some(sender), answer) => drop(sender.send(answer)),
            Self::Deliver(None, answer) => drop(answer),
            Self::Close(connection) => drop(connection),
            Self::Interrupt(interrupt) => interrupt.trip(),
        }
    }
}

/// Returns the interval of maintenance: at most `maxIdleTimeMS`, within bounds.
fn maintenance_interval(options: &ConnectionPoolOptions) -> Duration {
    let max_idle_time = options.max_idle_time.filter(|time| !time.is_zero());
    max_idle_time
        .unwrap_or(MAINTENANCE_INTERVAL)
        .clamp(MIN_MAINTENANCE_INTERVAL, MAINTENANCE_INTERVAL)
}

/// Closes idle and stale connections and maintains `minPoolSize`.
async fn maintain(pool: Arc<Pool>) {
    loop {
        let due = {
            let state = lock(&pool.state);
            if state.pool.state() == core::PoolState::Closed {
                return;
            }
            state.pool.next_idle_expiry()
        };
        let pause = due
            .map_or(Duration::MAX, |due| due.saturating_duration_since(Instant::now()))
            .min(pool.maintenance_interval);
        drop(tokio::time::timeout(pause, pool.maintenance.notified()).await);
        pool.change(|state, effects| state.pool.maintain(Instant::now(), effects));
    }
}
