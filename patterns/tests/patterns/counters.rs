//! The proof of the counter: ten thousand increments from eight tasks, whose clients are killed at any time and
//! started again, over connections that are cut and servers that fail, while a sweep runs, are counted
//! once each. And the same for ways of counting that are known to be wrong, to show that it would be seen.

mod doubts;
mod end_of_day;
mod ghosts;
mod journal;
mod life;
mod servers;
mod storm;
mod tasks;
mod ways;

use std::{
    env,
    future::Future,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use tokio::sync::Semaphore;

use self::{
    servers::{Failover, Servers},
    storm::{Aftermath, Storm, TASKS},
    ways::{AlwaysAgain, ExactlyOnce, SweptByDay},
};
use crate::dice::Dice;

/// A run takes less than a minute, and only one that hangs takes longer than this, on however busy a machine.
const BOUND: Duration = Duration::from_secs(900);

/// One after the other: each of them keeps the machine busy.
async fn bounded(run: impl Future<Output = Aftermath>) -> Aftermath {
    static TURN: Semaphore = Semaphore::const_new(1);
    let _turn = TURN.acquire().await.expect("it is never closed");
    let aftermath = tokio::time::timeout(BOUND, run).await.expect("it ends in time");
    report(&aftermath.to_string());
    aftermath
}

impl Aftermath {
    /// Each was counted once, and nothing is left behind.
    fn assert_exact(&self, events: usize) {
        let Self { seed, wrong, doubts, .. } = self;
        assert!(wrong.is_empty(), "seed {seed}: {}", wrong.join("\n"));
        assert!(doubts.0.is_empty(), "seed {seed}: {}", doubts.0.join("\n"));
        assert_eq!(self.counted, events);
        assert!(self.leftovers.is_empty(), "seed {seed}: {:?}", self.leftovers);
        assert!(self.cuts > 0, "{self}");
    }

    /// There was every kind of fault.
    fn assert_disturbed(&self) {
        let Self { doubts, tally, .. } = self;
        let number = |count: &AtomicUsize| count.load(Relaxed);
        assert!(number(&tally.killed) >= TASKS && number(&tally.dropped_calls) > 0, "{self}");
        assert!(number(&tally.sweeps) > 0 && number(&tally.swept) > 0, "{self}");
        assert!(number(&tally.forgotten) > 0 && self.never_begun > 0, "{self}");
        assert!(self.ghosts.1 > 0 && doubts.1 > 0, "{self}");
    }
}

/// Figures for whoever reads the output (`--nocapture`).
#[allow(clippy::print_stderr)]
fn report(line: &str) {
    eprintln!("{line}");
}

/// Ten thousand, or as many as `STEADFAST_INCREMENTS` says.
fn increments() -> usize {
    env::var("STEADFAST_INCREMENTS").map_or(10_000, |number| number.parse().expect("a number"))
}

/// The final count is that of the events, though clients are killed between and inside the steps,
/// connections are cut, primaries step down, die and are cut off, messages arrive late, and a sweep runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_increments_are_counted_once_each_whatever_breaks() {
    let (dice, seed) = Dice::seeded(1);
    let servers = Servers::embedded(seed);
    let failovers = [Failover::StepDown, Failover::Kill, Failover::CutOff, Failover::Kill];
    let run = Storm::<ExactlyOnce>::over(&servers, increments(), &failovers, (dice, seed));
    let aftermath = bounded(run).await;
    aftermath.assert_exact(increments());
    aftermath.assert_disturbed();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_increments_are_counted_once_each_on_real_servers() {
    testbed::require!(V6_0);
    let (dice, seed) = Dice::seeded(2);
    let servers = Servers::real();
    let failovers = [Failover::StepDown, Failover::Kill];
    let run = Storm::<ExactlyOnce>::over(&servers, increments(), &failovers, (dice, seed));
    let aftermath = bounded(run).await;
    aftermath.assert_exact(increments());
    aftermath.assert_disturbed();
}

/// Counters are on both shards, and their chunks move there and back while they are counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_are_counted_once_each_while_their_chunks_migrate() {
    testbed::require!(V8_2);
    let (dice, seed) = Dice::seeded(3);
    let servers = Servers::sharded();
    let migrations = [Failover::Migration; 4];
    let events = increments().min(2_000);
    let run = Storm::<ExactlyOnce>::over(&servers, events, &migrations, (dice, seed));
    bounded(run).await.assert_exact(events);
}

/// A lost reply is an increment that is made again: that the count is too high shows that the faults are
/// there, and that the judge sees them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_that_are_always_tried_again_are_counted_wrong() {
    let (dice, seed) = Dice::seeded(1);
    let servers = Servers::embedded(seed);
    let failovers = [Failover::StepDown];
    let run = Storm::<AlwaysAgain>::over(&servers, 2_000, &failovers, (dice, seed));
    let aftermath = bounded(run).await;
    assert!(!aftermath.wrong.is_empty(), "the faults hit nothing");
}

/// Two steps alone are not enough where a sweep runs at any time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_that_does_not_wait_for_the_end_of_the_day_counts_wrong() {
    let (dice, seed) = Dice::seeded(2);
    let servers = Servers::embedded(seed);
    let failovers = [Failover::StepDown];
    let run = Storm::<SweptByDay>::over(&servers, 2_000, &failovers, (dice, seed));
    let aftermath = bounded(run).await;
    assert!(!aftermath.wrong.is_empty(), "the sweep met nobody");
}
