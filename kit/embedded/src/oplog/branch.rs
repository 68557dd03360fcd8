//! Storage of an oplog: entries, and snapshots of the data after recent ones.
//!
//! Oplogs that agree share one branch, each up to its own end. So copying an oplog is cheap, and a
//! new entry is stored once. An oplog that appends another entry where the branch already continues
//! gets a branch of its own.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;

use super::{OpTime, OplogEntry, OrderedTimestamp};
use crate::{
    change::Change,
    store::{Store, size_of_document},
};

/// Retained entries and bytes of their documents. A member that needs older entries copies all data
/// (initial sync).
const MAX_ENTRIES: RetentionLimit = RetentionLimit { count: 50_000, bytes: 256 << 20 };

/// Newest entries for which snapshots of the data are available, for reads of the past and for
/// rollbacks.
const MAX_SNAPSHOTS: RetentionLimit = RetentionLimit { count: 2_000, bytes: 64 << 20 };

/// Entries between two stored snapshots. Snapshots in between are computed from the one before.
const SNAPSHOT_EVERY: usize = 32;

/// Entries above the limit that are collected before the oplog is truncated.
const TRUNCATION_SLACK: usize = 256;

/// Retention limit.
#[derive(Clone, Copy, Debug)]
struct RetentionLimit {
    count: usize,
    bytes: usize,
}

/// Oplog of one member. Cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Oplog {
    branch: Arc<Mutex<Branch>>,
    /// Number of all entries, including truncated ones.
    end: usize,
    last: OpTime,
}

/// Entries that several oplogs share.
#[derive(Clone, Debug)]
struct Branch {
    entries: VecDeque<StoredEntry>,
    bytes: usize,
    /// Number of truncated entries, and the optime of the last one.
    truncated: usize,
    before: OpTime,
    /// Data before the first entry, if it is available.
    start: Option<Store>,
    /// Number of entries, from the first ever written, after which no snapshot is available.
    snapshots_from: usize,
    /// Bytes of the documents in the other entries.
    snapshot_bytes: usize,
}

/// A stored entry.
#[derive(Clone, Debug)]
struct StoredEntry {
    entry: Arc<OplogEntry>,
    /// Time at which the primary wrote the entry.
    written: Instant,
    /// Bytes of its documents.
    size: usize,
    /// Snapshot of the data after the entry, for some entries.
    after: Option<Store>,
}

impl Default for Oplog {
    fn default() -> Self {
        let branch = Branch {
            entries: VecDeque::new(),
            bytes: 0,
            truncated: 0,
            before: OpTime::default(),
            // The data before the first entry is empty.
            start: Some(Store::default()),
            snapshots_from: 0,
            snapshot_bytes: 0,
        };
        Self { branch: Arc::new(Mutex::new(branch)), end: 0, last: OpTime::default() }
    }
}

impl Oplog {
    /// Optime of the newest entry.
    pub(crate) fn last(&self) -> OpTime {
        self.last
    }

    /// Returns `true` if the oplog has the entry, or starts right after it.
    pub(crate) fn has(&self, at: OpTime) -> bool {
        at == self.last || self.position(&self.branch(), at).is_some()
    }

    /// Optime of the last truncated entry.
    pub(crate) fn before(&self) -> OpTime {
        let branch = self.branch();
        if branch.truncated > self.end { self.last } else { branch.before }
    }

    /// All entries in order.
    pub(crate) fn entries(&self) -> Vec<Arc<OplogEntry>> {
        self.after(OrderedTimestamp::default())
    }

    /// Entries after a timestamp, in order.
    pub(crate) fn after(&self, at: OrderedTimestamp) -> Vec<Arc<OplogEntry>> {
        let branch = self.branch();
        let from = branch.count_until(at);
        let to = branch.offset(self.end);
        (from..to).map(|place| Arc::clone(&branch.entries[place].entry)).collect()
    }

    /// Write time of the first entry after a timestamp.
    pub(crate) fn next_written(&self, at: OrderedTimestamp) -> Option<Instant> {
        let branch = self.branch();
        let place = branch.count_until(at);
        (place < branch.offset(self.end)).then(|| branch.entries[place].written)
    }

