//! What happens when: the faults of a plan, by its seed.
//!
//! Several lanes run side by side. In each, one thing is over before the next begins; so never more than one server
//! is down, and a majority, and a mongos, is always there.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::plan::{Fault, Plan, Servers};
use steadfast_report::random::Rng;

/// The end of a run is calm, so that all can be seen to be well again.
const CALM_PERCENT: u32 = 7;
/// A new primary is found, and has some time to itself, between one fault of a member and the next.
const MEMBER_SLOT: Duration = Duration::from_secs(10);
const LEAST_MEMBER_SLOT: Duration = Duration::from_millis(1500);
const WEATHER_SLOT: Duration = Duration::from_secs(8);
const LEAST_WEATHER_SLOT: Duration = Duration::from_millis(500);
const MIGRATION_SLOT: Duration = Duration::from_secs(4);
const LEAST_MIGRATION_SLOT: Duration = Duration::from_millis(1000);
const WINDOW: Duration = Duration::from_secs(10);
/// So many connections break in a second, if the load has the rate that it is to have. A driver that sees one
/// break looks at its server anew, and not more often than twice a second: with more of them, the load would
/// do little but wait. Every few windows there are more of them all the same.
const CUTS_PER_SECOND: u32 = 1;
const MANY_CUTS: u32 = 3;
const PER_MILLE_OF_CUTS: std::ops::RangeInclusive<u32> = 1..=20;
/// So many of a thousand calls are dropped.
const DROPS_PER_MILLE: u32 = 50;
/// So much of a slot a fault may take, and so much it may be late.
const MOST_OF_SLOT_PERCENT: u32 = 50;
const LATE_PERCENT: u32 = 25;

/// The faults of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    /// What befalls members: they step down, die, stand still.
    pub(super) members: Vec<Planned>,
    /// When connections break.
    pub(super) cuts: Vec<Planned>,
    /// Times at which calls are dropped.
    pub(super) drops: Vec<Planned>,
    /// When answers are late, or requests turned away.
    pub(super) weather: Vec<Planned>,
    /// Times at which chunks move.
    pub(super) migrations: Vec<Planned>,
    /// From here on, there are none.
    pub(super) calm_from: Duration,
}

/// A fault to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    /// Since the load began.
    pub(super) begins: Duration,
    /// Nothing for what takes no time.
    pub(super) lasts: Duration,
    pub(super) trouble: Trouble,
}

/// What is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    StepDown,
    Kill(Who),
    Freeze(Who),
    /// So many of a thousand writes lose their connection, by chances that come from this seed.
    Cuts {
        per_mille: u32,
        seed: u64,
    },
    /// So many of a thousand calls are dropped.
    Drops {
        per_mille: u32,
    },
    /// The primary's answers are late.
    Slow {
        delay: Duration,
    },
    /// So many of a hundred writes are turned away.
    Overload {
        percent: u32,
        seed: u64,
    },
    /// A chunk moves to the other shard. This number decides which one.
    Migrate {
        choice: usize,
    },
}

impl Trouble {
    pub(super) fn fault(self) -> Fault {
        match self {
            Self::StepDown => Fault::StepDown,
            Self::Kill(_) => Fault::Kill,
            Self::Freeze(_) => Fault::Freeze,
            Self::Cuts { .. } => Fault::Cuts,
            Self::Drops { .. } => Fault::Drops,
            Self::Slow { .. } => Fault::Slow,
            Self::Overload { .. } => Fault::Overload,
            Self::Migrate { .. } => Fault::Migrate,
        }
    }
}

/// Whom it befalls, of those that there are at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Primary,
    /// One of the others, by a number.
    Secondary(usize),
    /// One of the mongos of a sharded cluster, by a number.
    Mongos(usize),
}

impl Schedule {
    /// The same for the same seed, faults and length.
    pub(super) fn of(plan: &Plan) -> Self {
        let calm_from = plan.lasting - plan.lasting * CALM_PERCENT / 100;
        let wanted = |kinds: &[(Fault, Kind)]| -> Vec<Kind> {
            kinds.iter().filter(|(fault, _)| plan.has(*fault)).map(|(_, kind)| *kind).collect()
        };
        let rng = |lane: u64| Rng(plan.seed.wrapping_mul(0x9e37_79b9).wrapping_add(lane));
        let members = wanted(&[
            (Fault::StepDown, Kind::StepDown),
            (Fault::Kill, Kind::Kill),
            (Fault::Freeze, Kind::Freeze),
        ]);
        let targets = match plan.servers {
            Servers::Sharded => &OF_CLUSTER[..],
            Servers::Embedded | Servers::Mongod | Servers::Foreign(_) => &OF_SET[..],
        };
        let weather = wanted(&[(Fault::Slow, Kind::Slow), (Fault::Overload, Kind::Overload)]);
        Self {
            members: lane(&members, targets, calm_from, MEMBER_SLOT, LEAST_MEMBER_SLOT, rng(1)),
            weather: lane(&weather, targets, calm_from, WEATHER_SLOT, LEAST_WEATHER_SLOT, rng(2)),
            migrations: lane(
                &wanted(&[(Fault::Migrate, Kind::Migrate)]),
                targets,
                calm_from,
                MIGRATION_SLOT,
                LEAST_MIGRATION_SLOT,
                rng(5),
            ),
            cuts: match plan.has(Fault::Cuts) {
                true => cut_windows(calm_from, plan.rate, rng(3)),
                false => Vec::new(),
            },
            drops: match plan.has(Fault::Drops) {
                true => {
                    windows(calm_from, rng(4), |_| Trouble::Drops { per_mille: DROPS_PER_MILLE })
                }
                false => Vec::new(),
            },
            calm_from,
        }
    }
}

