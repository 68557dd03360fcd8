//! Simulation around one pool. Time passes only while all threads wait.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use serde_json::Value;
use steadfast_core::{
    address::ServerAddress,
    event::cmap::{CmapEvent, ConnectionClosedReason, ConnectionPoolOptions},
    pool::{
        CheckOutError, CheckOutResult, ClearRequest, ConnectionId, Pool, PoolConnection,
        PoolEffect, WaitCancellation, WaiterId,
    },
};

use super::{
    format::{Action, CmapOperation, FailPoint, PoolOptions},
    server::{HandshakeError, SimulatedServer},
};

type Error = CheckOutError<&'static str>;

/// Thread of the operations that name no thread.
const MAIN: &str = "main";
const DEFAULT_MAINTENANCE_INTERVAL: Duration = Duration::from_secs(10);
/// Default limit of `waitForThread` and `waitForEvent`.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Result of the main thread.
pub(super) enum SimulationResult {
    Finished,
    Failed { kind: &'static str, error: String },
}

pub(super) struct Simulator {
    pool: Pool<(), &'static str>,
    now: Instant,
    /// Future events by time and, at the same time, by sequence number.
    schedule: BTreeMap<(Instant, u64), SimulatedEvent>,
    scheduled: u64,
    threads: BTreeMap<String, SimulatedThread>,
    waiting: BTreeMap<WaiterId, CheckOutRequest>,
    checked_out: BTreeMap<ConnectionId, PoolConnection<()>>,
    labels: BTreeMap<String, ConnectionId>,
    events: Vec<Value>,
    wait_queue_timeout: Option<Duration>,
    maintenance_interval: Option<Duration>,
    server: SimulatedServer,
}

#[derive(Clone, Debug, PartialEq)]
enum SimulatedEvent {
    HandshakeEnds(ConnectionId, Option<HandshakeError>),
    WaitTimesOut(WaiterId),
    MaintenanceRuns,
    ThreadWakes(String),
}

#[derive(Default)]
struct SimulatedThread {
    to_do: VecDeque<Action>,
    busy: bool,
    error: Option<Error>,
}

struct CheckOutRequest {
    thread: String,
    label: Option<String>,
}

impl Simulator {
    pub(super) fn new(options: &PoolOptions, fail_point: Option<FailPoint>) -> Self {
        let mut effects = Vec::new();
        let pool =
            Pool::new(ServerAddress::default(), &pool_options(options), false, true, &mut effects);
        let interval = match options.background_thread_interval_ms {
            None => Some(DEFAULT_MAINTENANCE_INTERVAL),
            // A negative number disables maintenance.
            Some(millis) => u64::try_from(millis).ok().map(Duration::from_millis),
        };
        let mut simulator = Self {
            pool,
            now: Instant::now(),
            schedule: BTreeMap::new(),
            scheduled: 0,
            threads: BTreeMap::from([(MAIN.to_owned(), SimulatedThread::default())]),
            waiting: BTreeMap::new(),
            checked_out: BTreeMap::new(),
            labels: BTreeMap::new(),
            events: Vec::new(),
            wait_queue_timeout: pool_options(options).wait_queue_timeout,
            maintenance_interval: interval,
            server: SimulatedServer::with(fail_point, options.app_name.as_deref()),
        };
        simulator.perform(effects);
        if let Some(interval) = interval {
            simulator.schedule(interval, SimulatedEvent::MaintenanceRuns);
        }
        simulator
    }

    /// Runs the operations. Fails if the case cannot be executed.
    pub(super) fn run(
        &mut self,
        operations: Vec<CmapOperation>,
    ) -> Result<SimulationResult, String> {
        for CmapOperation { thread, action } in operations {
            match thread {
                Some(thread) => self.assign(&thread, action)?,
                None => self.run_in_main(action)?,
            }
            if let Some(error) = self.thread(MAIN)?.error.take() {
                return Ok(SimulationResult::Failed {
                    kind: error_type(&error),
                    error: error.to_string(),
                });
            }
        }
        Ok(SimulationResult::Finished)
    }

    pub(super) fn into_events(self) -> Vec<Value> {
        self.events
    }

    fn run_in_main(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Start { target } => {
                self.threads.insert(target, SimulatedThread::default());
                Ok(())
            }
            Action::WaitForThread { target } => {
                self.wait_until(WAIT_TIMEOUT, |simulator| {
                    simulator.threads.get(&target).is_some_and(|thread| !thread.busy)
                })?;
                let error = self.thread(&target)?.error.take();
                self.thread(MAIN)?.error = error;
                Ok(())
            }
            Action::WaitForEvent { event, count, timeout } => {
                let timeout = timeout.map_or(WAIT_TIMEOUT, Duration::from_millis);
                self.wait_until(timeout, |simulator| {
                    simulator.events.iter().filter(|seen| seen["type"] == event.as_str()).count()
                        >= count
                })
                .map_err(|why| format!("waiting for {count} {event}: {why}"))
            }
            action @ (Action::Wait { .. }
            | Action::CheckOut { .. }
            | Action::CheckIn { .. }
            | Action::Clear { .. }
            | Action::Ready
            | Action::Close) => {
                self.assign(MAIN, action)?;
                self.wait_until(WAIT_TIMEOUT, |simulator| {
                    simulator.threads.get(MAIN).is_some_and(|main| !main.busy)
                })
            }
        }
    }

