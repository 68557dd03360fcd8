//! The log of a member: entries, and the data as it was after recent ones.
//!
//! Members whose logs agree share one branch, each up to its own end: a copy costs nothing, and an
//! entry is added to it once. Who adds another entry where somebody else has gone on already leaves
//! that branch for one of its own.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;

use super::{Entry, OpTime, TimestampOrder};
use crate::{
    change::Change,
    store::{Store, size_of_document},
};

/// How many entries a log keeps, and how many bytes of documents in them. A member that needs older
/// ones copies all data instead.
const KEPT_ENTRIES: Limit = Limit { count: 50_000, bytes: 256 << 20 };

/// After how many of its newest entries the data can still be seen, for reads of the past and for
/// rollbacks.
const KEPT_SNAPSHOTS: Limit = Limit { count: 2_000, bytes: 64 << 20 };

/// The data is kept after every so many entries; in between it is made again from the one before.
const SNAPSHOT_EVERY: usize = 32;

/// How many entries more than it keeps a log may have before it forgets some.
const SLACK: usize = 256;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
struct Limit {
    count: usize,
    bytes: usize,
}

/// The log of one member. A clone costs nothing.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    branch: Arc<Mutex<Branch>>,
    /// How many entries it has ever had, those that are forgotten among them.
    end: usize,
    last: OpTime,
}

/// Entries that several logs share.
#[derive(Clone, Debug)]
struct Branch {
    entries: VecDeque<Logged>,
    bytes: usize,
    /// How many entries are forgotten, and the last of them.
    forgotten: usize,
    before: OpTime,
    /// The data before the first entry, if it is known.
    start: Option<Store>,
    /// After how many entries the data is not known any more, those that are forgotten among them.
    blurred: usize,
    /// How many bytes of documents the others have.
    clear_bytes: usize,
}

/// An entry, and what is known of it.
#[derive(Clone, Debug)]
struct Logged {
    entry: Arc<Entry>,
    /// When a primary wrote it.
    written: Instant,
    /// How many bytes of documents it has.
    size: usize,
    /// The data after it, for some.
    after: Option<Store>,
}

impl Default for Log {
    fn default() -> Self {
        let branch = Branch {
            entries: VecDeque::new(),
            bytes: 0,
            forgotten: 0,
            before: OpTime::default(),
            // There was no data before the first entry.
            start: Some(Store::default()),
            blurred: 0,
            clear_bytes: 0,
        };
        Self { branch: Arc::new(Mutex::new(branch)), end: 0, last: OpTime::default() }
    }
}

impl Log {
    /// When its newest entry was written.
    pub(crate) fn last(&self) -> OpTime {
        self.last
    }

    /// Whether it has this very entry, or begins right after it.
    pub(crate) fn has(&self, at: OpTime) -> bool {
        at == self.last || self.position(&self.branch(), at).is_some()
    }

    /// What came last before its first entry: what is older is forgotten.
    pub(crate) fn before(&self) -> OpTime {
        let branch = self.branch();
        if branch.forgotten > self.end { self.last } else { branch.before }
    }

