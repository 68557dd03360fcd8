//! Grids of experiments: each load with each strategy, run on all cores.

use std::{
    num::NonZero,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::{
    measure::Report,
    scenario::{Scenario, Strategy},
    world::World,
};

/// Loads of the default grid, as multiples of the capacity.
pub const LOADS: [f64; 8] = [0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0];

/// Returns a scenario for each load with each strategy. Operations begin at the same times for all strategies.
pub fn cells(base: Scenario, loads: &[f64], strategies: &[Strategy]) -> Vec<Scenario> {
    let of_load =
        |&load: &f64| strategies.iter().map(move |&strategy| Scenario { load, strategy, ..base });
    loads.iter().flat_map(of_load).collect()
}

/// Runs all scenarios and returns their reports in the same order.
///
/// `done` is called after each experiment with the number of finished ones.
pub fn run(scenarios: &[Scenario], done: impl Fn(usize) + Sync) -> Vec<Report> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(scenarios.len());
    let reports = Mutex::new(vec![None; scenarios.len()]);
    // The last scenarios take longest and are started first.
    let (left, finished) = (AtomicUsize::new(scenarios.len()), AtomicUsize::new(0));
    let work = || {
        while let Ok(before) =
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        {
            let report = World::new(scenarios[before - 1]).run().report;
            reports.lock().expect("no thread panicked")[before - 1] = Some(report);
            done(finished.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let reports = reports.into_inner().expect("no thread panicked");
    reports.into_iter().map(|report| report.expect("each was run")).collect()
}