    fn assign(&mut self, thread: &str, action: Action) -> Result<(), String> {
        self.thread(thread)?.to_do.push_back(action);
        self.run_actions(thread)
    }

    /// Runs the actions of a thread until it has to wait.
    fn run_actions(&mut self, name: &str) -> Result<(), String> {
        loop {
            let thread = self.thread(name)?;
            if thread.busy {
                return Ok(());
            }
            let Some(action) = thread.to_do.pop_front() else { return Ok(()) };
            self.run_action(name, action)?;
        }
    }

    fn run_action(&mut self, thread: &str, action: Action) -> Result<(), String> {
        let (now, mut effects) = (self.now, Vec::new());
        match action {
            Action::Wait { ms } => {
                self.thread(thread)?.busy = true;
                let wakes = SimulatedEvent::ThreadWakes(thread.to_owned());
                self.schedule(Duration::from_millis(ms), wakes);
            }
            Action::CheckOut { label } => return self.check_out(thread, label),
            Action::CheckIn { connection } => {
                let conn = self.labels.get(&connection).and_then(|id| self.checked_out.remove(id));
                let conn =
                    conn.ok_or_else(|| format!("no connection {connection} is checked out"))?;
                self.pool.check_in(conn, now, &mut effects);
            }
            Action::Clear { interrupt_in_use_connections: interrupt_in_use } => {
                let clear = ClearRequest { interrupt_in_use, ..ClearRequest::default() };
                self.pool.clear(clear, now, &mut effects);
            }
            Action::Ready => self.pool.ready(now, &mut effects),
            Action::Close => self.pool.close(now, &mut effects),
            action @ (Action::Start { .. }
            | Action::WaitForThread { .. }
            | Action::WaitForEvent { .. }) => {
                return Err(format!("only the main thread may do {action:?}"));
            }
        }
        self.perform(effects);
        Ok(())
    }

    fn check_out(&mut self, thread: &str, label: Option<String>) -> Result<(), String> {
        let mut effects = Vec::new();
        let request = CheckOutRequest { thread: thread.to_owned(), label };
        match self.pool.check_out(self.now, &mut effects) {
            CheckOutResult::Ready(conn) => self.receive(&request, conn),
            CheckOutResult::Failed(error) => self.thread(thread)?.error = Some(error),
            CheckOutResult::Wait(waiter) => {
                self.thread(thread)?.busy = true;
                self.waiting.insert(waiter, request);
                if let Some(timeout) = self.wait_queue_timeout {
                    self.schedule(timeout, SimulatedEvent::WaitTimesOut(waiter));
                }
            }
        }
        self.perform(effects);
        Ok(())
    }

    fn receive(&mut self, request: &CheckOutRequest, conn: PoolConnection<()>) {
        if let Some(label) = &request.label {
            self.labels.insert(label.clone(), conn.id());
        }
        self.checked_out.insert(conn.id(), conn);
    }

    fn wait_until(
        &mut self,
        timeout: Duration,
        reached: impl Fn(&Self) -> bool,
    ) -> Result<(), String> {
        let deadline = self.now + timeout;
        while !reached(self) {
            let Some(((time, _), event)) = self.schedule.pop_first() else {
                return Err("no event is scheduled".to_owned());
            };
            if time > deadline {
                return Err(format!("did not happen within {timeout:?}"));
            }
            self.now = time;
            self.apply(event)?;
        }
        Ok(())
    }

    fn apply(&mut self, event: SimulatedEvent) -> Result<(), String> {
        let (now, mut effects) = (self.now, Vec::new());
        match event {
            SimulatedEvent::HandshakeEnds(id, error) => {
                match error {
                    None => self.pool.connected(id, (), None, now, &mut effects),
                    Some(error) => self.handshake_failed(id, error, &mut effects),
                }
                self.perform(effects);
            }
            SimulatedEvent::WaitTimesOut(waiter) => {
                if self.pool.cancel(waiter, WaitCancellation::TimedOut, now, &mut effects) {
                    self.perform(effects);
                    self.end_check_out(waiter, Err(CheckOutError::TimedOut));
                }
            }
            SimulatedEvent::MaintenanceRuns => {
                self.pool.maintain(now, &mut effects);
                self.perform(effects);
                self.schedule.retain(|_, other| *other != SimulatedEvent::MaintenanceRuns);
                if let Some(interval) = self.maintenance_interval {
                    self.schedule(interval, SimulatedEvent::MaintenanceRuns);
                }
            }
            SimulatedEvent::ThreadWakes(thread) => self.resume(&thread)?,
        }
        Ok(())
    }

