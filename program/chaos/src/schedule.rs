//! Schedule of the faults of a plan, computed from its seed.
//!
//! Several lanes of faults run concurrently. Faults of one lane do not overlap, so that at most one server is down,
//! and a majority and a mongos are always available.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::plan::{Fault, Plan, Servers};
use steadfast_report::random::Rng;

/// Part of the run without faults at its end, in which the deployment recovers.
const CALM_PERCENT: u32 = 7;
/// Long enough for an election and some seconds with the new primary before the next fault of a member.
const MEMBER_SLOT: Duration = Duration::from_secs(10);
const LEAST_MEMBER_SLOT: Duration = Duration::from_millis(1500);
const OVERLOAD_SLOT: Duration = Duration::from_secs(8);
const LEAST_OVERLOAD_SLOT: Duration = Duration::from_millis(500);
const MIGRATION_SLOT: Duration = Duration::from_secs(4);
const LEAST_MIGRATION_SLOT: Duration = Duration::from_millis(1000);
const WINDOW: Duration = Duration::from_secs(10);
/// Broken connections per second at the full rate. After a network error, a driver waits for a heartbeat of the
/// server, at most twice a second: with more broken connections, the load would mostly wait. A quarter of the
/// windows has more of them.
const CUTS_PER_SECOND: u32 = 1;
const MANY_CUTS: u32 = 3;
const PER_MILLE_OF_CUTS: std::ops::RangeInclusive<u32> = 1..=20;
/// Dropped calls per thousand.
const DROPS_PER_MILLE: u32 = 50;
/// Maximum duration of a fault and maximum delay of its beginning, as parts of its slot.
const MOST_OF_SLOT_PERCENT: u32 = 50;
const LATE_PERCENT: u32 = 25;

/// Faults of a run, by lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    /// Step-downs, kills and freezes of members.
    pub(super) members: Vec<Planned>,
    /// Windows with broken connections.
    pub(super) cuts: Vec<Planned>,
    /// Windows with dropped calls.
    pub(super) drops: Vec<Planned>,
    /// Late replies and rejected requests.
    pub(super) slow_or_overloaded: Vec<Planned>,
    /// Chunk migrations.
    pub(super) migrations: Vec<Planned>,
    /// End of the faults.
    pub(super) calm_from: Duration,
}

/// A fault and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    /// Time since the beginning of the load.
    pub(super) begins: Duration,
    /// Zero for a fault without duration.
    pub(super) lasts: Duration,
    pub(super) trouble: FaultAction,
}

/// A fault with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultAction {
    StepDown,
    Kill(FaultTarget),
    Freeze(FaultTarget),
    /// This number of writes per thousand lose their connection.
    Cuts {
        per_mille: u32,
        seed: u64,
    },
    /// This number of calls per thousand are dropped.
    Drops {
        per_mille: u32,
    },
    /// The primary replies late.
    Slow {
        delay: Duration,
    },
    /// This percentage of writes is rejected.
    Overload {
        percent: u32,
        seed: u64,
    },
    /// A chunk migrates to the other shard. The number selects the chunk.
    Migrate {
        choice: usize,
    },
}

impl FaultAction {
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

/// Server that a fault hits, resolved when the fault begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultTarget {
    Primary,
    /// Secondary with this number.
    Secondary(usize),
    /// Mongos of a sharded cluster with this number.
    Mongos(usize),
}

impl Schedule {
    /// Returns the schedule of a plan, which is a function of seed, servers, faults, rate and duration.
    pub(super) fn of(plan: &Plan) -> Self {
        let calm_from = plan.lasting - plan.lasting * CALM_PERCENT / 100;
        let wanted = |kinds: &[(Fault, SlotFault)]| -> Vec<SlotFault> {
            kinds.iter().filter(|(fault, _)| plan.has(*fault)).map(|(_, kind)| *kind).collect()
        };
        let rng = |lane: u64| Rng(plan.seed.wrapping_mul(0x9e37_79b9).wrapping_add(lane));
        let members = wanted(&[
            (Fault::StepDown, SlotFault::StepDown),
            (Fault::Kill, SlotFault::Kill),
            (Fault::Freeze, SlotFault::Freeze),
        ]);
        let targets = match plan.servers {
            Servers::Sharded => &OF_CLUSTER[..],
            Servers::Embedded | Servers::Mongod | Servers::Foreign(_) => &OF_SET[..],
        };
        let slow_or_overloaded =
            wanted(&[(Fault::Slow, SlotFault::Slow), (Fault::Overload, SlotFault::Overload)]);
        Self {
            members: lane(&members, targets, calm_from, MEMBER_SLOT, LEAST_MEMBER_SLOT, rng(1)),
            slow_or_overloaded: lane(
                &slow_or_overloaded,
                targets,
                calm_from,
                OVERLOAD_SLOT,
                LEAST_OVERLOAD_SLOT,
                rng(2),
            ),
            migrations: lane(
                &wanted(&[(Fault::Migrate, SlotFault::Migrate)]),
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
                true => windows(calm_from, rng(4), |_| FaultAction::Drops {
                    per_mille: DROPS_PER_MILLE,
                }),
                false => Vec::new(),
            },
            calm_from,
        }
    }
}

