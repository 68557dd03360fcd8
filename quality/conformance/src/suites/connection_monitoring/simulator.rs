//! A world around one pool in which time passes only when everybody waits.

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
    format::{Action, FailPoint, Operation, PoolOptions},
    server::{HandshakeError, Server},
};

type Error = CheckOutError<&'static str>;

/// The thread that runs the operations of no other.
const MAIN: &str = "main";
const DEFAULT_MAINTENANCE_INTERVAL: Duration = Duration::from_secs(10);
/// Nothing that a case waits for takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// How the main thread ended.
pub(super) enum Outcome {
    Finished,
    Failed { kind: &'static str, error: String },
}

pub(super) struct Simulator {
    pool: Pool<(), &'static str>,
    now: Instant,
    /// What will happen, by time and, at one time, in the order in which it was decided on.
    agenda: BTreeMap<(Instant, u64), Happening>,
    decided: u64,
    threads: BTreeMap<String, Thread>,
    waiting: BTreeMap<WaiterId, Request>,
    held: BTreeMap<ConnectionId, PoolConnection<()>>,
    labels: BTreeMap<String, ConnectionId>,
    events: Vec<Value>,
    wait_queue_timeout: Option<Duration>,
    maintenance_interval: Option<Duration>,
    server: Server,
}

#[derive(Clone, Debug, PartialEq)]
enum Happening {
    HandshakeEnds(ConnectionId, Option<HandshakeError>),
    WaitTimesOut(WaiterId),
    MaintenanceRuns,
    ThreadWakes(String),
}

#[derive(Default)]
struct Thread {
    to_do: VecDeque<Action>,
    busy: bool,
    error: Option<Error>,
}

struct Request {
    thread: String,
    label: Option<String>,
}

impl Simulator {
    pub(super) fn new(options: &PoolOptions, fail_point: Option<FailPoint>) -> Self {
        let mut effects = Vec::new();
        let pool =
            Pool::new(ServerAddress::default(), &reported(options), false, true, &mut effects);
        let interval = match options.background_thread_interval_ms {
            None => Some(DEFAULT_MAINTENANCE_INTERVAL),
            // A negative number: never.
            Some(millis) => u64::try_from(millis).ok().map(Duration::from_millis),
        };
        let mut simulator = Self {
            pool,
            now: Instant::now(),
            agenda: BTreeMap::new(),
            decided: 0,
            threads: BTreeMap::from([(MAIN.to_owned(), Thread::default())]),
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            labels: BTreeMap::new(),
            events: Vec::new(),
            wait_queue_timeout: reported(options).wait_queue_timeout,
            maintenance_interval: interval,
            server: Server::with(fail_point, options.app_name.as_deref()),
        };
        simulator.perform(effects);
        if let Some(interval) = interval {
            simulator.plan(interval, Happening::MaintenanceRuns);
        }
        simulator
    }

    /// Runs the operations; an error is a case that cannot go on.
    pub(super) fn run(&mut self, operations: Vec<Operation>) -> Result<Outcome, String> {
        for Operation { thread, action } in operations {
            match thread {
                Some(thread) => self.assign(&thread, action)?,
                None => self.run_in_main(action)?,
            }
            if let Some(error) = self.thread(MAIN)?.error.take() {
                return Ok(Outcome::Failed { kind: kind_of(&error), error: error.to_string() });
            }
        }
        Ok(Outcome::Finished)
    }

    pub(super) fn into_events(self) -> Vec<Value> {
        self.events
    }

