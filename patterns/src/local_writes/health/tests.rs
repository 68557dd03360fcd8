//! Transitions of datacenters, with times that the tests choose.

use proptest::prelude::*;

use super::*;

const EVERY: Duration = Duration::from_secs(1);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn reason() -> String {
    "it was late".to_owned()
}

/// Marks a datacenter down, and up again by its first probe.
fn relapse(health: &mut Health, now: Instant) -> (Duration, Instant) {
    let change = health.failed(health.begin(0), reason, now);
    let Some(HealthChange::Down { probe_in }) = change else { panic!("{change:?}") };
    let probe_at = health.probe_at(0).unwrap();
    assert_eq!(probe_at, now + probe_in);
    let up = health.succeeded(health.begin(0), probe_at);
    assert_eq!(up, Some(HealthChange::Up { after: probe_in }));
    (probe_in, probe_at)
}

#[test]
fn nearest_datacenter_is_first() {
    let health = Health::new(3, EVERY, Instant::now());
    assert_eq!(health.order(), [0, 1, 2]);
    assert!(health.all_up());
}

#[test]
fn datacenters_that_are_down_come_last_nearest_first() {
    let now = Instant::now();
    let mut health = Health::new(4, EVERY, now);
    for datacenter in [2, 0] {
        let change = health.failed(health.begin(datacenter), reason, now);
        assert_eq!(change, Some(HealthChange::Down { probe_in: EVERY }));
    }
    assert_eq!(health.order(), [1, 3, 0, 2]);
    assert_eq!(health.last_error(0), Some("it was late"));
    assert_eq!(health.last_error(1), None);
}

#[test]
fn concurrent_failures_mark_a_datacenter_down_once() {
    let now = Instant::now();
    let mut health = Health::new(1, EVERY, now);
    let tickets: Vec<_> = (0..100).map(|_| health.begin(0)).collect();
    let changes = tickets.into_iter().filter_map(|ticket| health.failed(ticket, reason, now));
    assert_eq!(changes.count(), 1);
    assert_eq!(health.probe_at(0), Some(now + EVERY));
}

#[test]
fn late_failure_of_an_earlier_epoch_does_not_mark_it_down() {
    let now = Instant::now();
    let mut health = Health::new(1, EVERY, now);
    let (first, late) = (health.begin(0), health.begin(0));
    assert!(health.failed(first, reason, now).is_some());
    assert!(health.succeeded(health.begin(0), now + EVERY).is_some());
    assert_eq!(health.failed(late, reason, now + EVERY), None);
    assert!(health.is_up(0));
}

#[test]
fn late_success_of_an_earlier_epoch_does_not_mark_it_up() {
    let now = Instant::now();
    let mut health = Health::new(1, EVERY, now);
    let (first, late) = (health.begin(0), health.begin(0));
    assert!(health.failed(first, reason, now).is_some());
    assert_eq!(health.succeeded(late, now), None);
    assert!(!health.is_up(0));
}

#[test]
fn successful_write_to_a_down_datacenter_marks_it_up() {
    let now = Instant::now();
    let mut health = Health::new(1, EVERY, now);
    assert!(health.failed(health.begin(0), reason, now).is_some());
    let up = health.succeeded(health.begin(0), now + seconds(5));
    assert_eq!(up, Some(HealthChange::Up { after: seconds(5) }));
    assert_eq!(health.probe_at(0), None);
    assert_eq!(health.since(0), now + seconds(5));
}

#[test]
fn failed_write_to_a_down_datacenter_changes_only_the_last_error() {
    let now = Instant::now();
    let mut health = Health::new(1, EVERY, now);
    assert!(health.failed(health.begin(0), reason, now).is_some());
    let again = health.failed(health.begin(0), || "still".to_owned(), now + seconds(5));
    assert_eq!(again, None);
    assert_eq!(health.last_error(0), Some("still"));
    assert_eq!(health.since(0), now);
    assert_eq!(health.probe_at(0), Some(now + EVERY));
}

#[test]
fn probe_interval_is_constant_during_an_outage() {
    let began = Instant::now();
    let mut health = Health::new(1, EVERY, began);
    assert!(health.failed(health.begin(0), reason, began).is_some());
    for _ in 0..3600 {
        let at = health.probe_at(0).unwrap();
        let ended = at + seconds(2);
        health.probe_failed(health.begin(0), || "no reply".to_owned(), ended);
        assert_eq!(health.probe_at(0), Some(ended + EVERY));
    }
    assert_eq!(health.since(0), began);
    assert_eq!(health.last_error(0), Some("no reply"));
}