/// What takes turns in a lane.
#[derive(Clone, Copy)]
enum Kind {
    StepDown,
    Kill,
    Freeze,
    Slow,
    Overload,
    Migrate,
}

/// One fault in each slot of the time that there is. Slots are as long as they usually are, or, if the run is
/// short, as they can be for each kind of fault to have one.
fn lane(
    kinds: &[Kind],
    targets: &[Who],
    time: Duration,
    usual: Duration,
    least: Duration,
    mut rng: Rng,
) -> Vec<Planned> {
    let fitting = |slot: Duration| u32::try_from(time.as_millis() / slot.as_millis());
    let most = fitting(least).unwrap_or(u32::MAX);
    let kinds_count = u32::try_from(kinds.len()).unwrap_or(u32::MAX);
    let count = fitting(usual).unwrap_or(u32::MAX).max(kinds_count.min(most));
    if kinds.is_empty() || count == 0 {
        return Vec::new();
    }
    let slot = time / count;
    let mut rounds = Rounds::of(kinds);
    let mut targets = Targets::of(targets);
    let planned = (0..count).map(|nth| {
        let late = rng.between(Duration::ZERO, slot * LATE_PERCENT / 100);
        let (trouble, lasts) = trouble(rounds.next(&mut rng), &mut targets, &mut rng);
        let lasts = lasts.min(slot * MOST_OF_SLOT_PERCENT / 100);
        Planned { begins: slot * nth + slot / 10 + late, lasts, trouble }
    });
    planned.collect()
}

/// What exactly happens, and for how long if there is time.
fn trouble(kind: Kind, targets: &mut Targets, rng: &mut Rng) -> (Trouble, Duration) {
    let millis = Duration::from_millis;
    match kind {
        Kind::StepDown => (Trouble::StepDown, Duration::ZERO),
        Kind::Kill => {
            (Trouble::Kill(targets.killed.next(rng)), rng.between(millis(1000), millis(5000)))
        }
        Kind::Freeze => {
            (Trouble::Freeze(targets.frozen.next(rng)), rng.between(millis(1500), millis(6000)))
        }
        Kind::Slow => {
            let delay = millis(20 + rng.below(281));
            (Trouble::Slow { delay }, rng.between(millis(1000), millis(4000)))
        }
        Kind::Overload => {
            let percent = [30, 50, 70][rng.index(3)];
            let trouble = Trouble::Overload { percent, seed: rng.next_u64() };
            (trouble, rng.between(millis(1000), millis(3000)))
        }
        Kind::Migrate => (Trouble::Migrate { choice: rng.index(usize::MAX) }, Duration::ZERO),
    }
}

fn cut_windows(time: Duration, rate: u32, rng: Rng) -> Vec<Planned> {
    let usual = CUTS_PER_SECOND * 1000 / rate.max(1);
    windows(time, rng, |rng| {
        let more = if rng.below(4) == 0 { MANY_CUTS } else { 1 };
        let per_mille = (usual * more).clamp(*PER_MILLE_OF_CUTS.start(), *PER_MILLE_OF_CUTS.end());
        Trouble::Cuts { per_mille, seed: rng.next_u64() }
    })
}

/// A fault that lasts nearly all the time; between, there is a pause.
fn windows(
    time: Duration,
    mut rng: Rng,
    mut trouble: impl FnMut(&mut Rng) -> Trouble,
) -> Vec<Planned> {
    let count = u32::try_from(time.as_millis() / WINDOW.as_millis()).unwrap_or(u32::MAX).max(1);
    let slot = time / count;
    let planned = (0..count).map(|nth| {
        let pause = slot / 20 + rng.between(Duration::ZERO, slot / 10);
        let trouble = trouble(&mut rng);
        Planned { begins: slot * nth + pause, lasts: slot - pause, trouble }
    });
    planned.collect()
}

/// Servers of a replica set that are killed and frozen. The primary comes more often: that is where it hurts.
const OF_SET: [Who; 5] =
    [Who::Primary, Who::Primary, Who::Secondary(0), Who::Primary, Who::Secondary(1)];
/// The same of a sharded cluster.
const OF_CLUSTER: [Who; 6] = [
    Who::Primary,
    Who::Mongos(0),
    Who::Primary,
    Who::Secondary(0),
    Who::Mongos(1),
    Who::Secondary(1),
];

/// Whom it befalls next, of those who are killed and of those who are frozen. The primary comes first.
struct Targets {
    killed: Rounds<Who>,
    frozen: Rounds<Who>,
}

impl Targets {
    fn of(all: &[Who]) -> Self {
        let rounds = || Rounds { all: all.to_vec(), left: vec![Who::Primary] };
        Self { killed: rounds(), frozen: rounds() }
    }
}

/// All have their turn, in another order each time.
struct Rounds<T> {
    all: Vec<T>,
    left: Vec<T>,
}

impl<T: Copy> Rounds<T> {
    fn of(all: &[T]) -> Self {
        Self { all: all.to_vec(), left: Vec::new() }
    }

    fn next(&mut self, rng: &mut Rng) -> T {
        if self.left.is_empty() {
            self.left.clone_from(&self.all);
        }
        self.left.remove(rng.index(self.left.len()))
    }
}
