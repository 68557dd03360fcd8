//! Histories of simulated runs, generated from a seed, for tests of summary and page.

use std::{collections::BTreeMap, time::Duration};

use crate::strategy::Strategy;
use steadfast::error::Outcome;

use super::{
    account::{Account, Answer, Failure, Incident, Kind, Record},
    plan::{Fault, Plan, Servers},
};
use steadfast_report::random::Rng;

/// Parameters of a simulated run.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) plan: Plan,
    /// Time of the interruption, if the run is interrupted.
    pub(super) until: Option<Duration>,
    /// Mean time between two faults.
    pub(super) pause: Duration,
}

impl Sample {
    /// Five minutes on real servers with every fault and without contradictions.
    pub(super) fn clean() -> Self {
        let plan = Plan { lasting: Duration::from_secs(300), ..Plan::new(Servers::Mongod) };
        Self { plan, until: None, pause: Duration::from_secs(6) }
    }

    /// Control: an application that retries after any error.
    pub(super) fn bad() -> Self {
        let mut sample = Self::clean();
        sample.plan.strategy = Strategy::AlwaysRetry { retries: 5 };
        sample
    }

    /// Interrupted before the first operation.
    pub(super) fn empty() -> Self {
        let mut sample = Self::clean();
        sample.until = Some(Duration::ZERO);
        sample
    }

    /// Interrupted after 23 seconds.
    pub(super) fn interrupted() -> Self {
        let mut sample = Self::clean();
        sample.plan.servers = Servers::Embedded;
        sample.until = Some(Duration::from_millis(23_400));
        sample
    }

    /// One second without faults.
    pub(super) fn short() -> Self {
        let mut sample = Self::clean();
        sample.plan.servers = Servers::Embedded;
        sample.plan.lasting = Duration::from_secs(1);
        sample.plan.faults = Vec::new();
        sample
    }

    /// A day, with few operations and thousands of faults.
    pub(super) fn day() -> Self {
        let mut sample = Self::clean();
        sample.plan.lasting = Duration::from_secs(86_400);
        sample.plan.rate = 1;
        sample.pause = Duration::from_secs(30);
        sample
    }

    /// A run with contradictions of each sort, and with HTML and very long words in all texts.
    pub(super) fn hostile() -> Account {
        let mut sample = Self::bad();
        sample.plan.lasting = Duration::from_secs(60);
        let mut account = sample.account();
        const HTML: &str =
            "</style><script>alert('a')</script>\"'&amp;<img src=http://x.test/a.png>";
        account.server = format!("mongod {HTML}");
        account.interrupted = true;
        for (nth, record) in account.records.iter_mut().enumerate() {
            for failure in &mut record.failures {
                failure.what = format!("{} {} {HTML}", failure.what, "Long".repeat(nth % 60));
            }
            if nth % 1_800 == 0 {
                record.answer = Answer::Wrong(HTML.to_owned());
                account.census.remove(&(record.operation * Kind::MARKS));
                account.census.insert(u64::MAX - record.operation, 1);
            }
        }
        for incident in &mut account.incidents {
            incident.what = format!("{} {}{HTML}", incident.what, "host.example.com".repeat(5));
        }
        account
    }

    /// Returns the history of the run.
    pub(super) fn account(&self) -> Account {
        let lasted = self.until.unwrap_or(self.plan.lasting).min(self.plan.lasting);
        let mut chance = Chance(Rng(self.plan.seed));
        let troubles = self.troubles(lasted, &mut chance);
        let mut making = Making { plan: &self.plan, troubles, chance, census: BTreeMap::new() };
        let operations = self.plan.operations() * millis(lasted) / millis(self.plan.lasting).max(1);
        let mut records: Vec<Record> = (0..operations).map(|nth| making.record(nth)).collect();
        records.sort_by_key(|record| record.began + record.took);
        let last = records.last().map_or(Duration::ZERO, |record| record.began + record.took);
        Account {
            plan: self.plan.clone(),
            server: match self.plan.servers {
                Servers::Embedded => "in memory, version 8.0.0".to_owned(),
                Servers::Mongod | Servers::Foreign(_) => "mongod 6.0.5".to_owned(),
                Servers::Sharded => "mongos 8.2.0".to_owned(),
            },
            lasted: last.max(lasted),
            interrupted: self.until.is_some(),
            records,
            incidents: making.troubles.into_iter().map(|trouble| trouble.incident).collect(),
            census: making.census,
        }
    }

