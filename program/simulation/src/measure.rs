//! What is counted while time passes, and what it comes to.

use serde::Serialize;

use crate::{MILLISECOND, Nanos, SECOND, scenario::Scenario};

/// After the overload, how well it goes is judged for each span of this length.
const WINDOW: Nanos = 100 * MILLISECOND;
/// All is well again when this part of the operations that begin in a window end well and soon.
const WELL: f64 = 0.95;

/// All operations, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Books {
    /// Begun.
    pub begun: u64,
    /// Served.
    pub succeeded: u64,
    /// Turned away for good.
    pub failed: u64,
    /// Neither, when time was up.
    pub in_flight: u64,
    /// How often something was sent.
    pub attempts: u64,
    /// How often a retry was turned away.
    pub retries_shed: u64,
}

/// How an experiment went. Unless it says otherwise, a number is of the time of the overload.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What was asked for, as a multiple of the capacity.
    pub load: f64,
    /// How clients behaved.
    pub strategy: &'static str,
    /// Operations begun in a second.
    pub offered: f64,
    /// Operations that ended well in a second.
    pub goodput: f64,
    /// The same as a part of the capacity.
    pub goodput_share: f64,
    /// The same in the last quarter of the overload: what a long one comes to.
    pub late_goodput_share: f64,
    /// The same in each second from the beginning of all.
    pub goodput_share_by_second: Vec<f64>,
    /// How often an operation was sent, on average.
    pub attempts_per_operation: f64,
    /// The part of the operations that failed.
    pub failed_share: f64,
    /// How long half of those that succeeded took at most, in milliseconds.
    pub median_ms: f64,
    /// How long 99 of 100 of them took at most, in milliseconds.
    pub p99_ms: f64,
    /// How many seconds after the overload all was well again: 95 % of the operations that began
    /// in a tenth of a second ended well, and in less time than half of a full queue takes. None
    /// if it was not before the end.
    pub recovered_after: Option<f64>,
    /// How many retries were refused for want of a token, from beginning to end.
    pub refused_retries: u64,
    /// All operations from beginning to end.
    pub books: Books,
}

/// Counts.
#[derive(Debug)]
pub struct Tally {
    scenario: Scenario,
    /// From beginning to end.
    pub books: Books,
    overload: Books,
    latencies: Histogram,
    succeeded_late: u64,
    succeeded_by_second: Vec<u64>,
    begun_by_window: Vec<u64>,
    well_by_window: Vec<u64>,
}

impl Tally {
    /// Nothing yet.
    pub fn new(scenario: Scenario) -> Self {
        let [_, _, end] = scenario.phases();
        let windows = slot(scenario.after, WINDOW);
        Self {
            scenario,
            books: Books::default(),
            overload: Books::default(),
            latencies: Histogram::default(),
            succeeded_late: 0,
            succeeded_by_second: vec![0; slot(end, SECOND) + 1],
            begun_by_window: vec![0; windows],
            well_by_window: vec![0; windows],
        }
    }

    /// An operation begins.
    pub fn begun(&mut self, at: Nanos) {
        self.books.begun += 1;
        let [_, ends, _] = self.scenario.phases();
        let window = at.checked_sub(ends).map(|since| slot(since, WINDOW));
        if let Some(begun) = window.and_then(|window| self.begun_by_window.get_mut(window)) {
            *begun += 1;
        }
    }

    /// It is sent.
    pub fn sent(&mut self) {
        self.books.attempts += 1;
    }

    /// It is turned away, and was sent so often.
    pub fn shed(&mut self, attempts: u32) {
        self.books.retries_shed += u64::from(attempts > 1);
    }

    /// It ends well.
    pub fn succeeded(&mut self, began: Nanos, at: Nanos, attempts: u32) {
        self.books.succeeded += 1;
        let [begins, ends, _] = self.scenario.phases();
        if (begins..ends).contains(&at) {
            self.overload.succeeded += 1;
            self.succeeded_late += u64::from(at >= ends - self.scenario.overload / 4);
            self.latencies.add(at - began);
        }
        if let Some(second) = self.succeeded_by_second.get_mut(slot(at, SECOND)) {
            *second += 1;
        }
        let soon = at - began <= self.scenario.queue / 2 + self.scenario.round_trip;
        let window = began.checked_sub(ends).map(|since| slot(since, WINDOW));
        if let Some(well) = window.and_then(|window| self.well_by_window.get_mut(window)) {
            *well += u64::from(soon);
        }
        self.ended(began, attempts);
    }

