//! When things happen, and what has happened.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::{sync::watch, time::sleep_until};

use super::network::Met;
use crate::{account::Incident, live::Live, plan::Fault};

/// The time since the load began, and the word that it is over.
#[derive(Clone)]
pub(super) struct Clock {
    began: Instant,
    ending: watch::Receiver<bool>,
    /// Whether something went wrong, so that nothing more is to begin.
    given_up: Arc<watch::Sender<bool>>,
}

impl Clock {
    pub(super) fn new(began: Instant, ending: watch::Receiver<bool>) -> Self {
        Self { began, ending, given_up: Arc::new(watch::Sender::new(false)) }
    }

    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits for a time. False if it is over before that.
    pub(super) async fn reaches(&mut self, time: Duration) -> bool {
        let due = tokio::time::Instant::from_std(self.began + time);
        tokio::select! {
            biased;
            () = self.ends() => false,
            () = sleep_until(due) => true,
        }
    }

    /// Waits for the word that it is over. Nobody there any more who could say it is that word, too.
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

/// What has happened so far.
pub(super) struct Log {
    began: Instant,
    live: Arc<Live>,
    incidents: Mutex<Vec<Incident>>,
}

/// What is not over yet.
pub(super) struct Open(Incident);

impl Log {
    pub(super) fn new(began: Instant, live: Arc<Live>) -> Self {
        Self { began, live, incidents: Mutex::default() }
    }

    pub(super) fn live(&self) -> &Live {
        &self.live
    }

    /// A fault has just taken effect.
    pub(super) fn begins(&self, fault: Fault, what: String, is_failover: bool) -> Open {
        self.live.fault_begins(&what);
        let began = self.began.elapsed();
        Open(Incident { fault, what, began, ended: began, is_failover, hits: 0, lost_replies: 0 })
    }

    /// It is over, and has met so many requests.
    pub(super) fn ends(&self, Open(mut incident): Open, met: Met) {
        incident.ended = self.began.elapsed();
        incident.hits = met.requests;
        incident.lost_replies = met.lost_replies;
        self.note(incident);
    }

    /// It was over when it began.
    pub(super) fn was(&self, Open(incident): Open) {
        self.note(incident);
    }

    fn note(&self, incident: Incident) {
        self.live.fault_ends(&incident);
        self.incidents.lock().unwrap_or_else(PoisonError::into_inner).push(incident);
    }

    /// By the time that they began.
    pub(super) fn incidents(self) -> Vec<Incident> {
        let mut incidents = self.incidents.into_inner().unwrap_or_else(PoisonError::into_inner);
        incidents.sort_by_key(|incident| incident.began);
        incidents
    }
}
