//! What came of the events: for each application, what it was told and what its counters say.

use std::{fmt, time::Duration};

use steadfast_chaos::strategy::Strategy;

use super::{
    plan::{Event, Plan, Trouble},
    stage::{Counted, Values},
};

/// How a counter differs from the number of its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) too_many: u64,
    pub(super) missing: u64,
}

impl Verdict {
    fn of(events: u64, counted: u64) -> Self {
        Self { too_many: counted.saturating_sub(events), missing: events.saturating_sub(counted) }
    }

    pub(super) fn is_exact(self) -> bool {
        self == Self::default()
    }

    /// Of both: that one makes up for the other makes neither right.
    fn and(self, other: Self) -> Self {
        Self { too_many: self.too_many + other.too_many, missing: self.missing + other.missing }
    }
}

impl fmt::Display for Verdict {
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

/// What came of one application's events.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) strategy: Strategy,
    /// How many there were, at the time of each trouble.
    events: Values,
    /// What the counters say.
    counters: Values,
    /// How many events ended in an error.
    pub(super) errors: u64,
    /// Of how many of these the application cannot know whether they are counted.
    pub(super) in_doubt: u64,
    /// How many writes were sent.
    pub(super) sent: u64,
    /// How long the application waited for its events to be counted.
    pub(super) time: Duration,
}

impl Tally {
    pub(super) fn events(&self) -> u64 {
        self.events.iter().sum()
    }

    pub(super) fn counted(&self) -> u64 {
        self.counters.iter().sum()
    }

    /// Of the events at the time of a trouble.
    pub(super) fn of(&self, trouble: Trouble) -> Verdict {
        let index = trouble.index();
        Verdict::of(self.events[index], self.counters[index])
    }

    pub(super) fn verdict(&self) -> Verdict {
        Trouble::ALL.into_iter().map(|it| self.of(it)).fold(Verdict::default(), Verdict::and)
    }

    fn add(&mut self, event: &Event, counted: Counted) {
        self.events[event.trouble.index()] += 1;
        self.sent += counted.sent;
        self.time += counted.took;
        if let Some(outcome) = counted.error {
            self.errors += 1;
            self.in_doubt += u64::from(!outcome.is_certainly_not_applied());
        }
    }
}

/// All applications.
#[derive(Debug)]
pub(super) struct Tallies(Vec<Tally>);

impl Tallies {
    /// None has counted yet.
    pub(super) fn new() -> Self {
        let of = |strategy| Tally {
            strategy,
            events: Values::default(),
            counters: Values::default(),
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

    /// How many events are over.
    pub(super) fn done(&self) -> u64 {
        self.0.first().map_or(0, Tally::events)
    }

    pub(super) fn add(&mut self, event: &Event, counted: Vec<Counted>) {
        for (tally, counted) in self.0.iter_mut().zip(counted) {
            tally.add(event, counted);
        }
    }

    pub(super) fn set_counters(&mut self, values: Vec<Values>) {
        for (tally, values) in self.0.iter_mut().zip(values) {
            tally.counters = values;
        }
    }

    /// What should not have come out.
    pub(super) fn surprises(&self, plan: &Plan) -> Vec<String> {
        let of = |tally: &Tally| {
            let squares = Trouble::ALL.into_iter().filter_map(|trouble| {
                let (_, hits) = plan.of(trouble);
                let (found, expected) =
                    (tally.of(trouble), expected(tally.strategy, trouble, hits));
                let what =
                    format!("{}, {}: {found}, not {expected}", tally.strategy, trouble.title());
                (found != expected).then_some(what)
            });
            let errors = (is_exact(tally.strategy) && tally.errors > 0)
                .then(|| format!("{}: {} errors", tally.strategy, tally.errors));
            squares.chain(errors).collect::<Vec<_>>()
        };
        self.iter().flat_map(of).collect()
    }
}

/// Whether it is one that counts each event once.
fn is_exact(strategy: Strategy) -> bool {
    matches!(strategy, Strategy::RetryIdempotent | Strategy::RetryableWrites)
}

/// What must come out if so many events are hit.
fn expected(strategy: Strategy, trouble: Trouble, hits: u64) -> Verdict {
    let (too_many, missing) = match (strategy, trouble) {
        (
            Strategy::DontRetry,
            Trouble::LostRequest | Trouble::StepDown | Trouble::Overload,
        )
        // It knows better than to ask an overloaded server again.
        | (Strategy::RetryNetworkErrorsOnce, Trouble::Overload) => (0, hits),
        (
            Strategy::AlwaysRetry { .. } | Strategy::RetryNetworkErrorsOnce,
            Trouble::LostReply,
        ) => (hits, 0),
        (_, _) => (0, 0),
    };
    Verdict { too_many, missing }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(error: Option<steadfast::error::Outcome>) -> Counted {
        Counted { error, sent: 1, took: Duration::from_millis(1) }
    }

    /// All events were counted as the strategies must.
    fn as_expected(plan: &Plan) -> Tallies {
        let mut tallies = Tallies::new();
        for event in plan.events() {
            tallies.add(event, vec![counted(None); Strategy::ALL.len()]);
        }
        let values = |strategy| {
            Trouble::ALL.map(|trouble| {
                let (events, hits) = plan.of(trouble);
                let Verdict { too_many, missing } = expected(strategy, trouble, hits);
                events + too_many - missing
            })
        };
        tallies.set_counters(Strategy::ALL.map(values).to_vec());
        tallies
    }

    #[test]
    fn what_is_missing_does_not_make_up_for_what_is_too_many() {
        let plan = Plan::new(20, 0);
        let tallies = as_expected(&plan);
        let retry_once = &tallies.0[2];
        assert_eq!((retry_once.events(), retry_once.counted()), (20, 20));
        assert_eq!(retry_once.verdict(), Verdict { too_many: 1, missing: 1 });
        assert_eq!(retry_once.verdict().to_string(), "2 wrong");
    }

    #[test]
    fn a_miscount_where_none_may_be_is_a_surprise_and_so_is_none_where_one_must_be() {
        let plan = Plan::new(20, 0);
        let mut tallies = as_expected(&plan);
        assert_eq!(tallies.surprises(&plan), Vec::<String>::new());
        tallies.0[4].counters[0] += 1;
        tallies.0[0].counters[1] += 1;
        let surprises = [
            "dont-retry, lost request: exact, not 1 missing",
            "retryable-writes, lost reply: 1 too many, not exact",
        ];
        assert_eq!(tallies.surprises(&plan), surprises);
    }

    #[test]
    fn an_error_where_steadfast_counts_is_a_surprise() {
        let plan = Plan::new(20, 0);
        let mut tallies = as_expected(&plan);
        tallies.0[3].errors += 1;
        assert_eq!(tallies.surprises(&plan), ["idempotent: 1 errors"]);
    }
}
