//! Transitions of datacenters, on a clock that the tests move.

use proptest::prelude::*;

use super::*;

const EVERY: Duration = Duration::from_secs(1);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn why() -> String {
    "it was late".to_owned()
}

/// A datacenter goes down and comes home by its first probe.
fn relapse(health: &mut Health, now: Instant) -> (Duration, Instant) {
    let change = health.failed(health.begin(0), why, now);
    let Some(Change::Down { probe_in }) = change else { panic!("{change:?}") };
    let probe_at = health.probe_at(0).unwrap();
    assert_eq!(probe_at, now + probe_in);
    let home = health.succeeded(health.begin(0), probe_at);
    assert_eq!(home, Some(Change::Up { after: probe_in }));
    (probe_in, probe_at)
}

#[test]
fn the_nearest_is_tried_first() {
    let health = Health::new(3, EVERY, Instant::now());
    assert_eq!(health.order(), [0, 1, 2]);
    assert!(health.all_up());
}

#[test]
fn those_that_are_down_come_last_and_among_them_the_nearest_first() {
    let now = Instant::now();
    let mut health = Health::new(4, EVERY, now);
    for site in [2, 0] {
        let change = health.failed(health.begin(site), why, now);
        assert_eq!(change, Some(Change::Down { probe_in: EVERY }));
    }
    assert_eq!(health.order(), [1, 3, 0, 2]);
    assert_eq!(health.why(0), Some("it was late"));
    assert_eq!(health.why(1), None);
}

#[test]
fn writes_that_fail_together_are_one_event() {
    let now = Instant::now();
    let mut health = Health::new(1, EVERY, now);
    let tickets: Vec<_> = (0..100).map(|_| health.begin(0)).collect();
    let changes = tickets.into_iter().filter_map(|ticket| health.failed(ticket, why, now));
    assert_eq!(changes.count(), 1);
    assert_eq!(health.probe_at(0), Some(now + EVERY));
}

#[test]
fn a_late_failure_of_an_earlier_epoch_does_not_mark_it_down_again() {
    let now = Instant::now();
    let mut health = Health::new(1, EVERY, now);
    let (first, late) = (health.begin(0), health.begin(0));
    assert!(health.failed(first, why, now).is_some());
    assert!(health.succeeded(health.begin(0), now + EVERY).is_some());
    assert_eq!(health.failed(late, why, now + EVERY), None);
    assert!(health.is_up(0));
}

#[test]
fn a_late_success_of_an_earlier_epoch_does_not_bring_it_home() {
    let now = Instant::now();
    let mut health = Health::new(1, EVERY, now);
    let (first, late) = (health.begin(0), health.begin(0));
    assert!(health.failed(first, why, now).is_some());
    assert_eq!(health.succeeded(late, now), None);
    assert!(!health.is_up(0));
}

#[test]
fn a_write_of_last_resort_brings_it_home() {
    let now = Instant::now();
    let mut health = Health::new(1, EVERY, now);
    assert!(health.failed(health.begin(0), why, now).is_some());
    let home = health.succeeded(health.begin(0), now + seconds(5));
    assert_eq!(home, Some(Change::Up { after: seconds(5) }));
    assert_eq!(health.probe_at(0), None);
    assert_eq!(health.since(0), now + seconds(5));
}

#[test]
fn a_write_of_last_resort_that_fails_renews_the_reason_alone() {
    let now = Instant::now();
    let mut health = Health::new(1, EVERY, now);
    assert!(health.failed(health.begin(0), why, now).is_some());
    let again = health.failed(health.begin(0), || "still".to_owned(), now + seconds(5));
    assert_eq!(again, None);
    assert_eq!(health.why(0), Some("still"));
    assert_eq!(health.since(0), now);
    assert_eq!(health.probe_at(0), Some(now + EVERY));
}

#[test]
fn a_dead_datacenter_is_asked_as_often_after_an_hour_as_at_first() {
    let began = Instant::now();
    let mut health = Health::new(1, EVERY, began);
    assert!(health.failed(health.begin(0), why, began).is_some());
    for _ in 0..3600 {
        let at = health.probe_at(0).unwrap();
        let ended = at + seconds(2);
        health.probe_failed(health.begin(0), || "no answer".to_owned(), ended);
        assert_eq!(health.probe_at(0), Some(ended + EVERY));
    }
    assert_eq!(health.since(0), began);
    assert_eq!(health.why(0), Some("no answer"));
}