    fn troubles(&self, lasted: Duration, chance: &mut Chance) -> Vec<SampleIncident> {
        let mut troubles = Vec::new();
        if self.plan.faults.is_empty() {
            return troubles;
        }
        let mut at = self.pause / 2;
        while at < lasted {
            let fault = chance.one_of(&self.plan.faults);
            troubles.push(trouble(fault, at, chance));
            at += self.pause.mul_f64(0.6 + 0.8 * chance.0.unit());
        }
        troubles
    }
}

/// An incident, and the time until which it leaves the set without a primary.
struct SampleIncident {
    incident: Incident,
    no_primary_until: Duration,
}

fn trouble(fault: Fault, began: Duration, chance: &mut Chance) -> SampleIncident {
    let host = format!("127.0.0.1:{}", 40_123 + chance.0.below(3));
    let (what, lasting, without, hits) = match fault {
        Fault::Cuts => ("connections break".to_owned(), 2_500, 0, 8 + chance.0.below(30)),
        Fault::Slow => (format!("{host} replies 120 ms late"), 4_000, 0, 0),
        Fault::Freeze => (format!("the primary, {host}, is frozen"), 3_000, 1_900, 0),
        Fault::StepDown => (format!("the primary, {host}, steps down"), 0, 420, 0),
        Fault::Kill => (format!("the primary, {host}, is killed"), 6_000, 1_400, 0),
        Fault::Overload => (format!("{host} rejects writes"), 2_000, 0, 30 + chance.0.below(90)),
        Fault::Drops => ("callers drop futures".to_owned(), 3_000, 0, 5 + chance.0.below(40)),
        Fault::Migrate => ("a chunk migrates from shard0 to shard1".to_owned(), 800, 0, 1),
    };
    let stretch = 0.7 + 0.6 * chance.0.unit();
    let after = |millis| began + Duration::from_millis(millis).mul_f64(stretch);
    let (ended, no_primary_until, is_failover) = (after(lasting), after(without), without > 0);
    let lost_replies = if fault == Fault::Cuts { hits / 2 } else { 0 };
    let incident = Incident { fault, what, began, ended, is_failover, hits, lost_replies };
    SampleIncident { incident, no_primary_until }
}

/// Generates operations.
struct Making<'a> {
    plan: &'a Plan,
    troubles: Vec<SampleIncident>,
    chance: Chance,
    census: BTreeMap<u64, u64>,
}

