//! Figures of a run: the timeline, attempts, recoveries, errors.

mod recovery;
mod timeline;

use std::{collections::BTreeMap, time::Duration};

use steadfast_report::quantiles::quantile;

pub(super) use self::{
    recovery::Recovery,
    timeline::{Bin, Timeline},
};
use super::{
    account::{Account, Answer, Kind, Record, ResultClass},
    plan::Fault,
};

/// Figures of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// All operations.
    pub(super) all: Operations,
    /// Operations by kind.
    pub(super) kinds: BTreeMap<Kind, Operations>,
    pub(super) timeline: Timeline,
    /// Failovers in order of time.
    pub(super) recoveries: Vec<Recovery>,
    /// Errors by kind, the most frequent first.
    pub(super) errors: Vec<ErrorFigures>,
    /// Faults that happened.
    pub(super) faults: BTreeMap<Fault, FaultTotals>,
}

/// Operations that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Operations {
    pub(super) answers: Answers,
    /// Number of operations by number of attempts, which is 0 if no server was selected in time.
    pub(super) by_attempts: BTreeMap<u32, u64>,
    /// Failed attempts, including those of operations that succeeded later.
    pub(super) failed_attempts: u64,
    pub(super) latency: Latency,
}

impl Operations {
    /// Returns the number of operations.
    pub(super) fn count(&self) -> u64 {
        self.answers.count()
    }

    /// Returns the number of attempts.
    pub(super) fn attempts(&self) -> u64 {
        self.by_attempts.iter().map(|(attempts, count)| u64::from(*attempts) * count).sum()
    }

    /// Returns the number of operations with more than one attempt.
    pub(super) fn retried(&self) -> u64 {
        self.by_attempts.iter().filter(|(attempts, _)| **attempts > 1).map(|(_, count)| count).sum()
    }
}

/// Number of operations by the class of their result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    /// Succeeded, including those with a wrong result.
    pub(super) acknowledged: u64,
    /// Failed with an error that excludes that they were applied.
    pub(super) not_applied: u64,
    /// Failed with an error that does not exclude that they were applied.
    pub(super) in_doubt: u64,
}

impl Answers {
    pub(super) fn count(&self) -> u64 {
        self.acknowledged + self.not_applied + self.in_doubt
    }

    pub(super) fn failed(&self) -> u64 {
        self.not_applied + self.in_doubt
    }

    fn add(&mut self, answer: &Answer) {
        let counter = match answer.class() {
            ResultClass::Acknowledged => &mut self.acknowledged,
            ResultClass::NotApplied => &mut self.not_applied,
            ResultClass::InDoubt => &mut self.in_doubt,
        };
        *counter += 1;
    }
}

/// Latency of operations with all their attempts, including failed ones. Zero without operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Latency {
    pub(super) p50: Duration,
    pub(super) p90: Duration,
    pub(super) p99: Duration,
    pub(super) p999: Duration,
    pub(super) max: Duration,
}

impl Latency {
    /// Returns the quantiles of durations in any order.
    fn of(mut took: Vec<Duration>) -> Self {
        took.sort_unstable();
        let at = |per_mille| quantile(&took, per_mille).unwrap_or_default();
        Self { p50: at(500), p90: at(900), p99: at(990), p999: at(999), max: at(1000) }
    }
}

/// A kind of error, and the outcomes of the operations that had it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ErrorFigures {
    /// [`Failure::what`](super::account::Failure) of the attempts.
    pub(super) what: String,
    /// Number of attempts.
    pub(super) attempts: u64,
    /// Operations with at least one such attempt, by the class of their result.
    pub(super) answers: Answers,
}

/// Incidents of a kind of fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FaultTotals {
    pub(super) incidents: u64,
    /// Requests that were hit, if that is recorded.
    pub(super) hits: u64,
    /// Hits after which the server executed the command and the reply was lost.
    pub(super) lost_replies: u64,
    /// Total duration.
    pub(super) lasted: Duration,
}

impl Figures {
    /// Returns `true` if the plan has cuts, but no reply of an executed write was lost.
    pub(super) fn proves_little(&self, account: &Account) -> bool {
        let cuts = self.faults.get(&Fault::Cuts).copied().unwrap_or_default();
        account.plan.has(Fault::Cuts) && cuts.lost_replies == 0
    }

    /// Returns the figures of a run.
    pub(super) fn of(account: &Account) -> Self {
        Self {
            all: operations(account.records.iter()),
            kinds: kinds(&account.records),
            timeline: Timeline::of(account),
            recoveries: Recovery::of(account),
            errors: errors(&account.records),
            faults: faults(account),
        }
    }
}

fn operations<'a>(records: impl Iterator<Item = &'a Record>) -> Operations {
    let mut all = Operations::default();
    let mut took = Vec::new();
    for record in records {
        all.answers.add(&record.answer);
        *all.by_attempts.entry(record.attempts).or_default() += 1;
        all.failed_attempts += record.failures.len() as u64;
        // The latency of a dropped operation is determined by its caller.
        if record.answer != Answer::Dropped {
            took.push(record.took);
        }
    }
    all.latency = Latency::of(took);
    all
}

fn kinds(records: &[Record]) -> BTreeMap<Kind, Operations> {
    let mut by_kind: BTreeMap<Kind, Vec<&Record>> = BTreeMap::new();
    for record in records {
        by_kind.entry(record.kind).or_default().push(record);
    }
    by_kind.into_iter().map(|(kind, records)| (kind, operations(records.into_iter()))).collect()
}

fn errors(records: &[Record]) -> Vec<ErrorFigures> {
    let mut errors: BTreeMap<&str, ErrorFigures> = BTreeMap::new();
    for record in records {
        for (nth, failure) in record.failures.iter().enumerate() {
            let what = failure.what.as_str();
            let met = errors.entry(what).or_default();
            met.attempts += 1;
            if record.failures[..nth].iter().all(|earlier| earlier.what != what) {
                met.answers.add(&record.answer);
            }
        }
    }
    let named = |(what, met): (&str, ErrorFigures)| ErrorFigures { what: what.to_owned(), ..met };
    let mut errors: Vec<ErrorFigures> = errors.into_iter().map(named).collect();
    // Stable: errors with the same frequency stay in order of their names.
    errors.sort_by_key(|met| std::cmp::Reverse(met.attempts));
    errors
}

fn faults(account: &Account) -> BTreeMap<Fault, FaultTotals> {
    let mut faults: BTreeMap<Fault, FaultTotals> = BTreeMap::new();
    for incident in &account.incidents {
        let happened = faults.entry(incident.fault).or_default();
        happened.incidents += 1;
        happened.hits += incident.hits;
        happened.lost_replies += incident.lost_replies;
        happened.lasted += incident.ended.saturating_sub(incident.began);
    }
    faults
}

#[cfg(test)]
mod tests;