#[test]
fn a_probe_that_ends_after_it_came_home_says_nothing() {
    let now = Instant::now();
    let mut health = Health::new(1, EVERY, now);
    assert!(health.failed(health.begin(0), why, now).is_some());
    let probe = health.begin(0);
    assert!(health.succeeded(health.begin(0), now).is_some());
    health.probe_failed(probe, why, now + seconds(1));
    assert!(health.is_up(0));
    // Nor when it is down again.
    assert!(health.failed(health.begin(0), || "again".to_owned(), now).is_some());
    let at = health.probe_at(0);
    health.probe_failed(probe, why, now + seconds(1));
    assert_eq!((health.probe_at(0), health.why(0)), (at, Some("again")));
}

#[test]
fn the_first_probe_after_relapses_waits_twice_as_long_each_time_within_a_bound() {
    let mut now = Instant::now();
    let mut health = Health::new(1, EVERY, now);
    let mut waits = Vec::new();
    for _ in 0..7 {
        let (wait, home) = relapse(&mut health, now);
        waits.push(wait.as_secs());
        now = home + seconds(3);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
}

#[test]
fn a_datacenter_that_was_up_for_long_is_asked_soon() {
    let mut now = Instant::now();
    let mut health = Health::new(1, EVERY, now);
    for _ in 0..3 {
        (_, now) = relapse(&mut health, now);
    }
    let (wait, _) = relapse(&mut health, now + seconds(30));
    assert_eq!(wait, EVERY);
}

#[test]
fn times_without_end_do_not_overflow() {
    let mut now = Instant::now();
    let mut health = Health::new(1, Duration::MAX, now);
    for _ in 0..3 {
        assert!(health.failed(health.begin(0), why, now).is_some());
        now = health.probe_at(0).unwrap();
        assert!(health.succeeded(health.begin(0), now).is_some());
    }
}

#[derive(Clone, Debug)]
enum Step {
    Begin(usize),
    Succeed(usize),
    Fail(usize),
    FailProbe(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3_usize).prop_map(Step::Begin),
        (0..20_usize).prop_map(Step::Succeed),
        (0..20_usize).prop_map(Step::Fail),
        (0..20_usize).prop_map(Step::FailProbe),
        (0..5000_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    /// In any order of events: each datacenter has one place in the order, those that are up come first, those
    /// that are down have a time for a probe, and downs and ups alternate.
    #[test]
    fn whatever_happens_the_order_is_whole_and_what_is_down_will_be_asked(
        steps in prop::collection::vec(step(), 1..200)
    ) {
        let mut now = Instant::now();
        let mut health = Health::new(3, EVERY, now);
        let mut under_way: Vec<Ticket> = Vec::new();
        let mut expected_up = [true; 3];
        for step in steps {
            let told = match step {
                Step::Begin(site) => {
                    under_way.push(health.begin(site));
                    None
                }
                Step::Wait(millis) => {
                    now += Duration::from_millis(millis);
                    None
                }
                Step::Succeed(nth) | Step::Fail(nth) | Step::FailProbe(nth)
                    if nth >= under_way.len() => None,
                Step::Succeed(nth) => {
                    let ticket = under_way.swap_remove(nth);
                    health.succeeded(ticket, now).map(|change| (ticket.site, change))
                }
                Step::Fail(nth) => {
                    let ticket = under_way.swap_remove(nth);
                    health.failed(ticket, why, now).map(|change| (ticket.site, change))
                }
                Step::FailProbe(nth) => {
                    health.probe_failed(under_way.swap_remove(nth), why, now);
                    None
                }
            };
            if let Some((site, change)) = told {
                let home = matches!(change, Change::Up { .. });
                prop_assert_ne!(expected_up[site], home);
                expected_up[site] = home;
            }
            let order = health.order();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, vec![0, 1, 2]);
            prop_assert!(order.is_sorted_by_key(|&site| (!health.is_up(site), site)));
            for (site, up) in expected_up.iter().enumerate() {
                prop_assert_eq!(health.is_up(site), *up);
                prop_assert_eq!(health.probe_at(site).is_some(), !up);
                prop_assert!(health.probe_at(site).is_none_or(|at| at <= now + EVERY * LONGEST));
            }
        }
    }
}