/// SlotFault of a fault that has slots.
#[derive(Clone, Copy)]
enum SlotFault {
    StepDown,
    Kill,
    Freeze,
    Slow,
    Overload,
    Migrate,
}

/// Returns one fault for each slot of the time. Slots have their usual length, or in a short run a smaller one, so
/// that each kind has a slot.
fn lane(
    kinds: &[SlotFault],
    targets: &[FaultTarget],
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

/// Returns a fault with random parameters, and its duration.
fn trouble(kind: SlotFault, targets: &mut Targets, rng: &mut Rng) -> (FaultAction, Duration) {
    let millis = Duration::from_millis;
    match kind {
        SlotFault::StepDown => (FaultAction::StepDown, Duration::ZERO),
        SlotFault::Kill => {
            (FaultAction::Kill(targets.killed.next(rng)), rng.between(millis(1000), millis(5000)))
        }
        SlotFault::Freeze => {
            (FaultAction::Freeze(targets.frozen.next(rng)), rng.between(millis(1500), millis(6000)))
        }
        SlotFault::Slow => {
            let delay = millis(20 + rng.below(281));
            (FaultAction::Slow { delay }, rng.between(millis(1000), millis(4000)))
        }
        SlotFault::Overload => {
            let percent = [30, 50, 70][rng.index(3)];
            let trouble = FaultAction::Overload { percent, seed: rng.next_u64() };
            (trouble, rng.between(millis(1000), millis(3000)))
        }
        SlotFault::Migrate => {
            (FaultAction::Migrate { choice: rng.index(usize::MAX) }, Duration::ZERO)
        }
    }
}

fn cut_windows(time: Duration, rate: u32, rng: Rng) -> Vec<Planned> {
    let usual = CUTS_PER_SECOND * 1000 / rate.max(1);
    windows(time, rng, |rng| {
        let more = if rng.below(4) == 0 { MANY_CUTS } else { 1 };
        let per_mille = (usual * more).clamp(*PER_MILLE_OF_CUTS.start(), *PER_MILLE_OF_CUTS.end());
        FaultAction::Cuts { per_mille, seed: rng.next_u64() }
    })
}

/// Returns consecutive windows of a fault with short pauses between them.
fn windows(
    time: Duration,
    mut rng: Rng,
    mut trouble: impl FnMut(&mut Rng) -> FaultAction,
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

/// Targets in a replica set. The primary is the most frequent one, because its faults have the largest effect.
const OF_SET: [FaultTarget; 5] = [
    FaultTarget::Primary,
    FaultTarget::Primary,
    FaultTarget::Secondary(0),
    FaultTarget::Primary,
    FaultTarget::Secondary(1),
];
/// Targets in a sharded cluster.
const OF_CLUSTER: [FaultTarget; 6] = [
    FaultTarget::Primary,
    FaultTarget::Mongos(0),
    FaultTarget::Primary,
    FaultTarget::Secondary(0),
    FaultTarget::Mongos(1),
    FaultTarget::Secondary(1),
];

/// Next targets of kills and freezes. The primary is the first one.
struct Targets {
    killed: Rounds<FaultTarget>,
    frozen: Rounds<FaultTarget>,
}

impl Targets {
    fn of(all: &[FaultTarget]) -> Self {
        let rounds = || Rounds { all: all.to_vec(), left: vec![FaultTarget::Primary] };
        Self { killed: rounds(), frozen: rounds() }
    }
}

/// Endless sequence of rounds. Each round has all items, in random order.
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
