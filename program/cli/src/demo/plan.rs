//! Plan of the demo: the events and their faults, the same for the same seed.

use steadfast_report::random::Rng;

/// Fault between an application and its servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DemoFault {
    /// The server counts, and the connection closes before the reply.
    LostReply,
    /// The connection closes, and the server does not receive the request.
    LostRequest,
    /// The primary steps down before it receives the request; another is elected later.
    StepDown,
    /// The server rejects the request and the next one.
    Overload,
}

impl DemoFault {
    /// All faults, in the order of the demo.
    pub(super) const ALL: [Self; 4] =
        [Self::LostReply, Self::LostRequest, Self::StepDown, Self::Overload];

    /// Returns the title of the column, which is also the `_id` of the counter.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::LostReply => "lost reply",
            Self::LostRequest => "lost request",
            Self::StepDown => "step-down",
            Self::Overload => "overload",
        }
    }

    /// Returns the name of the field in JSON.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::LostReply => "lostReply",
            Self::LostRequest => "lostRequest",
            Self::StepDown => "stepDown",
            Self::Overload => "overload",
        }
    }

    /// Describes the fault, for the progress.
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::LostReply => {
                "replies are lost: the server counts, and the application gets an error"
            }
            Self::LostRequest => "requests are lost: the server does not receive them",
            Self::StepDown => "the primary steps down: no writes until the next election",
            Self::Overload => "the servers are overloaded and reject requests",
        }
    }

    pub(super) fn index(self) -> usize {
        match self {
            Self::LostReply => 0,
            Self::LostRequest => 1,
            Self::StepDown => 2,
            Self::Overload => 3,
        }
    }

    /// Number of events per event with a fault. The numbers differ, so that missing counts and counts that are too many
    /// do not cancel out.
    fn one_in(self) -> u64 {
        match self {
            Self::LostReply | Self::LostRequest => 5,
            Self::StepDown => 25,
            Self::Overload => 10,
        }
    }
}

/// An event to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// Fault of this part of the demo.
    pub(super) fault: DemoFault,
    /// `true` if the fault is applied to this event.
    pub(super) is_hit: bool,
    /// `true` if the fault is applied to the second step, for a strategy that counts in two steps.
    pub(super) at_second_step: bool,
}

/// Maximum number of hits for each fault: after a network error, a client waits half a second for the server.
const MOST_HITS: u64 = 10;

/// All events, a quarter of them for each fault.
#[derive(Debug)]
pub(super) struct Plan {
    events: Vec<Event>,
}

impl Plan {
    pub(super) fn new(events: u64, seed: u64) -> Self {
        let mut rng = Rng(seed);
        let each = |fault: DemoFault| {
            let index = fault.index() as u64;
            events_of(events / 4 + u64::from(index < events % 4), fault, &mut rng)
        };
        Self { events: DemoFault::ALL.into_iter().flat_map(each).collect() }
    }

    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    /// Returns the number of events of a fault, and the number of those that are hit.
    pub(super) fn of(&self, fault: DemoFault) -> (u64, u64) {
        let its = || self.events.iter().filter(|event| event.fault == fault);
        (its().count() as u64, its().filter(|event| event.is_hit).count() as u64)
    }
}

/// Returns the events of one fault. They are divided into equal parts, and one event of each part is hit.
fn events_of(events: u64, fault: DemoFault, rng: &mut Rng) -> Vec<Event> {
    let hits = (events / fault.one_in()).clamp(1, MOST_HITS);
    let part = |number: u64| number * events / hits;
    let hit: Vec<u64> = (0..hits)
        .map(|number| part(number) + rng.below((part(number + 1) - part(number)).max(1)))
        .collect();
    let event = |number: u64| Event {
        fault,
        is_hit: hit.contains(&number),
        at_second_step: rng.below(2) == 1,
    };
    (0..events).map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_hit_the_same_number_of_different_events() {
        let first = Plan::new(200, 0);
        assert_eq!(DemoFault::ALL.map(|it| first.of(it)), [(50, 10), (50, 10), (50, 2), (50, 5)]);
        for seed in 1..100 {
            let plan = Plan::new(200, seed);
            assert_eq!(DemoFault::ALL.map(|it| plan.of(it)), DemoFault::ALL.map(|it| first.of(it)));
            assert_ne!(plan.events, first.events);
            assert_eq!(plan.events, Plan::new(200, seed).events);
        }
    }

    #[test]
    fn number_of_hits_is_limited_with_many_events() {
        let plan = Plan::new(1_000, 0);
        let most = DemoFault::ALL.map(|fault| plan.of(fault));
        assert_eq!(most, [(250, 10), (250, 10), (250, 10), (250, 10)]);
    }

    #[test]
    fn every_fault_hits_an_event_of_a_small_plan() {
        for events in 20..100 {
            let plan = Plan::new(events, events);
            assert_eq!(plan.events.len() as u64, events);
            assert!(DemoFault::ALL.into_iter().all(|fault| plan.of(fault).1 > 0));
        }
    }
}