#[test]
fn late_probe_failure_has_no_effect_after_it_was_marked_up() {
    let now = Instant::now();
    let mut health = Health::new(1, EVERY, now);
    assert!(health.failed(health.begin(0), reason, now).is_some());
    let probe = health.begin(0);
    assert!(health.succeeded(health.begin(0), now).is_some());
    health.probe_failed(probe, reason, now + seconds(1));
    assert!(health.is_up(0));
    // Nor when it is down again.
    assert!(health.failed(health.begin(0), || "again".to_owned(), now).is_some());
    let at = health.probe_at(0);
    health.probe_failed(probe, reason, now + seconds(1));
    assert_eq!((health.probe_at(0), health.last_error(0)), (at, Some("again")));
}

#[test]
fn wait_before_the_first_probe_doubles_with_each_relapse_up_to_a_bound() {
    let mut now = Instant::now();
    let mut health = Health::new(1, EVERY, now);
    let mut waits = Vec::new();
    for _ in 0..7 {
        let (wait, up) = relapse(&mut health, now);
        waits.push(wait.as_secs());
        now = up + seconds(3);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
}

#[test]
fn long_uptime_resets_the_wait_before_the_first_probe() {
    let mut now = Instant::now();
    let mut health = Health::new(1, EVERY, now);
    for _ in 0..3 {
        (_, now) = relapse(&mut health, now);
    }
    let (wait, _) = relapse(&mut health, now + seconds(30));
    assert_eq!(wait, EVERY);
}

#[test]
fn maximum_durations_do_not_overflow() {
    let mut now = Instant::now();
    let mut health = Health::new(1, Duration::MAX, now);
    for _ in 0..3 {
        assert!(health.failed(health.begin(0), reason, now).is_some());
        now = health.probe_at(0).unwrap();
        assert!(health.succeeded(health.begin(0), now).is_some());
    }
}

#[derive(Clone, Debug)]
enum HealthStep {
    Begin(usize),
    Succeed(usize),
    Fail(usize),
    FailProbe(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = HealthStep> {
    prop_oneof![
        (0..3_usize).prop_map(HealthStep::Begin),
        (0..20_usize).prop_map(HealthStep::Succeed),
        (0..20_usize).prop_map(HealthStep::Fail),
        (0..20_usize).prop_map(HealthStep::FailProbe),
        (0..5000_u64).prop_map(HealthStep::Wait),
    ]
}

proptest! {
    /// In any order of events: each datacenter has one place in the order, those that are up come first, those
    /// that are down have a time for a probe, and downs and ups alternate.
    #[test]
    fn order_is_complete_and_every_down_datacenter_has_a_probe_time(
        steps in prop::collection::vec(step(), 1..200)
    ) {
        let mut now = Instant::now();
        let mut health = Health::new(3, EVERY, now);
        let mut in_progress: Vec<EpochTicket> = Vec::new();
        let mut expected_up = [true; 3];
        for step in steps {
            let change = match step {
                HealthStep::Begin(datacenter) => {
                    in_progress.push(health.begin(datacenter));
                    None
                }
                HealthStep::Wait(millis) => {
                    now += Duration::from_millis(millis);
                    None
                }
                HealthStep::Succeed(nth) | HealthStep::Fail(nth) | HealthStep::FailProbe(nth)
                    if nth >= in_progress.len() => None,
                HealthStep::Succeed(nth) => {
                    let ticket = in_progress.swap_remove(nth);
                    health.succeeded(ticket, now).map(|change| (ticket.datacenter, change))
                }
                HealthStep::Fail(nth) => {
                    let ticket = in_progress.swap_remove(nth);
                    health.failed(ticket, reason, now).map(|change| (ticket.datacenter, change))
                }
                HealthStep::FailProbe(nth) => {
                    health.probe_failed(in_progress.swap_remove(nth), reason, now);
                    None
                }
            };
            if let Some((datacenter, change)) = change {
                let up = matches!(change, HealthChange::Up { .. });
                prop_assert_ne!(expected_up[datacenter], up);
                expected_up[datacenter] = up;
            }
            let order = health.order();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, vec![0, 1, 2]);
            prop_assert!(order.is_sorted_by_key(|&datacenter| (!health.is_up(datacenter), datacenter)));
            for (datacenter, up) in expected_up.iter().enumerate() {
                prop_assert_eq!(health.is_up(datacenter), *up);
                prop_assert_eq!(health.probe_at(datacenter).is_some(), !up);
                prop_assert!(health.probe_at(datacenter).is_none_or(|at| at <= now + EVERY * MAX_WAIT_FACTOR));
            }
        }
    }
}
