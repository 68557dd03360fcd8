//! Counters of a run in progress.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use super::account::{Incident, Record, ResultClass};

/// Counters of a run in progress.
#[derive(Debug, Default)]
pub struct Live {
    /// Operations that were acknowledged.
    pub acknowledged: AtomicU64,
    /// Operations that failed and are certainly not applied.
    pub not_applied: AtomicU64,
    /// Operations that failed or were dropped and may be applied.
    pub in_doubt: AtomicU64,
    /// Attempts that failed. Most of them were retried with success.
    pub failed_attempts: AtomicU64,
    /// Requests and calls that were affected by a fault.
    pub hits: AtomicU64,
    /// Incidents that have ended.
    pub incidents: AtomicU64,
    /// Current number of dropped calls per thousand.
    drop_per_mille: AtomicU32,
    /// Calls dropped since [`start_dropping`](Self::start_dropping).
    dropped: AtomicU64,
    /// Duration of the slowest operation since the last read, in microseconds.
    slowest: AtomicU64,
    now: Mutex<Vec<String>>,
}

impl Live {
    /// Counts a completed operation.
    pub(super) fn ended(&self, record: &Record) {
        let counter = match record.answer.class() {
            ResultClass::Acknowledged => &self.acknowledged,
            ResultClass::NotApplied => &self.not_applied,
            ResultClass::InDoubt => &self.in_doubt,
        };
        counter.fetch_add(1, Relaxed);
        self.failed_attempts.fetch_add(record.failures.len() as u64, Relaxed);
        let micros = u64::try_from(record.took.as_micros()).unwrap_or(u64::MAX);
        self.slowest.fetch_max(micros, Relaxed);
    }

    /// Starts to drop this number of calls per thousand.
    pub(super) fn start_dropping(&self, per_mille: u32) {
        self.dropped.store(0, Relaxed);
        self.drop_per_mille.store(per_mille, Relaxed);
    }

    /// Stops dropping calls. Returns the number of dropped calls.
    pub(super) fn stop_dropping(&self) -> u64 {
        self.drop_per_mille.store(0, Relaxed);
        self.dropped.load(Relaxed)
    }

    /// Returns the current number of dropped calls per thousand.
    pub(super) fn drop_per_mille(&self) -> u32 {
        self.drop_per_mille.load(Relaxed)
    }

    /// Counts a dropped call.
    pub(super) fn dropped(&self) {
        self.dropped.fetch_add(1, Relaxed);
        self.hits.fetch_add(1, Relaxed);
    }

    /// Adds a fault that takes effect.
    pub(super) fn fault_begins(&self, what: &str) {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).push(what.to_owned());
    }

    /// Removes a fault that has ended, and counts it.
    pub(super) fn fault_ends(&self, incident: &Incident) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = now.iter().position(|what| *what == incident.what) {
            now.remove(at);
        }
        self.incidents.fetch_add(1, Relaxed);
    }

    /// Returns the faults that are in effect.
    pub fn now(&self) -> Vec<String> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the duration of the slowest operation since the last call.
    pub fn slowest(&self) -> Duration {
        Duration::from_micros(self.slowest.swap(0, Relaxed))
    }
}
