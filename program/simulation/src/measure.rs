//! Counters of an experiment, and the figures calculated from them.

use std::time::Duration;

use serde::Serialize;
use steadfast_report::quantiles::Histogram;

use crate::{MILLISECOND, Nanos, SECOND, scenario::Scenario};

/// Length of the windows in which recovery after the overload is measured.
const WINDOW: Nanos = 100 * MILLISECOND;
/// Share of the operations of a window that must succeed in time for the server to count as recovered.
const RECOVERED_SHARE: f64 = 0.95;

/// Number of operations and attempts by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationCounts {
    /// Operations that began.
    pub begun: u64,
    /// Operations that succeeded.
    pub succeeded: u64,
    /// Operations that failed.
    pub failed: u64,
    /// Operations that had not ended at the end of the experiment.
    pub in_flight: u64,
    /// Attempts of all operations.
    pub attempts: u64,
    /// Retries that the server rejected.
    pub retries_shed: u64,
}

/// Figures of an experiment. Those without another remark are of the overload.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Offered load, as a multiple of the capacity.
    pub load: f64,
    /// Name of the strategy.
    pub strategy: &'static str,
    /// Operations begun per second.
    pub offered: f64,
    /// Operations succeeded per second.
    pub goodput: f64,
    /// Goodput as a part of the capacity.
    pub goodput_share: f64,
    /// Goodput in the last quarter of the overload, as a part of the capacity.
    pub late_goodput_share: f64,
    /// Goodput in each second of the experiment, as a part of the capacity.
    pub goodput_share_by_second: Vec<f64>,
    /// Mean number of attempts per operation.
    pub attempts_per_operation: f64,
    /// Share of the operations that failed.
    pub failed_share: f64,
    /// Median latency of successful operations, in milliseconds.
    pub median_ms: f64,
    /// 99th percentile of the latency of successful operations, in milliseconds.
    pub p99_ms: f64,
    /// Seconds from the end of the overload to the recovery: 95 % of the operations that begin in a tenth of a
    /// second succeed, in less time than half of a full queue takes. `None` without recovery.
    pub recovered_after: Option<f64>,
    /// Retries omitted because a budget had no token, in the whole experiment.
    #[serde(rename = "deniedRetries")]
    pub denied_retries: u64,
    /// Number of operations in the whole experiment.
    #[serde(rename = "counts")]
    pub counts: OperationCounts,
}

/// Counters of a running experiment.
#[derive(Debug)]
pub struct Tally {
    scenario: Scenario,
    /// Operations of the whole experiment.
    pub counts: OperationCounts,
    overload: OperationCounts,
    latencies: Histogram,
    succeeded_late: u64,
    succeeded_by_second: Vec<u64>,
    begun_by_window: Vec<u64>,
    in_time_by_window: Vec<u64>,
}

impl Tally {
    /// Returns counters that are zero.
    pub fn new(scenario: Scenario) -> Self {
        let [_, _, end] = scenario.phases();
        let windows = slot(scenario.after, WINDOW);
        Self {
            scenario,
            counts: OperationCounts::default(),
            overload: OperationCounts::default(),
            latencies: Histogram::default(),
            succeeded_late: 0,
            succeeded_by_second: vec![0; slot(end, SECOND) + 1],
            begun_by_window: vec![0; windows],
            in_time_by_window: vec![0; windows],
        }
    }

    /// Counts the beginning of an operation.
    pub fn begun(&mut self, at: Nanos) {
        self.counts.begun += 1;
        let [_, ends, _] = self.scenario.phases();
        let window = at.checked_sub(ends).map(|since| slot(since, WINDOW));
        if let Some(begun) = window.and_then(|window| self.begun_by_window.get_mut(window)) {
            *begun += 1;
        }
    }

    /// Counts an attempt.
    pub fn sent(&mut self) {
        self.counts.attempts += 1;
    }

    /// Counts the rejection of an operation's latest attempt.
    pub fn shed(&mut self, attempts: u32) {
        self.counts.retries_shed += u64::from(attempts > 1);
    }

    /// Counts the success of an operation.
    pub fn succeeded(&mut self, began: Nanos, at: Nanos, attempts: u32) {
        self.counts.succeeded += 1;
        let [begins, ends, _] = self.scenario.phases();
        if (begins..ends).contains(&at) {
            self.overload.succeeded += 1;
            self.succeeded_late += u64::from(at >= ends - self.scenario.overload / 4);
            self.latencies.add(Duration::from_nanos(at - began));
        }
        if let Some(second) = self.succeeded_by_second.get_mut(slot(at, SECOND)) {
            *second += 1;
        }
        let is_in_time = at - began <= self.scenario.queue / 2 + self.scenario.round_trip;
        let window = began.checked_sub(ends).map(|since| slot(since, WINDOW));
        if let Some(in_time) = window.and_then(|window| self.in_time_by_window.get_mut(window)) {
            *in_time += u64::from(is_in_time);
        }
        self.ended(began, attempts);
    }

    /// Counts the failure of an operation.
    pub fn failed(&mut self, began: Nanos, attempts: u32) {
        self.counts.failed += 1;
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

    /// Returns the figures of the experiment.
    pub fn report(self, denied_retries: u64) -> Report {
        let scenario = self.scenario;
        let goodput = ratio(self.overload.succeeded, scenario.overload) * 1e9;
        let late = ratio(self.succeeded_late, scenario.overload / 4) * 1e9;
        let by_second = self.succeeded_by_second.iter();
        let millis = |per_mille| self.latencies.quantile(per_mille).as_secs_f64() * 1e3;
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
            median_ms: millis(500),
            p99_ms: millis(990),
            recovered_after: self.recovered_after(),
            denied_retries,
            counts: self.counts,
        }
    }

    fn recovered_after(&self) -> Option<f64> {
        let windows = self.begun_by_window.iter().zip(&self.in_time_by_window);
        // Operations of the last window may not have ended.
        let measured = self.begun_by_window.len().saturating_sub(1);
        let is_overloaded = |(&begun, &in_time)| (in_time as f64) < RECOVERED_SHARE * begun as f64;
        let last = windows.take(measured).map(is_overloaded).enumerate().rfind(|(_, it)| *it);
        let until = last.map_or(0, |(window, _)| window + 1);
        (until < measured).then(|| until as f64 * WINDOW as f64 / SECOND as f64)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn slot(at: Nanos, width: Nanos) -> usize {
    usize::try_from(at / width).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_is_after_the_last_window_with_late_or_failed_operations() {
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
