//! What a run comes to in numbers: the timeline, attempts, recoveries, errors.

mod recovery;
mod timeline;

use std::{collections::BTreeMap, time::Duration};

use steadfast_report::quantiles::quantile;

pub(super) use self::{
    recovery::Recovery,
    timeline::{Bin, Timeline},
};
use super::{
    account::{Account, Answer, Kind, Record, Told},
    plan::Fault,
};

/// The numbers of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// All operations.
    pub(super) all: Operations,
    /// The same of each kind that there was.
    pub(super) kinds: BTreeMap<Kind, Operations>,
    pub(super) timeline: Timeline,
    /// Each incident after which the set needed another primary, in their order.
    pub(super) recoveries: Vec<Recovery>,
    /// Each kind of error, the most frequent first.
    pub(super) errors: Vec<Met>,
    /// Each fault that happened.
    pub(super) faults: BTreeMap<Fault, Happened>,
}

/// Operations that ended, and what it took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Operations {
    pub(super) answers: Answers,
    /// How many operations took so many attempts. None, where no server was found in time.
    pub(super) by_attempts: BTreeMap<u32, u64>,
    /// Attempts that failed, be it that another made them good.
    pub(super) failed_attempts: u64,
    pub(super) latency: Latency,
}

impl Operations {
    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.answers.count()
    }

    /// Commands that were sent for them.
    pub(super) fn attempts(&self) -> u64 {
        self.by_attempts.iter().map(|(attempts, count)| u64::from(*attempts) * count).sum()
    }

    /// Those that were sent more than once.
    pub(super) fn retried(&self) -> u64 {
        self.by_attempts.iter().filter(|(attempts, _)| **attempts > 1).map(|(_, count)| count).sum()
    }
}

/// What the application was told of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    /// That they are done; those with a result that cannot be are among them.
    pub(super) acknowledged: u64,
    /// That they failed, and have certainly written nothing.
    pub(super) not_applied: u64,
    /// That they failed, and may have written.
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
        let counter = match answer.told() {
            Told::Acknowledged => &mut self.acknowledged,
            Told::NotApplied => &mut self.not_applied,
            Told::InDoubt => &mut self.in_doubt,
        };
        *counter += 1;
    }
}

/// How long operations took, with all their attempts, be it that they failed. Zero, if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Latency {
    pub(super) p50: Duration,
    pub(super) p90: Duration,
    pub(super) p99: Duration,
    /// All but one in a thousand took no longer.
    pub(super) p999: Duration,
    pub(super) max: Duration,
}

impl Latency {
    /// Of so many, in any order.
    fn of(mut took: Vec<Duration>) -> Self {
        took.sort_unstable();
        let at = |per_mille| quantile(&took, per_mille).unwrap_or_default();
        Self { p50: at(500), p90: at(900), p99: at(990), p999: at(999), max: at(1000) }
    }
}

/// A kind of error, and what became of those who met it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Met {
    /// In the words of [`Failure::what`](super::account::Failure).
    pub(super) what: String,
    /// Attempts that failed so.
    pub(super) attempts: u64,
    /// Operations that met it at least once, by what the application was told of them in the end.
    pub(super) answers: Answers,
}

/// How often a fault happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Happened {
    pub(super) incidents: u64,
    /// Requests that it has met, where that is known.
    pub(super) hits: u64,
    /// Those among them that the server had executed when the reply was lost.
    pub(super) lost_replies: u64,
    /// How long, in all.
    pub(super) lasted: Duration,
}

impl Figures {
    /// Whether connections were to break, and none did at the moment that matters: when a write was executed, and
    /// its reply on the way.
    pub(super) fn proves_little(&self, account: &Account) -> bool {
        let cuts = self.faults.get(&Fault::Cuts).copied().unwrap_or_default();
        account.plan.has(Fault::Cuts) && cuts.lost_replies == 0
    }

    /// The figures of a run.
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
        // How long the caller waited for one that it dropped says nothing of the driver.
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

fn errors(records: &[Record]) -> Vec<Met> {
    let mut errors: BTreeMap<&str, Met> = BTreeMap::new();
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
    let named = |(what, met): (&str, Met)| Met { what: what.to_owned(), ..met };
    let mut errors: Vec<Met> = errors.into_iter().map(named).collect();
    // Stable: those that are as frequent stay in the order of their names.
    errors.sort_by_key(|met| std::cmp::Reverse(met.attempts));
    errors
}

fn faults(account: &Account) -> BTreeMap<Fault, Happened> {
    let mut faults: BTreeMap<Fault, Happened> = BTreeMap::new();
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