impl Making<'_> {
    const KINDS: [Kind; 11] = [
        Kind::Increment,
        Kind::InsertOne,
        Kind::InsertMany,
        Kind::UpdateOne,
        Kind::ReplaceOne,
        Kind::DeleteOne,
        Kind::FindOneAndUpdate,
        Kind::FindOneAndReplace,
        Kind::FindOneAndDelete,
        Kind::BulkWrite,
        Kind::Transaction,
    ];

    fn record(&mut self, operation: u64) -> Record {
        let kind = self.chance.one_of(&Self::KINDS);
        let began = Duration::from_secs(1).mul_f64(operation as f64 / f64::from(self.plan.rate));
        // Exponentially distributed: most are fast, few are slow.
        let round_trip = 0.7 - 0.6 * self.chance.0.unit().max(1e-9).ln();
        let mut made = Made {
            now: began + Duration::from_secs(1).mul_f64(round_trip / 1e3),
            failures: Vec::new(),
            applied: 1,
            answer: Answer::Acknowledged,
        };
        let near = self.troubles.partition_point(|it| it.incident.began <= began);
        for nth in near.saturating_sub(2)..near {
            self.apply_fault(nth, began, &mut made);
        }
        if matches!(self.plan.strategy, Strategy::RetryableWrites) {
            made.applied = made.applied.min(1);
        }
        if made.applied > 0 {
            self.census.extend(kind.marks(operation).map(|mark| (mark, made.applied)));
        }
        let is_acknowledged = u32::from(made.answer == Answer::Acknowledged);
        Record {
            operation,
            kind,
            began,
            took: made.now - began,
            answer: made.answer,
            attempts: u32::try_from(made.failures.len()).expect("a few") + is_acknowledged,
            failures: made.failures,
        }
    }

    /// Applies the effect of a fault to an operation.
    fn apply_fault(&mut self, nth: usize, began: Duration, made: &mut Made) {
        let SampleIncident { incident, no_primary_until } = &self.troubles[nth];
        let is_under_way = began < incident.ended;
        if began < *no_primary_until {
            let what = match incident.fault {
                Fault::Freeze => "timed out waiting for a reply",
                Fault::Kill if self.chance.is(0.5) => "connection refused",
                Fault::Kill => "connection reset by peer",
                _ if self.chance.is(0.2) => "InterruptedDueToReplStateChange (11602)",
                _ => "NotWritablePrimary (10107)",
            };
            made.fails(what);
            made.applied += u64::from(self.chance.is(0.04));
            made.now =
                *no_primary_until + made.took(began).mul_f64(1.0 + 90.0 * self.chance.0.unit());
            if self.chance.is(0.004) {
                made.now = began + self.plan.timeout;
                made.ends("no primary within the deadline", Outcome::NotSent);
            }
        }
        if !is_under_way {
            return;
        }
        match incident.fault {
            Fault::Cuts if self.chance.is(0.06) => {
                made.fails("connection closed in the middle of a reply");
                made.applied += 1;
                made.now += Duration::from_millis(2 + self.chance.0.below(30));
                if self.chance.is(0.03) {
                    made.ends("connection closed before the reply", Outcome::MaybeApplied);
                }
            }
            Fault::Drops if self.chance.is(0.05) => {
                made.fails("dropped by the caller");
                made.applied = u64::from(self.chance.is(0.5));
                made.answer = Answer::Dropped;
            }
            Fault::Slow if self.chance.is(0.33) => made.now += Duration::from_millis(120),
            Fault::Overload => {
                let mut wait = 50;
                while self.chance.is(0.22) {
                    made.fails("IngressRequestRateLimitExceeded (462)");
                    made.now += Duration::from_millis(wait + self.chance.0.below(wait));
                    wait *= 2;
                    if made.failures.len() > 5 {
                        made.applied = 0;
                        return made.answer = Answer::Failed(Outcome::NotApplied);
                    }
                }
            }
            _ => {}
        }
    }
}

/// An operation that is being generated.
struct Made {
    now: Duration,
    failures: Vec<Failure>,
    applied: u64,
    answer: Answer,
}

impl Made {
    fn took(&self, began: Duration) -> Duration {
        self.now.saturating_sub(began).min(Duration::from_millis(3))
    }

    fn fails(&mut self, what: &str) {
        self.failures.push(Failure { at: self.now, what: what.to_owned() });
    }

    fn ends(&mut self, what: &str, outcome: Outcome) {
        self.fails(what);
        self.applied = u64::from(!outcome.is_certainly_not_applied());
        self.answer = Answer::Failed(outcome);
    }
}

/// Random choices.
struct Chance(Rng);

impl Chance {
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.0.index(all.len())]
    }

    fn is(&mut self, likely: f64) -> bool {
        self.0.unit() < likely
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("fewer than 2^64 milliseconds")
}
