//! Results of the events: for each application, its errors and the values of its counters.

use std::{fmt, time::Duration};

use steadfast_chaos::strategy::Strategy;

use super::{
    deployment::{CounterValues, EventResult},
    plan::{DemoFault, Event, Plan},
};

/// Difference between a counter and the number of its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Miscount {
    pub(super) too_many: u64,
    pub(super) missing: u64,
}

impl Miscount {
    fn of(events: u64, counted: u64) -> Self {
        Self { too_many: counted.saturating_sub(events), missing: events.saturating_sub(counted) }
    }

    pub(super) fn is_exact(self) -> bool {
        self == Self::default()
    }

    /// Adds two differences. Missing counts and counts that are too many do not cancel out.
    fn and(self, other: Self) -> Self {
        Self { too_many: self.too_many + other.too_many, missing: self.missing + other.missing }
    }
}

impl fmt::Display for Miscount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { too_many, missing } = self;
        f.pad(&match (too_many, missing) {
            (0, 0) => "exact".to_owned(),
            (_, 0) => format!("{too_many} too many"),
            (0, _) => format!("{missing} missing"),
            (_, _) => format!("{} wrong", too_many + missing),
        })
    }
}

/// Results of one application.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) strategy: Strategy,
    /// Number of events of each fault.
    events: CounterValues,
    /// Values of the counters.
    counters: CounterValues,
    /// Number of events with an error.
    pub(super) errors: u64,
    /// Number of errors that leave open whether the event is counted.
    pub(super) in_doubt: u64,
    /// Number of writes sent.
    pub(super) sent: u64,
    /// Sum of the latencies of the events.
    pub(super) time: Duration,
}

impl Tally {
    pub(super) fn events(&self) -> u64 {
        self.events.iter().sum()
    }

    pub(super) fn counted(&self) -> u64 {
        self.counters.iter().sum()
    }

    /// Returns the difference for the events of a fault.
    pub(super) fn of(&self, fault: DemoFault) -> Miscount {
        let index = fault.index();
        Miscount::of(self.events[index], self.counters[index])
    }

    pub(super) fn miscount(&self) -> Miscount {
        DemoFault::ALL.into_iter().map(|it| self.of(it)).fold(Miscount::default(), Miscount::and)
    }

    fn add(&mut self, event: &Event, result: &EventResult) {
        self.events[event.fault.index()] += 1;
        self.sent += result.sent;
        self.time += result.took;
        if let Some(outcome) = result.error {
            self.errors += 1;
            self.in_doubt += u64::from(!outcome.is_certainly_not_applied());
        }
    }
}

/// Results of all applications.
#[derive(Debug)]
pub(super) struct Tallies(Vec<Tally>);

impl Tallies {
    /// Returns empty results.
    pub(super) fn new() -> Self {
        let of = |strategy| Tally {
            strategy,
            events: CounterValues::default(),
            counters: CounterValues::default(),
            errors: 0,
            in_doubt: 0,
            sent: 0,
            time: Duration::ZERO,
        };
        Self(Strategy::ALL.into_iter().map(of).collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Tally> {
        self.0.iter()
    }

    /// Returns the number of completed events.
    pub(super) fn done(&self) -> u64 {
        self.0.first().map_or(0, Tally::events)
    }

    pub(super) fn add(&mut self, event: &Event, results: &[EventResult]) {
        for (tally, result) in self.0.iter_mut().zip(results) {
            tally.add(event, result);
        }
    }

    pub(super) fn set_counters(&mut self, values: Vec<CounterValues>) {
        for (tally, values) in self.0.iter_mut().zip(values) {
            tally.counters = values;
        }
    }

    /// Describes each result that differs from the expected one.
    pub(super) fn unexpected(&self, plan: &Plan) -> Vec<String> {
        let of = |tally: &Tally| {
            let squares = DemoFault::ALL.into_iter().filter_map(|fault| {
                let (_, hits) = plan.of(fault);
                let (found, expected) = (tally.of(fault), expected(tally.strategy, fault, hits));
                let what =
                    format!("{}, {}: {found}, not {expected}", tally.strategy, fault.title());
                (found != expected).then_some(what)
            });
            let errors = (is_exact(tally.strategy) && tally.errors > 0)
                .then(|| format!("{}: {} errors", tally.strategy, tally.errors));
            squares.chain(errors).collect::<Vec<_>>()
        };
        self.iter().flat_map(of).collect()
    }
}

/// Returns `true` for a strategy that counts each event once.
fn is_exact(strategy: Strategy) -> bool {
    matches!(strategy, Strategy::RetryIdempotent | Strategy::RetryableWrites)
}

/// Returns the expected difference for a number of hits.
fn expected(strategy: Strategy, fault: DemoFault, hits: u64) -> Miscount {
    let (too_many, missing) = match (strategy, fault) {
        (
            Strategy::DontRetry,
            DemoFault::LostRequest | DemoFault::StepDown | DemoFault::Overload,
        )
        // It does not retry after a rejected request.
        | (Strategy::RetryNetworkErrorsOnce, DemoFault::Overload) => (0, hits),
        (
            Strategy::AlwaysRetry { .. } | Strategy::RetryNetworkErrorsOnce,
            DemoFault::LostReply,
        ) => (hits, 0),
        (_, _) => (0, 0),
    };
    Miscount { too_many, missing }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(error: Option<steadfast::error::Outcome>) -> EventResult {
        EventResult { error, sent: 1, took: Duration::from_millis(1) }
    }

    /// Returns the expected results of a plan.
    fn as_expected(plan: &Plan) -> Tallies {
        let mut tallies = Tallies::new();
        for event in plan.events() {
            tallies.add(event, &vec![counted(None); Strategy::ALL.len()]);
        }
        let values = |strategy| {
            DemoFault::ALL.map(|fault| {
                let (events, hits) = plan.of(fault);
                let Miscount { too_many, missing } = expected(strategy, fault, hits);
                events + too_many - missing
            })
        };
        tallies.set_counters(Strategy::ALL.map(values).to_vec());
        tallies
    }

    #[test]
    fn missing_and_surplus_counts_do_not_cancel_out() {
        let plan = Plan::new(20, 0);
        let tallies = as_expected(&plan);
        let retry_once = &tallies.0[2];
        assert_eq!((retry_once.events(), retry_once.counted()), (20, 20));
        assert_eq!(retry_once.miscount(), Miscount { too_many: 1, missing: 1 });
        assert_eq!(retry_once.miscount().to_string(), "2 wrong");
    }

    #[test]
    fn unexpected_miscount_and_unexpected_exact_count_are_reported() {
        let plan = Plan::new(20, 0);
        let mut tallies = as_expected(&plan);
        assert_eq!(tallies.unexpected(&plan), Vec::<String>::new());
        tallies.0[4].counters[0] += 1;
        tallies.0[0].counters[1] += 1;
        let unexpected = [
            "dont-retry, lost request: exact, not 1 missing",
            "retryable-writes, lost reply: 1 too many, not exact",
        ];
        assert_eq!(tallies.unexpected(&plan), unexpected);
    }

    #[test]
    fn error_of_an_exact_strategy_is_unexpected() {
        let plan = Plan::new(20, 0);
        let mut tallies = as_expected(&plan);
        tallies.0[3].errors += 1;
        assert_eq!(tallies.unexpected(&plan), ["idempotent: 1 errors"]);
    }
}
