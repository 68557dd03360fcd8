//! Properties of the schedules of many seeds.

use super::*;
use crate::plan::Servers;

fn plan(seed: u64, faults: &[Fault], lasting: Duration) -> Plan {
    Plan {
        faults: faults.to_vec(),
        tasks: 1,
        rate: 1,
        lasting,
        seed,
        ..Plan::new(Servers::Embedded)
    }
}

/// Returns seeds and durations from a second to ten minutes.
fn runs() -> impl Iterator<Item = (u64, Duration)> {
    let lengths = [1, 3, 10, 20, 60, 300, 600].map(Duration::from_secs);
    (0..50).flat_map(move |seed| lengths.into_iter().map(move |lasting| (seed, lasting)))
}

fn ends(planned: &Planned) -> Duration {
    planned.begins + planned.lasts
}

fn lanes(schedule: &Schedule) -> [&Vec<Planned>; 5] {
    let Schedule { members, cuts, drops, slow_or_overloaded, migrations, .. } = schedule;
    [members, cuts, drops, slow_or_overloaded, migrations]
}

fn all(schedule: &Schedule) -> impl Iterator<Item = &Planned> {
    lanes(schedule).into_iter().flatten()
}

#[test]
fn schedule_depends_on_the_seed_only() {
    for (seed, lasting) in runs() {
        let of = |seed| Schedule::of(&plan(seed, &Fault::ALL, lasting));
        assert_eq!(of(seed), of(seed));
        assert_ne!(of(seed), of(seed + 1));
    }
}

#[test]
fn faults_of_a_lane_do_not_overlap_and_the_end_has_none() {
    for (seed, lasting) in runs() {
        let schedule = Schedule::of(&plan(seed, &Fault::ALL, lasting));
        for lane in lanes(&schedule) {
            for pair in lane.windows(2) {
                assert!(ends(&pair[0]) <= pair[1].begins, "{seed} {lasting:?} {pair:?}");
            }
        }
        let last = all(&schedule).map(ends).max().unwrap();
        assert!(last <= schedule.calm_from, "{seed} {lasting:?}: {last:?}");
        let calm = (lasting - schedule.calm_from).as_secs_f64() / lasting.as_secs_f64();
        assert!((0.05..=0.10).contains(&calm), "{calm}");
    }
}

#[test]
fn members_have_time_to_recover_between_faults() {
    for (seed, lasting) in runs() {
        let schedule = Schedule::of(&plan(seed, &Fault::ALL, lasting));
        let slot = schedule.calm_from / u32::try_from(schedule.members.len().max(1)).unwrap();
        for pair in schedule.members.windows(2) {
            assert!(pair[1].begins - ends(&pair[0]) >= slot / 5, "{seed} {lasting:?} {pair:?}");
        }
        let per_minute = 60.0 / slot.as_secs_f64();
        assert!(lasting.as_secs() < 60 || (5.0..=7.5).contains(&per_minute), "{per_minute}");
    }
}

#[test]
fn schedule_has_exactly_the_faults_of_the_plan() {
    for (seed, lasting) in runs().filter(|(_, lasting)| lasting.as_secs() >= 10) {
        for picked in 0..1_usize << Fault::ALL.len() {
            let is_picked = |at: &usize| picked & (1 << *at) != 0;
            let faults: Vec<Fault> =
                (0..Fault::ALL.len()).filter(is_picked).map(|at| Fault::ALL[at]).collect();
            let schedule = Schedule::of(&plan(seed, &faults, lasting));
            for fault in Fault::ALL {
                let is_planned = all(&schedule).any(|planned| planned.trouble.fault() == fault);
                assert_eq!(is_planned, faults.contains(&fault), "{seed} {lasting:?} {fault:?}");
            }
        }
    }
}

#[test]
fn primary_is_the_first_and_most_frequent_target() {
    for seed in 0..50 {
        let long =
            Schedule::of(&plan(seed, &[Fault::Kill, Fault::Freeze], Duration::from_secs(600)));
        let target = |planned: &Planned| match planned.trouble {
            FaultAction::Kill(who) | FaultAction::Freeze(who) => who,
            _ => unreachable!("{planned:?}"),
        };
        let primaries = long.members.iter().filter(|it| target(it) == FaultTarget::Primary).count();
        assert!(primaries * 2 > long.members.len() && primaries < long.members.len());
        let short = Schedule::of(&plan(seed, &[Fault::Kill], Duration::from_secs(10)));
        assert_eq!(target(&short.members[0]), FaultTarget::Primary);
    }
}

#[test]
fn sharded_cluster_has_faults_of_each_mongos_and_frequent_migrations() {
    for seed in 0..50 {
        let faults = Servers::Sharded.default_faults();
        let plan = plan(seed, &faults, Duration::from_secs(600));
        let schedule = Schedule::of(&Plan { servers: Servers::Sharded, ..plan });
        let target = |planned: &Planned| match planned.trouble {
            FaultAction::Kill(who) | FaultAction::Freeze(who) => Some(who),
            _ => None,
        };
        for wanted in [
            FaultTarget::Primary,
            FaultTarget::Secondary(0),
            FaultTarget::Mongos(0),
            FaultTarget::Mongos(1),
        ] {
            assert!(schedule.members.iter().any(|it| target(it) == Some(wanted)), "{wanted:?}");
        }
        assert!(schedule.migrations.len() > 100, "{}", schedule.migrations.len());
    }
}

#[test]
fn about_one_connection_breaks_per_second_at_any_rate() {
    let chances = |rate: u32| -> Vec<u32> {
        let plan = Plan { rate, ..plan(3, &[Fault::Cuts], Duration::from_secs(600)) };
        let chance = |planned: &Planned| match planned.trouble {
            FaultAction::Cuts { per_mille, .. } => per_mille,
            other => unreachable!("{other:?}"),
        };
        Schedule::of(&plan).cuts.iter().map(chance).collect()
    };
    let of_200 = chances(200);
    assert!(of_200.iter().all(|chance| [5, 15].contains(chance)), "{of_200:?}");
    assert!(of_200.contains(&15) && of_200.contains(&5));
    assert!(chances(1).iter().all(|chance| *chance == 20));
    assert!(chances(100_000).iter().all(|chance| *chance == 1));
}

#[test]
fn run_shorter_than_a_slot_has_no_faults() {
    let schedule = Schedule::of(&plan(1, &Fault::ALL, Duration::from_millis(100)));
    assert!(schedule.members.is_empty() && schedule.slow_or_overloaded.is_empty());
    let schedule = Schedule::of(&plan(1, &[], Duration::from_secs(60)));
    assert_eq!(all(&schedule).count(), 0);
}
