//! What a crash leaves: the application's own record of what it wants counted, kept by the test in the place
//! of a disk; and the judge of the counters in the end.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Mutex, MutexGuard},
};

use tokio::sync::watch;

use crate::dice::Dice;

/// The documents that are counted in: one that everybody uses, and one for each hour of two days.
const TODAY: &str = "2016-06-28";
const HOURS: u64 = 48;

/// How the amount of an increment is told from that of all others: it is one, and a number of its own far
/// above it. So a counter shows how many increments it is the sum of; and one that is missing does not make up
/// for one that was counted twice.
const MARKED_ABOVE: u32 = 20;
const MARKS: u64 = 1 << 28;

/// An increment by an amount that no other has.
pub(super) fn marked(dice: &mut Dice) -> i64 {
    1 + (i64::try_from(dice.below(MARKS)).expect("28 bits") << MARKED_ABOVE)
}

/// An increment that is written down, and not known to be done.
#[derive(Clone, Debug)]
pub(super) struct Entry<T> {
    pub(super) day: String,
    pub(super) by: i64,
    /// What the way of counting needs to know again what it has begun.
    pub(super) ticket: T,
}

/// Everything that was written down.
pub(super) struct Journal<T> {
    pages: Mutex<Pages<T>>,
    come: watch::Sender<usize>,
    counted: watch::Sender<usize>,
}

struct Pages<T> {
    /// How many events there are still to come.
    to_come: usize,
    /// What a task has begun, on pages of its own.
    open: Vec<Vec<Entry<T>>>,
    /// What a task had begun that crashed and was not started again: somebody finds it later.
    lying: Vec<Entry<T>>,
    counted: Vec<(String, i64)>,
    never_begun: usize,
}

impl<T: Clone> Journal<T> {
    pub(super) fn of(events: usize, pages: usize) -> Self {
        let pages = Pages {
            to_come: events,
            open: vec![Vec::new(); pages],
            lying: Vec::new(),
            counted: Vec::new(),
            never_begun: 0,
        };
        let (come, counted) = (watch::Sender::new(0), watch::Sender::new(0));
        Self { pages: Mutex::new(pages), come, counted }
    }

    fn pages(&self) -> MutexGuard<'_, Pages<T>> {
        self.pages.lock().expect("nobody panics with the journal in hand")
    }

    /// The next event: where it is to be counted. One in eight is in one document.
    pub(super) fn next_event(&self, dice: &mut Dice) -> Option<String> {
        let mut pages = self.pages();
        pages.to_come = pages.to_come.checked_sub(1)?;
        self.come.send_modify(|come| *come += 1);
        Some(match dice.one_in(8) {
            true => TODAY.to_owned(),
            false => format!("{TODAY} +{}h", dice.below(HOURS)),
        })
    }

    /// Before anything is sent.
    pub(super) fn begin(&self, page: usize, entry: Entry<T>) {
        self.pages().open[page].push(entry);
    }

    /// What was begun on a page and is not known to have ended: what was begun anew, then the oldest.
    pub(super) fn open(&self, page: usize) -> Option<Entry<T>> {
        self.pages().open[page].first().cloned()
    }

    /// It is counted.
    pub(super) fn close(&self, page: usize, entry: &Entry<T>) {
        self.strike_out(page, entry);
        self.count(&entry.day, entry.by);
    }

    /// It will never be counted. The event has still happened: it is begun anew, and that before all others, for
    /// its time to begin in is short.
    pub(super) fn begin_anew(&self, page: usize, entry: &Entry<T>, anew: Entry<T>) {
        self.strike_out(page, entry);
        let mut pages = self.pages();
        pages.never_begun += 1;
        pages.open[page].insert(0, anew);
    }

    fn strike_out(&self, page: usize, entry: &Entry<T>) {
        let open = &mut self.pages().open[page];
        let place = open.iter().position(|other| other.by == entry.by && other.day == entry.day);
        open.remove(place.expect("it is open"));
    }

    /// It was counted without having been written down.
    pub(super) fn count(&self, day: &str, by: i64) {
        self.pages().counted.push((day.to_owned(), by));
        self.counted.send_modify(|counted| *counted += 1);
    }

    /// The task has crashed, and nobody looks after what it had begun for the time being.
    pub(super) fn leave_lying(&self, page: usize) {
        let mut pages = self.pages();
        let left = mem::take(&mut pages.open[page]);
        pages.lying.extend(left);
    }

    /// A task finds what was left lying.
    pub(super) fn pick_up(&self, page: usize) {
        let mut pages = self.pages();
        let found = mem::take(&mut pages.lying);
        pages.open[page].extend(found);
    }

    /// How many events have come, as it grows. How many of them are counted does not: what was left lying
    /// waits for the end, and on a busy machine, where clients get little done before they are killed, that
    /// may be most.
    pub(super) fn progress(&self) -> watch::Receiver<usize> {
        self.come.subscribe()
    }

    pub(super) fn counted(&self) -> usize {
        *self.counted.borrow()
    }

    pub(super) fn never_begun(&self) -> usize {
        self.pages().never_begun
    }

    /// What is wrong with these counters.
    pub(super) fn judge(&self, found: &BTreeMap<String, i64>) -> Vec<String> {
        let pages = self.pages();
        assert!(pages.open.iter().all(Vec::is_empty) && pages.lying.is_empty(), "all is settled");
        let mut wanted = BTreeMap::new();
        for (day, by) in &pages.counted {
            *wanted.entry(day.as_str()).or_default() += by;
        }
        let is = |day: &&str| found.get(*day).copied().unwrap_or_default();
        let wrong = wanted.iter().filter(|(day, wanted)| is(day) != **wanted);
        wrong.map(|(day, wanted)| complaint(day, *wanted, is(day))).collect()
    }
}

fn complaint(day: &str, wanted: i64, is: i64) -> String {
    let number = |sum: i64| sum & ((1 << MARKED_ABOVE) - 1);
    let (wanted_number, number) = (number(wanted), number(is));
    let off = is - wanted;
    format!("{day}: {number} instead of {wanted_number} were counted, the sum is off by {off}")
}