    /// All entries, in order.
    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        self.after(TimestampOrder::default())
    }

    /// The entries after a time, in order.
    pub(crate) fn after(&self, at: TimestampOrder) -> Vec<Arc<Entry>> {
        let branch = self.branch();
        let from = branch.count_until(at);
        let to = branch.place(self.end);
        (from..to).map(|place| Arc::clone(&branch.entries[place].entry)).collect()
    }

    /// When the first entry after a time was written.
    pub(crate) fn next_written(&self, at: TimestampOrder) -> Option<Instant> {
        let branch = self.branch();
        let place = branch.count_until(at);
        (place < branch.place(self.end)).then(|| branch.entries[place].written)
    }

    /// Adds an entry, after which the data is this.
    pub(crate) fn push(&mut self, entry: Arc<Entry>, written: Instant, after: &Store) {
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
        branch.entries.push_back(Logged { entry, written, size, after });
        branch.bytes += size;
        branch.clear_bytes += size;
        drop(branch);
        self.end += 1;
    }

    /// Forgets what is too old: nothing that not most members have.
    pub(crate) fn trim(&self, committed: OpTime) {
        let mut branch = self.branch();
        if branch.is_too_long() {
            let until = branch.count_before(committed.timestamp);
            branch.trim(until);
        }
    }

    /// The data after the newest entry that is not newer than a time, if that is still known.
    pub(crate) fn data_until(&self, at: TimestampOrder) -> Option<Store> {
        let branch = self.branch();
        let count = self.count_until(&branch, at)?;
        branch.data_at(branch.forgotten + count)
    }

    /// The data that a snapshot of a time shows, if it is still known. A transaction over several
    /// shards that was prepared by then may have been committed by a later entry.
    pub(crate) fn snapshot(&self, at: TimestampOrder) -> Option<Store> {
        let branch = self.branch();
        let count = self.count_until(&branch, at)?;
        let mut store = branch.data_at(branch.forgotten + count)?;
        let later = branch.entries.range(count..branch.place(self.end));
        for logged in later.filter(|logged| logged.entry.is_visible_at(at)) {
            // Nothing else changed its documents while it was prepared.
            store.apply(&logged.entry).ok()?;
        }
        Some(store)
    }

    /// The number of kept entries that are not newer than a time. `None` if older ones are missing.
    fn count_until(&self, branch: &Branch, at: TimestampOrder) -> Option<usize> {
        let known = branch.forgotten <= self.end;
        known.then(|| branch.count_until(at).min(branch.place(self.end)))
    }

    /// Goes back to an entry and gives the data as it was then, if both are still known.
    pub(crate) fn roll_back(&mut self, to: OpTime) -> Option<Store> {
        let branch = self.branch();
        let end = self.position(&branch, to)?;
        let store = branch.data_at(end)?;
        drop(branch);
        (self.end, self.last) = (end, to);
        Some(store)
    }

    /// The newest entry that both logs have.
    pub(crate) fn common(&self, other: &Self) -> Option<OpTime> {
        let entries = self.entries();
        let before = self.before();
        entries.iter().rev().map(|entry| entry.at).chain([before]).find(|at| other.has(*at))
    }

    /// The part of this log that was written by then, of which another log has a part already; and the
    /// data after it, made of that log's.
    pub(crate) fn until(&self, written: Instant, has: &Self, data: &Store) -> (Self, Store) {
        let branch = self.branch();
        let mut end = self.position(&branch, has.last).unwrap_or(self.end);
        let from = branch.place(end);
        let late = branch.entries.range(from..branch.place(self.end));
        end += late.take_while(|logged| logged.written <= written).count();
        let to = branch.place(end);
        let last = if to == from { has.last } else { branch.entries[to - 1].entry.at };
        let store = branch.data_at(end).unwrap_or_else(|| {
            let mut store = data.clone();
            for logged in branch.entries.range(from..to) {
                // It is the same data that the entry was applied to before.
                let _ = store.apply(&logged.entry);
            }
            store
        });
        drop(branch);
        (Self { branch: Arc::clone(&self.branch), end, last }, store)
    }

    /// How many entries there have been when this was the last one, if it is one of them.
    fn position(&self, branch: &Branch, at: OpTime) -> Option<usize> {
        if branch.forgotten > self.end {
            return None;
        }
        let count = branch.count_until(at.timestamp);
        let there = match count {
            0 => branch.before,
            count => branch.entries[count - 1].entry.at,
        };
        let position = branch.forgotten + count;
        (there == at && position <= self.end).then_some(position)
    }

    fn branch(&self) -> MutexGuard<'_, Branch> {
        // Nothing that can panic is done halfway.
        self.branch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Branch {
    /// How many entries there have been.
    fn end(&self) -> usize {
        self.forgotten + self.entries.len()
    }

    /// Where among those that are kept the entry of this number would stand.
    fn place(&self, number: usize) -> usize {
        number.saturating_sub(self.forgotten)
    }

    /// How many of those that are kept are not after a time.
    fn count_until(&self, at: TimestampOrder) -> usize {
        // Who asks mostly asks for the newest.
        let newest = self.entries.iter().rev().take(8);
        let near = newest.take_while(|logged| logged.entry.at.timestamp > at).count();
        if near < 8 {
            return self.entries.len() - near;
        }
        self.entries.partition_point(|logged| logged.entry.at.timestamp <= at)
    }

    /// How many entries there had been before a time.
    fn count_before(&self, at: TimestampOrder) -> usize {
        let kept = self.entries.partition_point(|logged| logged.entry.at.timestamp < at);
        self.forgotten + kept
    }

    /// The data after so many entries, if it is known.
    fn data_at(&self, count: usize) -> Option<Store> {
        let to = self.place(count);
        let known = (0..to).rev().take(SNAPSHOT_EVERY).find(|it| self.entries[*it].after.is_some());
        let (from, mut store) = match known {
            Some(place) => (place + 1, self.entries[place].after.clone()?),
            None if to < SNAPSHOT_EVERY => (0, self.start.clone()?),
            None => return None,
        };
        for logged in self.entries.range(from..to) {
            // It is the same data that the entry was applied to before.
            store.apply(&logged.entry).ok()?;
        }
        Some(store)
    }

    /// The same up to an end, for somebody who goes on differently from there.
    fn fork(&self, end: usize, last: OpTime) -> Self {
        let mut own = self.clone();
        own.entries.truncate(self.place(end));
        if end < self.forgotten {
            (own.forgotten, own.before, own.start) = (end, last, None);
        }
        own.blurred = own.blurred.min(end);
        own.bytes = own.entries.iter().map(|logged| logged.size).sum();
        let clear = own.entries.iter().skip(own.place(own.blurred));
        own.clear_bytes = clear.map(|logged| logged.size).sum();
        own
    }

    /// Whether it is worth while to forget something.
    fn is_too_long(&self) -> bool {
        self.entries.len() > KEPT_ENTRIES.count + SLACK
            || self.bytes > KEPT_ENTRIES.bytes
            || self.end() - self.blurred > KEPT_SNAPSHOTS.count + SLACK
            || self.clear_bytes > KEPT_SNAPSHOTS.bytes
    }

    fn is_too_clear(&self) -> bool {
        self.end() - self.blurred > KEPT_SNAPSHOTS.count || self.clear_bytes > KEPT_SNAPSHOTS.bytes
    }

    /// Forgets what is too old, up to that entry at most.
    fn trim(&mut self, until: usize) {
        while self.is_too_clear() && self.blurred < until {
            let place = self.place(self.blurred);
            self.entries[place].after = None;
            self.clear_bytes -= self.entries[place].size;
            self.blurred += 1;
            self.start = None;
        }
        while (self.entries.len() > KEPT_ENTRIES.count || self.bytes > KEPT_ENTRIES.bytes)
            && self.forgotten < until
        {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.start = oldest.after;
            if self.blurred == self.forgotten {
                self.blurred += 1;
                self.clear_bytes -= oldest.size;
            }
            self.bytes -= oldest.size;
            self.before = oldest.entry.at;
            self.forgotten += 1;
        }
    }
}

/// How many bytes of documents a change has.
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
        | Change::Note(_) => 0,
    }
}
