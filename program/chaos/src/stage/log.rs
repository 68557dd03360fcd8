//! Clock of a run, and log of its incidents.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::{sync::watch, time::sleep_until};

use super::network::IncidentHits;
use crate::{account::Incident, live::Live, plan::Fault};

/// Time since the beginning of the load, and the signals that end the faults.
#[derive(Clone)]
pub(super) struct Clock {
    began: Instant,
    ending: watch::Receiver<bool>,
    /// `true` after an error: no further fault begins.
    given_up: Arc<watch::Sender<bool>>,
}

impl Clock {
    pub(super) fn new(began: Instant, ending: watch::Receiver<bool>) -> Self {
        Self { began, ending, given_up: Arc::new(watch::Sender::new(false)) }
    }

    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits for a time. Returns `false` if the faults end before it.
    pub(super) async fn reaches(&mut self, time: Duration) -> bool {
        let due = tokio::time::Instant::from_std(self.began + time);
        tokio::select! {
            biased;
            () = self.ends() => false,
            () = sleep_until(due) => true,
        }
    }

    /// Waits for the end of the faults. A dropped sender ends them, too.
    pub(super) async fn ends(&mut self) {
        let mut given_up = self.given_up.subscribe();
        tokio::select! {
            _ = self.ending.wait_for(|ending| *ending) => {}
            _ = given_up.wait_for(|given_up| *given_up) => {}
        }
    }

    pub(super) fn give_up(&self) {
        self.given_up.send_replace(true);
    }
}

/// Incidents that have ended.
pub(super) struct Log {
    began: Instant,
    live: Arc<Live>,
    incidents: Mutex<Vec<Incident>>,
}

/// An incident that has not ended.
pub(super) struct Open(Incident);

impl Log {
    pub(super) fn new(began: Instant, live: Arc<Live>) -> Self {
        Self { began, live, incidents: Mutex::default() }
    }

    pub(super) fn live(&self) -> &Live {
        &self.live
    }

    /// Records the beginning of a fault.
    pub(super) fn begins(&self, fault: Fault, what: String, is_failover: bool) -> Open {
        self.live.fault_begins(&what);
        let began = self.began.elapsed();
        Open(Incident { fault, what, began, ended: began, is_failover, hits: 0, lost_replies: 0 })
    }

    /// Records the end of a fault, with its hits.
    pub(super) fn ends(&self, Open(mut incident): Open, met: IncidentHits) {
        incident.ended = self.began.elapsed();
        incident.hits = met.requests;
        incident.lost_replies = met.lost_replies;
        self.note(incident);
    }

    /// Records a fault without duration.
    pub(super) fn was(&self, Open(incident): Open) {
        self.note(incident);
    }

    fn note(&self, incident: Incident) {
        self.live.fault_ends(&incident);
        self.incidents.lock().unwrap_or_else(PoisonError::into_inner).push(incident);
    }

    /// Returns the incidents, ordered by their beginning.
    pub(super) fn incidents(self) -> Vec<Incident> {
        let mut incidents = self.incidents.into_inner().unwrap_or_else(PoisonError::into_inner);
        incidents.sort_by_key(|incident| incident.began);
        incidents
    }
}