    /// It fails for good.
    pub fn failed(&mut self, began: Nanos, attempts: u32) {
        self.books.failed += 1;
        let [begins, ends, _] = self.scenario.phases();
        self.overload.failed += u64::from((begins..ends).contains(&began));
        self.ended(began, attempts);
    }

    fn ended(&mut self, began: Nanos, attempts: u32) {
        let [begins, ends, _] = self.scenario.phases();
        if (begins..ends).contains(&began) {
            self.overload.begun += 1;
            self.overload.attempts += u64::from(attempts);
        }
    }

    /// What it comes to.
    pub fn report(self, refused_retries: u64) -> Report {
        let scenario = self.scenario;
        let goodput = ratio(self.overload.succeeded, scenario.overload) * 1e9;
        let late = ratio(self.succeeded_late, scenario.overload / 4) * 1e9;
        let by_second = self.succeeded_by_second.iter();
        Report {
            load: scenario.load,
            strategy: scenario.strategy.name(),
            offered: scenario.capacity() * scenario.load,
            goodput,
            goodput_share: goodput / scenario.capacity(),
            late_goodput_share: late / scenario.capacity(),
            goodput_share_by_second: by_second
                .take(slot(scenario.phases()[2], SECOND))
                .map(|&count| count as f64 / scenario.capacity())
                .collect(),
            attempts_per_operation: ratio(self.overload.attempts, self.overload.begun),
            failed_share: ratio(self.overload.failed, self.overload.begun),
            median_ms: self.latencies.percentile(0.5),
            p99_ms: self.latencies.percentile(0.99),
            recovered_after: self.recovered_after(),
            refused_retries,
            books: self.books,
        }
    }

    fn recovered_after(&self) -> Option<f64> {
        let windows = self.begun_by_window.iter().zip(&self.well_by_window);
        // What began in the last window may not have had its time.
        let judged = self.begun_by_window.len().saturating_sub(1);
        let ill = windows.take(judged).map(|(&begun, &well)| (well as f64) < WELL * begun as f64);
        let last_ill = ill.enumerate().rfind(|(_, ill)| *ill);
        let until = last_ill.map_or(0, |(window, _)| window + 1);
        (until < judged).then(|| until as f64 * WINDOW as f64 / SECOND as f64)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn slot(at: Nanos, width: Nanos) -> usize {
    usize::try_from(at / width).unwrap_or(usize::MAX)
}

/// Spans of time in slots that grow with them: each is wrong by less than 1 %.
#[derive(Clone, Debug, Default)]
struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// Slots for each doubling.
    const PER_DOUBLING: f64 = 100.0;

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is not negative"
    )]
    fn add(&mut self, span: Nanos) {
        let slot = ((span.max(1) as f64).log2() * Self::PER_DOUBLING) as usize;
        if slot >= self.counts.len() {
            self.counts.resize(slot + 1, 0);
        }
        self.counts[slot] += 1;
        self.total += 1;
    }

    /// In milliseconds; 0 if nothing was added.
    fn percentile(&self, part: f64) -> f64 {
        let wanted = part * self.total as f64;
        let mut seen = 0;
        for (slot, &count) in self.counts.iter().enumerate() {
            seen += count;
            if count > 0 && seen as f64 >= wanted {
                let middle = (slot as f64 + 0.5) / Self::PER_DOUBLING;
                return middle.exp2() / MILLISECOND as f64;
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_a_hundredth() {
        let mut histogram = Histogram::default();
        for millis in 1..=1000 {
            histogram.add(millis * MILLISECOND);
        }
        for (part, expected) in [(0.5, 500.0), (0.99, 990.0), (0.001, 1.0)] {
            let found = histogram.percentile(part);
            assert!((found - expected).abs() <= expected * 0.01, "{found} for {expected}");
        }
    }

    #[test]
    fn all_is_well_again_after_the_last_window_that_was_not() {
        let scenario = Scenario { after: 5 * SECOND, ..Scenario::default() };
        let ends = scenario.phases()[1];
        let mut tally = Tally::new(scenario);
        for window in 0..49 {
            for operation in 0..10 {
                let began = ends + window * WINDOW + operation * MILLISECOND;
                tally.begun(began);
                match window {
                    0..3 | 7 => tally.failed(began, 1),
                    8 => tally.succeeded(began, began + SECOND, 2),
                    _ => tally.succeeded(began, began + MILLISECOND, 1),
                }
            }
        }
        assert_eq!(tally.recovered_after(), Some(0.9));
    }
}