    /// Updates the topology before it discards the connection, as the driver does.
    fn handshake_failed(
        &mut self,
        id: ConnectionId,
        error: HandshakeError,
        effects: &mut Vec<PoolEffect<(), &'static str>>,
    ) {
        self.pool.connect_failing(id);
        if error.clears_pool {
            let clear = ClearRequest { cause: Some(error.text), ..ClearRequest::default() };
            self.pool.clear(clear, self.now, effects);
        }
        self.pool.connect_failed(id, error.text, self.now, effects);
    }

    fn perform(&mut self, effects: Vec<PoolEffect<(), &'static str>>) {
        for effect in effects {
            match effect {
                PoolEffect::Emit(event) => self.events.push(event_document(&event)),
                PoolEffect::Connect { id, .. } => {
                    let (time, error) = self.server.handshake();
                    self.schedule(time, SimulatedEvent::HandshakeEnds(id, error));
                }
                PoolEffect::Abort(id) => {
                    self.schedule.retain(|_, event| {
                        !matches!(event, SimulatedEvent::HandshakeEnds(pending, _) if *pending == id)
                    });
                }
                PoolEffect::Deliver(waiter, conn) => self.end_check_out(waiter, Ok(conn)),
                PoolEffect::Fail(waiter, error) => self.end_check_out(waiter, Err(error)),
                PoolEffect::Close { .. } => {}
                PoolEffect::Interrupt(id) => self.interrupt(id),
                PoolEffect::WakeMaintenance => {
                    if self.maintenance_interval.is_some() {
                        self.schedule(Duration::ZERO, SimulatedEvent::MaintenanceRuns);
                    }
                }
            }
        }
    }

    /// Ends a check-out. The waiting thread continues later, so that the current event is applied as a whole.
    fn end_check_out(&mut self, waiter: WaiterId, result: Result<PoolConnection<()>, Error>) {
        let Some(request) = self.waiting.remove(&waiter) else { return };
        self.schedule.retain(|_, other| *other != SimulatedEvent::WaitTimesOut(waiter));
        match result {
            Ok(conn) => self.receive(&request, conn),
            Err(error) => {
                if let Some(thread) = self.threads.get_mut(&request.thread) {
                    thread.error = Some(error);
                }
            }
        }
        self.schedule(Duration::ZERO, SimulatedEvent::ThreadWakes(request.thread));
    }

    fn interrupt(&mut self, id: ConnectionId) {
        if self.checked_out.remove(&id).is_some() {
            let mut effects = Vec::new();
            let reason = ConnectionClosedReason::Stale;
            self.pool.discard(id, reason, None, self.now, &mut effects);
            self.perform(effects);
        }
    }

    fn resume(&mut self, thread: &str) -> Result<(), String> {
        self.thread(thread)?.busy = false;
        self.run_actions(thread)
    }

    fn schedule(&mut self, after: Duration, event: SimulatedEvent) {
        self.scheduled += 1;
        self.schedule.insert((self.now + after, self.scheduled), event);
    }

    fn thread(&mut self, name: &str) -> Result<&mut SimulatedThread, String> {
        self.threads.get_mut(name).ok_or_else(|| format!("no thread {name} was started"))
    }
}

fn error_type(error: &Error) -> &'static str {
    match error {
        CheckOutError::Closed => "PoolClosedError",
        CheckOutError::TimedOut => "WaitQueueTimeoutError",
        CheckOutError::Cleared { .. } => "PoolClearedError",
        CheckOutError::Connect(_) => "ConnectionError",
        other => panic!("the suite has no such error: {other:?}"),
    }
}

fn pool_options(options: &PoolOptions) -> ConnectionPoolOptions {
    let mut options_of_pool = ConnectionPoolOptions::default();
    options_of_pool.max_pool_size = options.max_pool_size;
    options_of_pool.min_pool_size = options.min_pool_size;
    options_of_pool.max_connecting = options.max_connecting;
    options_of_pool.max_idle_time = options.max_idle_time_ms.map(Duration::from_millis);
    options_of_pool.wait_queue_timeout = options.wait_queue_timeout_ms.map(Duration::from_millis);
    options_of_pool
}

/// Event in the suite's notation: its fields, and its name as `type`.
fn event_document(event: &CmapEvent) -> Value {
    let tagged = serde_json::to_value(event).expect("an event has only plain fields");
    let Value::Object(tagged) = tagged else { panic!("{tagged} has no name") };
    let (name, mut fields) = tagged.into_iter().next().expect("an event has a name");
    let name = match name.strip_prefix("Pool") {
        Some(rest) => format!("ConnectionPool{rest}"),
        None => name.replace("Checkout", "CheckOut"),
    };
    fields["type"] = name.into();
    fields
}
