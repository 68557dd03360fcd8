//! Journal: the application's durable record of increments. The test keeps it in memory instead of on disk.
//! Also checks the counters at the end.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Mutex, MutexGuard},
};

use tokio::sync::watch;

use crate::rng::Rng;

/// Counters: one document for all tasks, and one for each hour of two days.
const TODAY: &str = "2016-06-28";
const HOURS: u64 = 48;

/// Each amount is 1 plus a unique number above these bits. The low bits of a counter are thus the number of
/// its increments, and a missing increment cannot compensate for one that was counted twice.
const ID_SHIFT: u32 = 20;
const ID_COUNT: u64 = 1 << 28;

/// Returns an amount that no other increment has.
pub(super) fn unique_amount(rng: &mut Rng) -> i64 {
    1 + (i64::try_from(rng.below(ID_COUNT)).expect("28 bits") << ID_SHIFT)
}

/// Recorded increment that is not known to be counted.
#[derive(Clone, Debug)]
pub(super) struct Entry<T> {
    pub(super) day: String,
    pub(super) by: i64,
    /// State of the strategy that identifies the increment.
    pub(super) ticket: T,
}

/// Record of all increments.
pub(super) struct Journal<T> {
    state: Mutex<JournalState<T>>,
    started: watch::Sender<usize>,
    counted: watch::Sender<usize>,
}

struct JournalState<T> {
    /// Number of events that have not begun.
    remaining: usize,
    /// Open entries of each page. Each page belongs to one concurrent increment of a task.
    open: Vec<Vec<Entry<T>>>,
    /// Entries of crashed tasks, which another task completes later.
    abandoned: Vec<Entry<T>>,
    counted: Vec<(String, i64)>,
    never_begun: usize,
}

impl<T: Clone> Journal<T> {
    pub(super) fn of(events: usize, pages: usize) -> Self {
        let state = JournalState {
            remaining: events,
            open: vec![Vec::new(); pages],
            abandoned: Vec::new(),
            counted: Vec::new(),
            never_begun: 0,
        };
        let (started, counted) = (watch::Sender::new(0), watch::Sender::new(0));
        Self { state: Mutex::new(state), started, counted }
    }

    fn lock(&self) -> MutexGuard<'_, JournalState<T>> {
        self.state.lock().expect("no task panics with the lock")
    }

    /// Returns the counter of the next event. One event in eight uses the shared document.
    pub(super) fn next_event(&self, rng: &mut Rng) -> Option<String> {
        let mut state = self.lock();
        state.remaining = state.remaining.checked_sub(1)?;
        self.started.send_modify(|started| *started += 1);
        Some(match rng.one_in(8) {
            true => TODAY.to_owned(),
            false => format!("{TODAY} +{}h", rng.below(HOURS)),
        })
    }

    /// Records an increment before it is sent.
    pub(super) fn begin(&self, page: usize, entry: Entry<T>) {
        self.lock().open[page].push(entry);
    }

    /// Returns an open entry of a page: a replacement first, then the oldest.
    pub(super) fn open(&self, page: usize) -> Option<Entry<T>> {
        self.lock().open[page].first().cloned()
    }

    /// Records that an entry is counted.
    pub(super) fn close(&self, page: usize, entry: &Entry<T>) {
        self.remove(page, entry);
        self.count(&entry.day, entry.by);
    }

    /// Replaces an entry that will never be counted. The replacement comes first, because its time window is
    /// short.
    pub(super) fn replace(&self, page: usize, entry: &Entry<T>, replacement: Entry<T>) {
        self.remove(page, entry);
        let mut state = self.lock();
        state.never_begun += 1;
        state.open[page].insert(0, replacement);
    }

    fn remove(&self, page: usize, entry: &Entry<T>) {
        let open = &mut self.lock().open[page];
        let place = open.iter().position(|other| other.by == entry.by && other.day == entry.day);
        open.remove(place.expect("an open entry"));
    }

    /// Records an increment that was counted without an entry.
    pub(super) fn count(&self, day: &str, by: i64) {
        self.lock().counted.push((day.to_owned(), by));
        self.counted.send_modify(|counted| *counted += 1);
    }

    /// Moves the entries of a crashed task to the abandoned ones.
    pub(super) fn abandon(&self, page: usize) {
        let mut state = self.lock();
        let left = mem::take(&mut state.open[page]);
        state.abandoned.extend(left);
    }

    /// Moves all abandoned entries to a page.
    pub(super) fn adopt_abandoned(&self, page: usize) {
        let mut state = self.lock();
        let found = mem::take(&mut state.abandoned);
        state.open[page].extend(found);
    }

    /// Returns the number of events that have begun. The number of counted events is unsuitable as a measure
    /// of progress, because abandoned entries stay open until the end.
    pub(super) fn progress(&self) -> watch::Receiver<usize> {
        self.started.subscribe()
    }

    pub(super) fn counted(&self) -> usize {
        *self.counted.borrow()
    }

    pub(super) fn never_begun(&self) -> usize {
        self.lock().never_begun
    }

    /// Returns the differences between the journal and the counters.
    pub(super) fn check(&self, found: &BTreeMap<String, i64>) -> Vec<String> {
        let state = self.lock();
        assert!(
            state.open.iter().all(Vec::is_empty) && state.abandoned.is_empty(),
            "all entries are completed"
        );
        let mut expected = BTreeMap::new();
        for (day, by) in &state.counted {
            *expected.entry(day.as_str()).or_default() += by;
        }
        let is = |day: &&str| found.get(*day).copied().unwrap_or_default();
        let wrong = expected.iter().filter(|(day, expected)| is(day) != **expected);
        wrong.map(|(day, expected)| difference(day, *expected, is(day))).collect()
    }
}

fn difference(day: &str, expected: i64, found: i64) -> String {
    let number = |sum: i64| sum & ((1 << ID_SHIFT) - 1);
    let (expected_number, number) = (number(expected), number(found));
    let off = found - expected;
    format!("{day}: counted {number} instead of {expected_number}; the sum differs by {off}")
}
