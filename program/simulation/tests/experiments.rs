//! Invariants of every experiment, and limits on the goodput that the retries of the driver cost.
#![allow(missing_docs)]

use simulation::{
    chart, grid,
    measure::Report,
    scenario::{INSERT_SHED_COST, QUERY_SHED_COST, Scenario, Strategy},
    table,
    world::World,
};

/// A small fleet for debug builds, with the rate per client of the default one.
fn small() -> Scenario {
    Scenario { clients: 40, ..Scenario::default() }
}

fn report(load: f64, strategy: Strategy) -> Report {
    World::new(Scenario { load, strategy, ..small() }).run().report
}

#[test]
fn same_seed_repeats_the_experiment() {
    let scenario = Scenario { load: 3.0, ..small() }.lasting(12.0);
    let run = |seed| World::new(Scenario { seed, ..scenario }).run().report;
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn every_operation_succeeds_fails_or_is_in_flight() {
    for scenario in grid::cells(small().lasting(12.0), &[0.5, 1.0, 3.0], &Strategy::ALL) {
        for shed_cost in [0.01, 0.2] {
            let counts = World::new(Scenario { shed_cost, ..scenario }).run().report.counts;
            assert!(counts.begun > 1000, "{scenario:?}");
            assert_eq!(counts.begun, counts.succeeded + counts.failed + counts.in_flight);
            assert!(counts.attempts >= counts.begun && counts.attempts <= 6 * counts.begun);
        }
    }
}

/// A rejected retry costs a token. A success returns a tenth of a token at most.
#[test]
fn tokens_are_accounted_for() {
    for load in [0.5, 1.25, 5.0] {
        let scenario = Scenario { load, ..small() };
        let completed = World::new(scenario).run();
        let counts = completed.report.counts;
        let whole = f64::from(scenario.clients) * 1000.0;
        let left = completed.tokens_left;
        let least = whole - counts.retries_shed as f64;
        assert!(left >= least - 1e-6, "{left} of {least} at {load}");
        assert!(left <= whole + 1e-6);
        let most = least + counts.succeeded as f64 / 10.0;
        assert!(left <= most + 1e-6, "{left} of {most} at {load}");
    }
}

/// Returns, by load, the goodput with the driver's retries as a part of that without retries: in the whole overload,
/// and in its last quarter. Omits loads at which the server serves nearly nothing without retries.
fn goodput_left(base: Scenario) -> Vec<(f64, f64, f64)> {
    let cells = grid::cells(base, &grid::LOADS, &[Strategy::Never, Strategy::Steadfast]);
    let reports = grid::run(&cells, |_| {});
    let pairs = reports.chunks(2).map(|pair| {
        let [never, ours] = pair else { panic!("two of each load") };
        let late = ours.late_goodput_share / never.late_goodput_share;
        (never.late_goodput_share, (never.load, ours.goodput / never.goodput, late))
    });
    pairs.filter(|(never, _)| *never > 0.05).map(|(_, left)| left).collect()
}

/// The fifth promise of the README.
#[test]
fn retries_leave_nine_tenths_of_the_goodput_once_the_budget_is_spent() {
    for shed_cost in [QUERY_SHED_COST, INSERT_SHED_COST, 0.25] {
        // At this rate, clients have spent their tokens by the last quarter.
        let left = goodput_left(Scenario { share: 50.0, shed_cost, ..small() });
        assert!(left.len() >= 7, "{left:?}");
        for (load, _, late) in left {
            assert!(late >= 0.9, "{late} at {load} with {shed_cost}");
        }
    }
}

#[test]
fn retries_of_expensive_operations_leave_nine_tenths_of_the_goodput_at_any_time() {
    for (load, whole, late) in goodput_left(Scenario { shed_cost: QUERY_SHED_COST, ..small() }) {
        assert!(whole >= 0.9, "{whole} at {load}");
        assert!(load < 3.0 || late >= 0.99, "{late} at {load}");
    }
}

/// The limit of the promise: at a low rate, 1000 tokens per client last long.
#[test]
fn retries_of_cheap_operations_cost_most_of_the_goodput_until_the_budget_is_spent() {
    let left = goodput_left(small());
    let at = |load: f64| left.iter().find(|left| left.0 == load).expect("it was tried").1;
    assert!(at(0.75) > 0.99 && at(1.25) < 0.6 && at(2.0) < 0.4, "{left:?}");
}

/// Shows that the experiment detects the effect of the bucket.
#[test]
fn retries_without_a_bucket_cost_goodput() {
    let never = report(5.0, Strategy::Never);
    for strategy in [Strategy::AtOnce, Strategy::Backoff] {
        let eager = report(5.0, strategy);
        assert!(eager.goodput < 0.8 * never.goodput, "{}: {}", eager.strategy, eager.goodput);
        assert!(eager.attempts_per_operation > 5.0);
    }
    let ours = report(5.0, Strategy::Steadfast);
    assert!(ours.attempts_per_operation < 3.0 && ours.denied_retries > 0);
}

/// The purpose of retries.
#[test]
fn fewer_operations_of_a_short_burst_fail_with_retries() {
    let failed = |shed_cost, strategy| {
        let burst = Scenario { load: 2.0, shed_cost, ..small() }.lasting(1.5);
        let scenario = Scenario { strategy, after: 15_000_000_000, ..burst };
        World::new(scenario).run().report.failed_share
    };
    for (shed_cost, part) in [(QUERY_SHED_COST, 0.25), (INSERT_SHED_COST, 0.8)] {
        let never = failed(shed_cost, Strategy::Never);
        let ours = failed(shed_cost, Strategy::Steadfast);
        assert!(never > 0.3 && ours < never * part, "{never} without, {ours} with");
    }
}

#[test]
fn strategies_do_not_differ_below_the_capacity() {
    let never = report(0.5, Strategy::Never);
    assert_eq!((never.failed_share, never.attempts_per_operation), (0.0, 1.0));
    for strategy in Strategy::ALL {
        let other = report(0.5, strategy);
        assert_eq!(other.goodput, never.goodput);
        assert_eq!(other.recovered_after, never.recovered_after);
    }
}

#[test]
fn table_and_chart_contain_every_experiment() {
    let base = small().lasting(3.0);
    let cells = grid::cells(base, &[0.5, 5.0], &Strategy::ALL);
    let reports = grid::run(&cells, |_| {});
    let table = table::table(&reports, &base);
    let widths: Vec<_> = table.lines().map(|line| line.chars().count()).collect();
    assert_eq!(widths.len(), cells.len() + 2);
    assert!(widths.iter().all(|&width| width == widths[0]), "{table}");

    let svg = chart::svg(&reports);
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert_eq!(svg.matches("<polyline").count(), 4 + 8 + 4, "a legend and three sets of curves");
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}