    /// Appends an entry. `after` is the data with the entry applied.
    pub(crate) fn push(&mut self, entry: Arc<OplogEntry>, written: Instant, after: &Store) {
        let size = entry.changes.iter().map(size_of).sum();
        let before = mem::replace(&mut self.last, entry.at);
        let mut branch = self.branch();
        if branch.end() != self.end {
            let own = branch.fork(self.end, before);
            drop(branch);
            self.branch = Arc::new(Mutex::new(own));
            branch = self.branch();
        }
        let after = branch.end().is_multiple_of(SNAPSHOT_EVERY).then(|| after.clone());
        branch.entries.push_back(StoredEntry { entry, written, size, after });
        branch.bytes += size;
        branch.snapshot_bytes += size;
        drop(branch);
        self.end += 1;
    }

    /// Truncates old entries, but only committed ones.
    pub(crate) fn trim(&self, committed: OpTime) {
        let mut branch = self.branch();
        if branch.is_too_long() {
            let until = branch.count_before(committed.timestamp);
            branch.trim(until);
        }
    }

    /// Snapshot after the last entry up to a timestamp, if it is available.
    pub(crate) fn data_until(&self, at: OrderedTimestamp) -> Option<Store> {
        let branch = self.branch();
        let count = self.count_until(&branch, at)?;
        branch.data_at(branch.truncated + count)
    }

    /// Snapshot for a read at a timestamp (`atClusterTime`), if it is available. It includes
    /// transactions over several shards that were prepared by then and committed by a later entry.
    pub(crate) fn snapshot(&self, at: OrderedTimestamp) -> Option<Store> {
        let branch = self.branch();
        let count = self.count_until(&branch, at)?;
        let mut store = branch.data_at(branch.truncated + count)?;
        let later = branch.entries.range(count..branch.offset(self.end));
        for logged in later.filter(|logged| logged.entry.is_visible_at(at)) {
            // No other transaction changed these documents while they were prepared.
            store.apply(&logged.entry).ok()?;
        }
        Some(store)
    }

    /// Number of retained entries up to a timestamp. `None` if older entries are truncated.
    fn count_until(&self, branch: &Branch, at: OrderedTimestamp) -> Option<usize> {
        let known = branch.truncated <= self.end;
        known.then(|| branch.count_until(at).min(branch.offset(self.end)))
    }

    /// Rolls back to an entry and returns the data at that point, if both are available.
    pub(crate) fn roll_back(&mut self, to: OpTime) -> Option<Store> {
        let branch = self.branch();
        let end = self.position(&branch, to)?;
        let store = branch.data_at(end)?;
        drop(branch);
        (self.end, self.last) = (end, to);
        Some(store)
    }

    /// Optime of the newest common entry (common point).
    pub(crate) fn common_point(&self, other: &Self) -> Option<OpTime> {
        let entries = self.entries();
        let before = self.before();
        entries.iter().rev().map(|entry| entry.at).chain([before]).find(|at| other.has(*at))
    }

    /// This oplog up to a write time, for a member that already has the part `has`. Returns the
    /// data after it, computed from `data`.
    pub(crate) fn copy_until(&self, written: Instant, has: &Self, data: &Store) -> (Self, Store) {
        let branch = self.branch();
        let mut end = self.position(&branch, has.last).unwrap_or(self.end);
        let from = branch.offset(end);
        let late = branch.entries.range(from..branch.offset(self.end));
        end += late.take_while(|logged| logged.written <= written).count();
        let to = branch.offset(end);
        let last = if to == from { has.last } else { branch.entries[to - 1].entry.at };
        let store = branch.data_at(end).unwrap_or_else(|| {
            let mut store = data.clone();
            for logged in branch.entries.range(from..to) {
                // The entry was applied to the same data before.
                let _ = store.apply(&logged.entry);
            }
            store
        });
        drop(branch);
        (Self { branch: Arc::clone(&self.branch), end, last }, store)
    }

    /// Number of entries up to this one, if it is retained.
    fn position(&self, branch: &Branch, at: OpTime) -> Option<usize> {
        if branch.truncated > self.end {
            return None;
        }
        let count = branch.count_until(at.timestamp);
        let there = match count {
            0 => branch.before,
            count => branch.entries[count - 1].entry.at,
        };
        let position = branch.truncated + count;
        (there == at && position <= self.end).then_some(position)
    }

