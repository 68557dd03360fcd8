//! State that all handles of one local writer share: the datacenters, their health, and counts.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bson::{RawDocumentBuf, raw::CString};
use steadfast::options::WriteConcern;
use tokio::{sync::watch, task::AbortHandle};

use super::{
    DatacenterStatus, LocalWriterMetrics,
    health::{EpochTicket, Health, HealthChange},
    log,
    metrics::DatacenterMetrics,
    probe,
};
use steadfast::{
    Collection,
    error::{Error, Outcome},
};

/// Returns the time of the runtime's clock, which tests can set.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// A datacenter.
#[derive(Debug)]
pub(super) struct DatacenterTarget {
    pub(super) name: Arc<str>,
    pub(super) collection: Collection<RawDocumentBuf>,
}

/// Shared part of a writer. It ends the probes when it is dropped.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) datacenters: Vec<DatacenterTarget>,
    /// Field with the name of the datacenter.
    pub(super) field: CString,
    /// Time limit of an acknowledgement.
    pub(super) limit: Duration,
    pub(super) write_concern: WriteConcern,
    state: Mutex<SharedState>,
    /// Notifies tasks that wait for a change.
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct SharedState {
    health: Health,
    metrics: LocalWriterMetrics,
    /// Probe task of each datacenter that is down.
    probes: Vec<Option<AbortHandle>>,
}

impl Shared {
    pub(super) fn new(
        datacenters: Vec<DatacenterTarget>,
        field: CString,
        limit: Duration,
        write_concern: WriteConcern,
        probe_every: Duration,
    ) -> Self {
        let state = SharedState {
            health: Health::new(datacenters.len(), probe_every, now()),
            metrics: LocalWriterMetrics::new(
                datacenters.iter().map(|datacenter| &*datacenter.name),
            ),
            probes: datacenters.iter().map(|_| None).collect(),
        };
        let (changed, _) = watch::channel(());
        Self { datacenters, field, limit, write_concern, state: Mutex::new(state), changed }
    }

    fn state(&self) -> MutexGuard<'_, SharedState> {
        // The state is consistent between two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the order of attempts.
    pub(super) fn order(self: &Arc<Self>) -> Vec<usize> {
        let mut state = self.state();
        if !state.health.all_up() {
            // The task of a runtime that has ended is started again on this one.
            self.start_probes(&mut state);
        }
        state.health.order()
    }

    /// Begins a write to a datacenter.
    pub(super) fn begin(&self, datacenter: usize) -> EpochTicket {
        self.state().health.begin(datacenter)
    }

    /// Counts acknowledged documents; `switched` of them were tried elsewhere before.
    pub(super) fn written(&self, ticket: EpochTicket, documents: usize, switched: usize) {
        let mut state = self.state();
        state.of(ticket).written += documents as u64;
        state.metrics.switched += switched as u64;
    }

    /// Records that a datacenter acknowledged a write.
    pub(super) fn succeeded(&self, ticket: EpochTicket) {
        let change = {
            let mut state = self.state();
            let change = state.health.succeeded(ticket, now());
            state.count(ticket, change);
            change
        };
        self.publish(ticket, change, String::new);
    }

    /// Counts documents that were rejected because of their content.
    pub(super) fn count_rejected(&self, documents: usize) {
        self.state().metrics.rejected += documents as u64;
    }

    /// Counts documents that no datacenter acknowledged.
    pub(super) fn all_down(&self, documents: usize) {
        self.state().metrics.all_down += documents as u64;
    }

    /// Records documents that a datacenter did not acknowledge: the outcome of each, and the error of one.
    pub(super) fn failed(
        self: &Arc<Self>,
        ticket: EpochTicket,
        outcomes: impl Iterator<Item = Outcome>,
        error: &Error,
    ) {
        self.count_failed(ticket, outcomes);
        let change = {
            let mut state = self.state();
            let change = state.health.failed(ticket, || error.to_string(), now());
            state.count(ticket, change);
            self.start_probes(&mut state);
            change
        };
        self.publish(ticket, change, || error.to_string());
    }

