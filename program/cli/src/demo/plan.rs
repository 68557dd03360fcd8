//! Which of the events meet with which trouble: counted out, and the same for the same seed.

use steadfast_report::random::Rng;

/// What goes wrong between an application and its servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The server has counted, and the connection breaks before the reply.
    LostReply,
    /// The connection breaks, and the server never gets the request.
    LostRequest,
    /// While the request is on its way, its server is no longer primary; another is elected later.
    StepDown,
    /// The server turns the request away, and the one after it.
    Overload,
}

impl Trouble {
    /// In the order in which they come.
    pub(super) const ALL: [Self; 4] =
        [Self::LostReply, Self::LostRequest, Self::StepDown, Self::Overload];

    /// Above its column, and the counter that its events are counted by.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::LostReply => "lost reply",
            Self::LostRequest => "lost request",
            Self::StepDown => "step-down",
            Self::Overload => "overload",
        }
    }

    /// The same in documents for programs.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::LostReply => "lostReply",
            Self::LostRequest => "lostRequest",
            Self::StepDown => "stepDown",
            Self::Overload => "overload",
        }
    }

    /// What is being done to the servers.
    pub(super) fn now(self) -> &'static str {
        match self {
            Self::LostReply => "replies are lost: the server has counted, nobody hears of it",
            Self::LostRequest => "requests are lost: the server never hears of the event",
            Self::StepDown => "the primary steps down: no writes until another is elected",
            Self::Overload => "the servers are overloaded, and turn requests away",
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

    /// One in so many of its events is hit. (So that what is counted too often, and what is missing, do
    /// not make up for each other.)
    fn one_in(self) -> u64 {
        match self {
            Self::LostReply | Self::LostRequest => 5,
            Self::StepDown => 25,
            Self::Overload => 10,
        }
    }
}

/// One that is to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// What goes wrong at its time.
    pub(super) trouble: Trouble,
    /// Whether it is hit by it.
    pub(super) is_hit: bool,
    /// Where an event is counted in two steps: whether it is the second that is hit.
    pub(super) at_second_step: bool,
}

/// For each trouble: a client needs half a second to trust a server again whose connection broke.
const MOST_HITS: u64 = 10;

/// All events: a quarter of them for each trouble.
#[derive(Debug)]
pub(super) struct Plan {
    events: Vec<Event>,
}

impl Plan {
    pub(super) fn new(events: u64, seed: u64) -> Self {
        let mut rng = Rng(seed);
        let each = |trouble: Trouble| {
            let index = trouble.index() as u64;
            quarter(events / 4 + u64::from(index < events % 4), trouble, &mut rng)
        };
        Self { events: Trouble::ALL.into_iter().flat_map(each).collect() }
    }

    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    /// How many events come at the time of a trouble, and how many of these are hit.
    pub(super) fn of(&self, trouble: Trouble) -> (u64, u64) {
        let its = || self.events.iter().filter(|event| event.trouble == trouble);
        (its().count() as u64, its().filter(|event| event.is_hit).count() as u64)
    }
}

/// The events of one trouble: in equal parts, one of each part is hit.
fn quarter(events: u64, trouble: Trouble, rng: &mut Rng) -> Vec<Event> {
    let hits = (events / trouble.one_in()).clamp(1, MOST_HITS);
    let part = |number: u64| number * events / hits;
    let hit: Vec<u64> = (0..hits)
        .map(|number| part(number) + rng.below((part(number + 1) - part(number)).max(1)))
        .collect();
    let event = |number: u64| Event {
        trouble,
        is_hit: hit.contains(&number),
        at_second_step: rng.below(2) == 1,
    };
    (0..events).map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_hits_as_many_events_and_others() {
        let first = Plan::new(200, 0);
        assert_eq!(Trouble::ALL.map(|it| first.of(it)), [(50, 10), (50, 10), (50, 2), (50, 5)]);
        for seed in 1..100 {
            let plan = Plan::new(200, seed);
            assert_eq!(Trouble::ALL.map(|it| plan.of(it)), Trouble::ALL.map(|it| first.of(it)));
            assert_ne!(plan.events, first.events);
            assert_eq!(plan.events, Plan::new(200, seed).events);
        }
    }

    #[test]
    fn many_events_do_not_take_much_longer() {
        let plan = Plan::new(1_000, 0);
        let most = Trouble::ALL.map(|trouble| plan.of(trouble));
        assert_eq!(most, [(250, 10), (250, 10), (250, 10), (250, 10)]);
    }

    #[test]
    fn few_events_meet_every_trouble_too() {
        for events in 20..100 {
            let plan = Plan::new(events, events);
            assert_eq!(plan.events.len() as u64, events);
            assert!(Trouble::ALL.into_iter().all(|trouble| plan.of(trouble).1 > 0));
        }
    }
}
