//! What can be seen of a run while it goes on.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use super::account::{Incident, Record, Told};

/// Counts that the load and the faults add to, and the view reads.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) acknowledged: AtomicU64,
    pub(super) not_applied: AtomicU64,
    pub(super) in_doubt: AtomicU64,
    /// Attempts that failed, most of which were made good by another.
    pub(super) failed_attempts: AtomicU64,
    /// Requests that faults have met.
    pub(super) hits: AtomicU64,
    /// Incidents that are over.
    pub(super) incidents: AtomicU64,
    /// The slowest since it was last looked at, in microseconds.
    slowest: AtomicU64,
    now: Mutex<Vec<String>>,
}

impl Live {
    /// An operation ended.
    pub(super) fn ended(&self, record: &Record) {
        let counter = match record.answer.told() {
            Told::Acknowledged => &self.acknowledged,
            Told::NotApplied => &self.not_applied,
            Told::InDoubt => &self.in_doubt,
        };
        counter.fetch_add(1, Relaxed);
        self.failed_attempts.fetch_add(record.failures.len() as u64, Relaxed);
        let micros = u64::try_from(record.took.as_micros()).unwrap_or(u64::MAX);
        self.slowest.fetch_max(micros, Relaxed);
    }

    /// A fault began.
    pub(super) fn fault_begins(&self, what: &str) {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).push(what.to_owned());
    }

    /// A fault is over.
    pub(super) fn fault_ends(&self, incident: &Incident) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = now.iter().position(|what| *what == incident.what) {
            now.remove(at);
        }
        self.incidents.fetch_add(1, Relaxed);
    }

    /// The faults that last.
    pub(super) fn now(&self) -> Vec<String> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The slowest operation since this was last asked.
    pub(super) fn slowest(&self) -> Duration {
        Duration::from_micros(self.slowest.swap(0, Relaxed))
    }
}