    fn branch(&self) -> MutexGuard<'_, Branch> {
        // No code that can panic leaves the branch inconsistent.
        self.branch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Branch {
    /// Number of all entries.
    fn end(&self) -> usize {
        self.truncated + self.entries.len()
    }

    /// Index of an entry among the retained ones.
    fn offset(&self, number: usize) -> usize {
        number.saturating_sub(self.truncated)
    }

    /// Number of retained entries up to a timestamp.
    fn count_until(&self, at: OrderedTimestamp) -> usize {
        // Most callers ask for the newest entry.
        let newest = self.entries.iter().rev().take(8);
        let near = newest.take_while(|logged| logged.entry.at.timestamp > at).count();
        if near < 8 {
            return self.entries.len() - near;
        }
        self.entries.partition_point(|logged| logged.entry.at.timestamp <= at)
    }

    /// Number of all entries before a timestamp.
    fn count_before(&self, at: OrderedTimestamp) -> usize {
        let kept = self.entries.partition_point(|logged| logged.entry.at.timestamp < at);
        self.truncated + kept
    }

    /// Snapshot after this number of entries, if it is available.
    fn data_at(&self, count: usize) -> Option<Store> {
        let to = self.offset(count);
        let known = (0..to).rev().take(SNAPSHOT_EVERY).find(|it| self.entries[*it].after.is_some());
        let (from, mut store) = match known {
            Some(place) => (place + 1, self.entries[place].after.clone()?),
            None if to < SNAPSHOT_EVERY => (0, self.start.clone()?),
            None => return None,
        };
        for logged in self.entries.range(from..to) {
            // The entry was applied to the same data before.
            store.apply(&logged.entry).ok()?;
        }
        Some(store)
    }

    /// Copies the branch up to an end, for an oplog that continues differently from there.
    fn fork(&self, end: usize, last: OpTime) -> Self {
        let mut own = self.clone();
        own.entries.truncate(self.offset(end));
        if end < self.truncated {
            (own.truncated, own.before, own.start) = (end, last, None);
        }
        own.snapshots_from = own.snapshots_from.min(end);
        own.bytes = own.entries.iter().map(|logged| logged.size).sum();
        let clear = own.entries.iter().skip(own.offset(own.snapshots_from));
        own.snapshot_bytes = clear.map(|logged| logged.size).sum();
        own
    }

    /// Returns `true` if truncation is worthwhile.
    fn is_too_long(&self) -> bool {
        self.entries.len() > MAX_ENTRIES.count + TRUNCATION_SLACK
            || self.bytes > MAX_ENTRIES.bytes
            || self.end() - self.snapshots_from > MAX_SNAPSHOTS.count + TRUNCATION_SLACK
            || self.snapshot_bytes > MAX_SNAPSHOTS.bytes
    }

    fn has_too_many_snapshots(&self) -> bool {
        self.end() - self.snapshots_from > MAX_SNAPSHOTS.count
            || self.snapshot_bytes > MAX_SNAPSHOTS.bytes
    }

    /// Truncates old entries, up to this entry at most.
    fn trim(&mut self, until: usize) {
        while self.has_too_many_snapshots() && self.snapshots_from < until {
            let place = self.offset(self.snapshots_from);
            self.entries[place].after = None;
            self.snapshot_bytes -= self.entries[place].size;
            self.snapshots_from += 1;
            self.start = None;
        }
        while (self.entries.len() > MAX_ENTRIES.count || self.bytes > MAX_ENTRIES.bytes)
            && self.truncated < until
        {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.start = oldest.after;
            if self.snapshots_from == self.truncated {
                self.snapshots_from += 1;
                self.snapshot_bytes -= oldest.size;
            }
            self.bytes -= oldest.size;
            self.before = oldest.entry.at;
            self.truncated += 1;
        }
    }
}

/// Bytes of the documents in a change.
fn size_of(change: &Change) -> usize {
    match change {
        Change::Insert { document, .. } | Change::Replace { document, .. } => {
            size_of_document(document)
        }
        Change::Delete { .. }
        | Change::CreateCollection { .. }
        | Change::ModifyCollection { .. }
        | Change::DropCollection { .. }
        | Change::RenameCollection { .. }
        | Change::CreateIndex { .. }
        | Change::ModifyIndex { .. }
        | Change::DropIndex { .. }
        | Change::DropDatabase { .. }
        | Change::Noop(_) => 0,
    }
}
