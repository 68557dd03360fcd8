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
    health::{Change, Health, Ticket},
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
pub(super) struct Site {
    pub(super) name: Arc<str>,
    pub(super) collection: Collection<RawDocumentBuf>,
}

/// Shared part of a writer. It ends the probes when it is dropped.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) sites: Vec<Site>,
    /// Field with the name of the datacenter.
    pub(super) field: CString,
    /// Time limit of an acknowledgement.
    pub(super) limit: Duration,
    pub(super) write_concern: WriteConcern,
    state: Mutex<State>,
    /// Notifies tasks that wait for a change.
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    health: Health,
    metrics: LocalWriterMetrics,
    /// Probe task of each datacenter that is down.
    probes: Vec<Option<AbortHandle>>,
}

impl Shared {
    pub(super) fn new(
        sites: Vec<Site>,
        field: CString,
        limit: Duration,
        write_concern: WriteConcern,
        probe_every: Duration,
    ) -> Self {
        let state = State {
            health: Health::new(sites.len(), probe_every, now()),
            metrics: LocalWriterMetrics::new(sites.iter().map(|site| &*site.name)),
            probes: sites.iter().map(|_| None).collect(),
        };
        let (changed, _) = watch::channel(());
        Self { sites, field, limit, write_concern, state: Mutex::new(state), changed }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent between two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the order of attempts.
    pub(super) fn order(self: &Arc<Self>) -> Vec<usize> {
        let mut state = self.state();
        if !state.health.all_up() {
            // The task of a runtime that has ended is started again on this one.
            self.have_probed(&mut state);
        }
        state.health.order()
    }

    /// Begins a write to a datacenter.
    pub(super) fn begin(&self, site: usize) -> Ticket {
        self.state().health.begin(site)
    }

    /// Counts acknowledged documents; `switched` of them were tried elsewhere before.
    pub(super) fn written(&self, ticket: Ticket, documents: usize, switched: usize) {
        let mut state = self.state();
        state.of(ticket).written += documents as u64;
        state.metrics.switched += switched as u64;
    }

    /// Records that a datacenter acknowledged a write.
    pub(super) fn succeeded(&self, ticket: Ticket) {
        let change = {
            let mut state = self.state();
            let change = state.health.succeeded(ticket, now());
            state.count(ticket, change);
            change
        };
        self.tell(ticket, change, String::new);
    }

    /// Counts documents that were rejected because of their content.
    pub(super) fn count_rejected(&self, documents: usize) {
        self.state().metrics.rejected += documents as u64;
    }

    /// Counts documents that no datacenter acknowledged.
    pub(super) fn all_down(&self, documents: usize) {
        self.state().metrics.all_down += documents as u64;
    }

    /// Records documents that a datacenter failed to acknowledge: the outcome of each, and the error of one.
    pub(super) fn failed(
        self: &Arc<Self>,
        ticket: Ticket,
        outcomes: impl Iterator<Item = Outcome>,
        error: &Error,
    ) {
        self.count_failed(ticket, outcomes);
        let change = {
            let mut state = self.state();
            let change = state.health.failed(ticket, || error.to_string(), now());
            state.count(ticket, change);
            self.have_probed(&mut state);
            change
        };
        self.tell(ticket, change, || error.to_string());
    }

    /// Counts documents that a datacenter did not acknowledge, without marking it down.
    pub(super) fn count_failed(&self, ticket: Ticket, outcomes: impl Iterator<Item = Outcome>) {
        let mut state = self.state();
        for outcome in outcomes {
            let metrics = state.of(ticket);
            metrics.failed += 1;
            metrics.in_doubt += u64::from(!outcome.is_certainly_not_applied());
        }
    }

    /// Returns the time of the next probe; `None` if the datacenter is up, which ends its task.
    pub(super) fn next_probe(&self, site: usize) -> Option<Instant> {
        let mut state = self.state();
        let at = state.health.probe_at(site);
        if at.is_none() {
            state.probes[site] = None;
        }
        at
    }

    /// Begins a probe, if one is due.
    pub(super) fn begin_probe(&self, site: usize) -> Option<Ticket> {
        let mut state = self.state();
        let due = state.health.probe_at(site).is_some_and(|at| at <= now());
        due.then(|| {
            let ticket = state.health.begin(site);
            state.of(ticket).probes += 1;
            ticket
        })
    }

    /// Records the result of a probe.
    pub(super) fn probed(&self, ticket: Ticket, answer: Result<(), Error>) {
        let Err(error) = answer else { return self.succeeded(ticket) };
        {
            let mut state = self.state();
            state.of(ticket).probes_failed += 1;
            state.health.probe_failed(ticket, || error.to_string(), now());
        }
        log::probe_failed(&self.sites[ticket.site].name, &error.to_string());
    }

    /// Starts the probe tasks of datacenters that are down.
    fn have_probed(self: &Arc<Self>, state: &mut State) {
        let State { health, probes, .. } = state;
        for (site, task) in probes.iter_mut().enumerate() {
            let is_asked = task.as_ref().is_some_and(|task| !task.is_finished());
            if !health.is_up(site) && !is_asked {
                *task = probe::spawn(Arc::downgrade(self), site);
            }
        }
    }

    fn tell(&self, ticket: Ticket, change: Option<Change>, reason: impl FnOnce() -> String) {
        let name = &self.sites[ticket.site].name;
        match change {
            None => return,
            Some(Change::Down { probe_in }) => log::down(name, probe_in, &reason()),
            Some(Change::Up { after }) => log::up(name, after),
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

    pub(super) fn datacenters(&self) -> Vec<DatacenterStatus> {
        let state = self.state();
        let status = |(nth, site): (usize, &Site)| DatacenterStatus {
            name: site.name.to_string(),
            is_up: state.health.is_up(nth),
            since: state.health.since(nth),
            why: state.health.why(nth).map(str::to_owned),
        };
        self.sites.iter().enumerate().map(status).collect()
    }

    pub(super) fn metrics(&self) -> LocalWriterMetrics {
        self.state().metrics.clone()
    }
}

impl State {
    fn of(&mut self, ticket: Ticket) -> &mut DatacenterMetrics {
        &mut self.metrics.datacenters[ticket.site]
    }

    fn count(&mut self, ticket: Ticket, change: Option<Change>) {
        match change {
            None => {}
            Some(Change::Down { .. }) => self.of(ticket).marked_down += 1,
            Some(Change::Up { .. }) => self.of(ticket).marked_up += 1,
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.probes.iter().flatten().for_each(AbortHandle::abort);
    }
}
