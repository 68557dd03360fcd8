//! Monitor of a server: a task that checks it, and one that measures the round-trip time.
//!
//! [`MonitorSchedule`] decides when and how to check. With the streaming protocol the server sends
//! replies on changes, so their timing contains no round-trip time, and a second connection
//! measures it.

mod check;
mod round_trip;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use bson::Document;
use steadfast_core::{
    address::ServerAddress,
    monitor::{MonitorCheck, MonitorSchedule, MonitorSettings},
    sdam::{CheckFailure, CheckFailureKind, CheckSuccess, TopologyInput},
};
use tokio::{sync::Notify, task::AbortHandle};

use self::{check::CheckReply, round_trip::RoundTripMonitor};
use super::WeakTopology;
use crate::{
    connection::{Connection, Establisher},
    error::{Error, ErrorKind},
    event::sdam::Heartbeat,
};

/// Handle of a monitor's task.
#[derive(Debug)]
pub(crate) struct Monitor {
    signals: Arc<Signals>,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct Signals {
    check_now: Notify,
    cancel: Notify,
}

impl Monitor {
    /// Starts the monitoring of a server.
    pub(super) fn start(
        address: ServerAddress,
        settings: MonitorSettings,
        establisher: Arc<Establisher>,
        topology: WeakTopology,
    ) -> Self {
        let signals = Arc::new(Signals::default());
        let watch = MonitorTask {
            schedule: MonitorSchedule::new(settings, Instant::now()),
            settings,
            connection: None,
            round_trip_monitor: None,
            signals: Arc::clone(&signals),
            address,
            establisher: Arc::clone(&establisher),
            topology,
        };
        Self { signals, task: establisher.spawn(watch.run()) }
    }

    /// Requests an immediate check.
    pub(super) fn check_now(&self) {
        self.signals.check_now.notify_one();
    }

    /// Cancels the check in progress, after a network error of an operation.
    pub(super) fn cancel_check(&self) {
        self.signals.cancel.notify_one();
    }

    /// Stops the monitor.
    pub(super) fn stop(&self) {
        self.task.abort();
    }
}

/// State of a monitor's task.
struct MonitorTask {
    schedule: MonitorSchedule,
    settings: MonitorSettings,
    connection: Option<Connection>,
    round_trip_monitor: Option<RoundTripMonitor>,
    signals: Arc<Signals>,
    address: ServerAddress,
    establisher: Arc<Establisher>,
    topology: WeakTopology,
}

impl MonitorTask {
    async fn run(mut self) {
        loop {
            self.wait_until_due().await;
            let check = self.schedule.begin();
            let heartbeat = self.heartbeat(&check);
            self.topology.announce(|| heartbeat.started());
            let began = Instant::now();
            let signals = Arc::clone(&self.signals);
            let outcome = tokio::select! {
                outcome = self.perform(&check) => Some(outcome),
                () = signals.cancel.notified() => None,
            };
            match outcome {
                Some(Ok(answer)) => self.succeeded(&check, &heartbeat, answer, began),
                Some(Err(error)) => self.failed(&heartbeat, &error, began),
                None => self.cancelled(&heartbeat, began),
            }
        }
    }

    async fn wait_until_due(&mut self) {
        while let Some(due) = self.schedule.next_check() {
            let now = Instant::now();
            if due <= now {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(due - now) => return,
                () = self.signals.check_now.notified() => {
                    self.schedule.check_requested(Instant::now());
                }
                () = self.signals.cancel.notified() => {
                    self.connection = None;
                    self.schedule.cancelled(Instant::now());
                }
            }
        }
    }

    async fn perform(&mut self, check: &MonitorCheck) -> Result<CheckReply, Error> {
        let limit = self.schedule.timeout(check);
        let work = check::perform(check, &mut self.connection, &self.address, &self.establisher);
        match limit {
            None => work.await,
            Some(limit) => tokio::time::timeout(limit, work)
                .await
                .unwrap_or_else(|_| Err(Error::timed_out(format!("no reply within {limit:?}")))),
        }
    }

    fn heartbeat(&self, check: &MonitorCheck) -> Heartbeat {
        Heartbeat {
            server_address: self.address.clone(),
            awaited: check.is_awaited(),
            driver_connection_id: self.connection.as_ref().map_or(0, |connection| connection.id),
            server_connection_id: self
                .connection
                .as_ref()
                .and_then(|connection| connection.hello.connection_id),
        }
    }

    fn succeeded(
        &mut self,
        check: &MonitorCheck,
        heartbeat: &Heartbeat,
        answer: CheckReply,
        began: Instant,
    ) {
        // The connection id is known only after the check that opened the connection.
        let heartbeat =
            if *check == MonitorCheck::Connect { &self.heartbeat(check) } else { heartbeat };
        self.topology.announce(|| {
            let reply = Document::try_from(&*answer.document).unwrap_or_default();
            heartbeat.succeeded(began.elapsed(), reply)
        });
        self.schedule.succeeded(&answer.reply, answer.more_to_come, Instant::now());
        self.ping_if_needed();
        let round_trip = (!check.is_awaited()).then_some(answer.duration);
        self.report(Ok(CheckSuccess { reply: answer.reply, round_trip }), None);
    }

    fn failed(&mut self, heartbeat: &Heartbeat, error: &Error, began: Instant) {
        let kind = failure_kind(error);
        self.topology.announce(|| heartbeat.failed(began.elapsed(), error.clone()));
        self.connection = None;
        self.schedule.failed(kind, Instant::now());
        self.ping_if_needed();
        self.report(Err(CheckFailure { kind, message: error.to_string() }), Some(error));
    }

    fn cancelled(&mut self, heartbeat: &Heartbeat, began: Instant) {
        self.topology.announce(|| {
            let why = "cancelled: an operation failed with a network error";
            heartbeat.failed(began.elapsed(), Error::from(io::Error::other(why)))
        });
        self.connection = None;
        self.schedule.cancelled(Instant::now());
        self.ping_if_needed();
    }

    fn ping_if_needed(&mut self) {
        if !self.schedule.needs_round_trip_pings() {
            self.round_trip_monitor = None;
        } else if self.round_trip_monitor.is_none() {
            self.round_trip_monitor = Some(RoundTripMonitor::start(
                self.address.clone(),
                self.settings,
                Arc::clone(&self.establisher),
                self.topology.clone(),
            ));
        }
    }

    fn report(&self, outcome: Result<CheckSuccess, CheckFailure>, cause: Option<&Error>) {
        let input = TopologyInput::Heartbeat { address: self.address.clone(), outcome };
        self.topology.apply(input, cause);
    }
}

fn failure_kind(error: &Error) -> CheckFailureKind {
    match &*error.kind {
        ErrorKind::Io(_) if error.is_network_timeout() => CheckFailureKind::NetworkTimeout,
        ErrorKind::Io(_) => CheckFailureKind::Network,
        _ => CheckFailureKind::Command,
    }
}

/// Returns the next id of a monitoring connection.
fn next_monitor_connection() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