    fn run_in_main(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Start { target } => {
                self.threads.insert(target, Thread::default());
                Ok(())
            }
            Action::WaitForThread { target } => {
                self.wait_until(PATIENCE, |world| {
                    world.threads.get(&target).is_some_and(|thread| !thread.busy)
                })?;
                let error = self.thread(&target)?.error.take();
                self.thread(MAIN)?.error = error;
                Ok(())
            }
            Action::WaitForEvent { event, count, timeout } => {
                let patience = timeout.map_or(PATIENCE, Duration::from_millis);
                self.wait_until(patience, |world| {
                    world.events.iter().filter(|seen| seen["type"] == event.as_str()).count()
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
                self.wait_until(PATIENCE, |world| {
                    world.threads.get(MAIN).is_some_and(|main| !main.busy)
                })
            }
        }
    }

    fn assign(&mut self, thread: &str, action: Action) -> Result<(), String> {
        self.thread(thread)?.to_do.push_back(action);
        self.proceed(thread)
    }

    /// A thread does what it has to do until it must wait.
    fn proceed(&mut self, name: &str) -> Result<(), String> {
        loop {
            let thread = self.thread(name)?;
            if thread.busy {
                return Ok(());
            }
            let Some(action) = thread.to_do.pop_front() else { return Ok(()) };
            self.act(name, action)?;
        }
    }

    fn act(&mut self, thread: &str, action: Action) -> Result<(), String> {
        let (now, mut effects) = (self.now, Vec::new());
        match action {
            Action::Wait { ms } => {
                self.thread(thread)?.busy = true;
                let wakes = Happening::ThreadWakes(thread.to_owned());
                self.plan(Duration::from_millis(ms), wakes);
            }
            Action::CheckOut { label } => return self.check_out(thread, label),
            Action::CheckIn { connection } => {
                let conn = self.labels.get(&connection).and_then(|id| self.held.remove(id));
                let conn = conn.ok_or_else(|| format!("no connection {connection} is held"))?;
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
        let request = Request { thread: thread.to_owned(), label };
        match self.pool.check_out(self.now, &mut effects) {
            CheckOutResult::Ready(conn) => self.receive(&request, conn),
            CheckOutResult::Failed(error) => self.thread(thread)?.error = Some(error),
            CheckOutResult::Wait(waiter) => {
                self.thread(thread)?.busy = true;
                self.waiting.insert(waiter, request);
                if let Some(timeout) = self.wait_queue_timeout {
                    self.plan(timeout, Happening::WaitTimesOut(waiter));
                }
            }
        }
        self.perform(effects);
        Ok(())
    }

    fn receive(&mut self, request: &Request, conn: PoolConnection<()>) {
        if let Some(label) = &request.label {
            self.labels.insert(label.clone(), conn.id());
        }
        self.held.insert(conn.id(), conn);
    }

    fn wait_until(
        &mut self,
        patience: Duration,
        reached: impl Fn(&Self) -> bool,
    ) -> Result<(), String> {
        let until = self.now + patience;
        while !reached(self) {
            let Some(((time, _), happening)) = self.agenda.pop_first() else {
                return Err("nothing would ever happen again".to_owned());
            };
            if time > until {
                return Err(format!("did not happen within {patience:?}"));
            }
            self.now = time;
            self.happen(happening)?;
        }
        Ok(())
    }

    fn happen(&mut self, happening: Happening) -> Result<(), String> {
        let (now, mut effects) = (self.now, Vec::new());
        match happening {
            Happening::HandshakeEnds(id, error) => {
                match error {
                    None => self.pool.connected(id, (), None, now, &mut effects),
                    Some(error) => self.handshake_failed(id, error, &mut effects),
                }
                self.perform(effects);
            }
            Happening::WaitTimesOut(waiter) => {
                if self.pool.cancel(waiter, WaitCancellation::TimedOut, now, &mut effects) {
                    self.perform(effects);
                    self.answer(waiter, Err(CheckOutError::TimedOut));
                }
            }
            Happening::MaintenanceRuns => {
                self.pool.maintain(now, &mut effects);
                self.perform(effects);
                self.agenda.retain(|_, other| *other != Happening::MaintenanceRuns);
                if let Some(interval) = self.maintenance_interval {
                    self.plan(interval, Happening::MaintenanceRuns);
                }
            }
            Happening::ThreadWakes(thread) => self.resume(&thread)?,
        }
        Ok(())
    }

    /// The topology is told before the connection is given up, as in the driver.
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
                PoolEffect::Emit(event) => self.events.push(described(&event)),
                PoolEffect::Connect { id, .. } => {
                    let (time, error) = self.server.handshake();
                    self.plan(time, Happening::HandshakeEnds(id, error));
                }
                PoolEffect::Abort(id) => {
                    let of_it = |other: &Happening| matches!(other, Happening::HandshakeEnds(other, _) if *other == id);
                    self.agenda.retain(|_, other| !of_it(other));
                }
                PoolEffect::Deliver(waiter, conn) => self.answer(waiter, Ok(conn)),
                PoolEffect::Fail(waiter, error) => self.answer(waiter, Err(error)),
                PoolEffect::Close { .. } => {}
                PoolEffect::Interrupt(id) => self.interrupt(id),
                PoolEffect::WakeMaintenance => {
                    if self.maintenance_interval.is_some() {
                        self.plan(Duration::ZERO, Happening::MaintenanceRuns);
                    }
                }
            }
        }
    }

    /// The thread that waited goes on in a moment, not in the middle of whatever caused this.
    fn answer(&mut self, waiter: WaiterId, answer: Result<PoolConnection<()>, Error>) {
        let Some(request) = self.waiting.remove(&waiter) else { return };
        self.agenda.retain(|_, other| *other != Happening::WaitTimesOut(waiter));
        match answer {
            Ok(conn) => self.receive(&request, conn),
            Err(error) => {
                if let Some(thread) = self.threads.get_mut(&request.thread) {
                    thread.error = Some(error);
                }
            }
        }
        self.plan(Duration::ZERO, Happening::ThreadWakes(request.thread));
    }

    fn interrupt(&mut self, id: ConnectionId) {
        if self.held.remove(&id).is_some() {
            let mut effects = Vec::new();
            let reason = ConnectionClosedReason::Stale;
            self.pool.discard(id, reason, None, self.now, &mut effects);
            self.perform(effects);
        }
    }

    fn resume(&mut self, thread: &str) -> Result<(), String> {
        self.thread(thread)?.busy = false;
        self.proceed(thread)
    }

    fn plan(&mut self, after: Duration, happening: Happening) {
        self.decided += 1;
        self.agenda.insert((self.now + after, self.decided), happening);
    }

    fn thread(&mut self, name: &str) -> Result<&mut Thread, String> {
        self.threads.get_mut(name).ok_or_else(|| format!("no thread {name} was started"))
    }
}

fn kind_of(error: &Error) -> &'static str {
    match error {
        CheckOutError::Closed => "PoolClosedError",
        CheckOutError::TimedOut => "WaitQueueTimeoutError",
        CheckOutError::Cleared { .. } => "PoolClearedError",
        CheckOutError::Connect(_) => "ConnectionError",
        other => panic!("an error that this suite does not know: {other:?}"),
    }
}

fn reported(options: &PoolOptions) -> ConnectionPoolOptions {
    let mut reported = ConnectionPoolOptions::default();
    reported.max_pool_size = options.max_pool_size;
    reported.min_pool_size = options.min_pool_size;
    reported.max_connecting = options.max_connecting;
    reported.max_idle_time = options.max_idle_time_ms.map(Duration::from_millis);
    reported.wait_queue_timeout = options.wait_queue_timeout_ms.map(Duration::from_millis);
    reported
}

/// An event in the words of the suite: its fields, and its name as `type`.
fn described(event: &CmapEvent) -> Value {
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