    /// Counts documents that a datacenter did not acknowledge, without marking it down.
    pub(super) fn count_failed(
        &self,
        ticket: EpochTicket,
        outcomes: impl Iterator<Item = Outcome>,
    ) {
        let mut state = self.state();
        for outcome in outcomes {
            let metrics = state.of(ticket);
            metrics.failed += 1;
            metrics.in_doubt += u64::from(!outcome.is_certainly_not_applied());
        }
    }

    /// Returns the time of the next probe; `None` if the datacenter is up, which ends its task.
    pub(super) fn next_probe(&self, datacenter: usize) -> Option<Instant> {
        let mut state = self.state();
        let at = state.health.probe_at(datacenter);
        if at.is_none() {
            state.probes[datacenter] = None;
        }
        at
    }

    /// Begins a probe, if one is due.
    pub(super) fn begin_probe(&self, datacenter: usize) -> Option<EpochTicket> {
        let mut state = self.state();
        let due = state.health.probe_at(datacenter).is_some_and(|at| at <= now());
        due.then(|| {
            let ticket = state.health.begin(datacenter);
            state.of(ticket).probes += 1;
            ticket
        })
    }

    /// Records the result of a probe.
    pub(super) fn probed(&self, ticket: EpochTicket, result: Result<(), Error>) {
        let Err(error) = result else { return self.succeeded(ticket) };
        {
            let mut state = self.state();
            state.of(ticket).probes_failed += 1;
            state.health.probe_failed(ticket, || error.to_string(), now());
        }
        log::probe_failed(&self.datacenters[ticket.datacenter].name, &error.to_string());
    }

    /// Starts the probe tasks of datacenters that are down.
    fn start_probes(self: &Arc<Self>, state: &mut SharedState) {
        let SharedState { health, probes, .. } = state;
        for (datacenter, task) in probes.iter_mut().enumerate() {
            let is_probed = task.as_ref().is_some_and(|task| !task.is_finished());
            if !health.is_up(datacenter) && !is_probed {
                *task = probe::spawn(Arc::downgrade(self), datacenter);
            }
        }
    }

    /// Logs a change, and notifies tasks that wait for one.
    fn publish(
        &self,
        ticket: EpochTicket,
        change: Option<HealthChange>,
        reason: impl FnOnce() -> String,
    ) {
        let name = &self.datacenters[ticket.datacenter].name;
        match change {
            None => return,
            Some(HealthChange::Down { probe_in }) => log::down(name, probe_in, &reason()),
            Some(HealthChange::Up { after }) => log::up(name, after),
        }
        self.changed.send_replace(());
    }

    /// Waits until no datacenter is marked down.
    pub(super) async fn until_all_up(&self) {
        let mut changes = self.changed.subscribe();
        while !self.state().health.all_up() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    pub(super) fn statuses(&self) -> Vec<DatacenterStatus> {
        let state = self.state();
        let status = |(nth, datacenter): (usize, &DatacenterTarget)| DatacenterStatus {
            name: datacenter.name.to_string(),
            is_up: state.health.is_up(nth),
            since: state.health.since(nth),
            last_error: state.health.last_error(nth).map(str::to_owned),
        };
        self.datacenters.iter().enumerate().map(status).collect()
    }

    pub(super) fn metrics(&self) -> LocalWriterMetrics {
        self.state().metrics.clone()
    }
}

impl SharedState {
    fn of(&mut self, ticket: EpochTicket) -> &mut DatacenterMetrics {
        &mut self.metrics.datacenters[ticket.datacenter]
    }

    fn count(&mut self, ticket: EpochTicket, change: Option<HealthChange>) {
        match change {
            None => {}
            Some(HealthChange::Down { .. }) => self.of(ticket).marked_down += 1,
            Some(HealthChange::Up { .. }) => self.of(ticket).marked_up += 1,
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.probes.iter().flatten().for_each(AbortHandle::abort);
    }
}
