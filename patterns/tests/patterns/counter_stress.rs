//! Stress test of the counter: eight tasks make ten thousand increments while clients are killed and
//! restarted, connections break, servers fail and a sweep runs. Each increment must be counted once. Two
//! strategies that are known to be wrong run under the same faults, to show that the test detects miscounts.

mod article_cleanup;
mod delayed_requests;
mod journal;
mod lifetime;
mod servers;
mod strategies;
mod stress_run;
mod tasks;
mod unrecorded;

use std::{
    env,
    future::Future,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use tokio::sync::Semaphore;

use self::{
    servers::{Failover, StressServers},
    strategies::{AlwaysRetry, ArticleCounter, TwoStepCounter},
    stress_run::{StressReport, StressRun, TASKS},
};
use crate::rng::Rng;

/// Time limit of a run, which takes less than a minute. Only a hang exceeds it.
const TEST_TIMEOUT: Duration = Duration::from_secs(900);

/// Runs one stress test at a time, because each keeps the machine busy.
async fn run_alone(run: impl Future<Output = StressReport>) -> StressReport {
    static TURN: Semaphore = Semaphore::const_new(1);
    let _turn = TURN.acquire().await.expect("the semaphore is never closed");
    let report = tokio::time::timeout(TEST_TIMEOUT, run).await.expect("the run hangs");
    print_report(&report.to_string());
    report
}

impl StressReport {
    /// Asserts that each event is counted once, and that no token or tombstone is left.
    fn assert_exact(&self, events: usize) {
        let Self { seed, wrong, unrecorded, .. } = self;
        assert!(wrong.is_empty(), "seed {seed}: {}", wrong.join("\n"));
        assert!(unrecorded.0.is_empty(), "seed {seed}: {}", unrecorded.0.join("\n"));
        assert_eq!(self.counted, events);
        assert!(self.leftovers.is_empty(), "seed {seed}: {:?}", self.leftovers);
        assert!(self.cuts > 0, "{self}");
    }

    /// Asserts that every kind of fault occurred.
    fn assert_disturbed(&self) {
        let Self { unrecorded, counts, .. } = self;
        let number = |count: &AtomicUsize| count.load(Relaxed);
        assert!(number(&counts.killed) >= TASKS && number(&counts.dropped_calls) > 0, "{self}");
        assert!(number(&counts.sweeps) > 0 && number(&counts.swept) > 0, "{self}");
        assert!(number(&counts.tombstones_removed) > 0 && self.never_begun > 0, "{self}");
        assert!(self.delayed_requests.1 > 0 && unrecorded.1 > 0, "{self}");
    }
}

/// Prints figures (visible with `--nocapture`).
#[allow(clippy::print_stderr)]
fn print_report(line: &str) {
    eprintln!("{line}");
}

/// Number of increments: ten thousand, or the value of `STEADFAST_INCREMENTS`.
fn increments() -> usize {
    env::var("STEADFAST_INCREMENTS").map_or(10_000, |number| number.parse().expect("a number"))
}

/// Clients are killed between and within the steps, connections break, primaries step down, crash and are
/// partitioned, requests arrive late, and a sweep runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_increments_are_counted_once_each_despite_faults() {
    let (rng, seed) = Rng::seeded(1);
    let servers = StressServers::embedded(seed);
    let failovers = [Failover::StepDown, Failover::Kill, Failover::CutOff, Failover::Kill];
    let run = StressRun::<TwoStepCounter>::over(&servers, increments(), &failovers, (rng, seed));
    let report = run_alone(run).await;
    report.assert_exact(increments());
    report.assert_disturbed();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_increments_are_counted_once_each_on_real_servers() {
    testbed::require!(V6_0);
    let (rng, seed) = Rng::seeded(2);
    let servers = StressServers::real();
    let failovers = [Failover::StepDown, Failover::Kill];
    let run = StressRun::<TwoStepCounter>::over(&servers, increments(), &failovers, (rng, seed));
    let report = run_alone(run).await;
    report.assert_exact(increments());
    report.assert_disturbed();
}

/// Counters are on both shards, and their chunks migrate while they are counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_are_counted_once_each_while_their_chunks_migrate() {
    testbed::require!(V8_2);
    let (rng, seed) = Rng::seeded(3);
    let servers = StressServers::sharded();
    let migrations = [Failover::Migration; 4];
    let events = increments().min(2_000);
    let run = StressRun::<TwoStepCounter>::over(&servers, events, &migrations, (rng, seed));
    run_alone(run).await.assert_exact(events);
}

/// Control: an increment is repeated after a lost reply. The miscount shows that the faults occur and are
/// detected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_retried_after_every_error_are_counted_wrong() {
    let (rng, seed) = Rng::seeded(1);
    let servers = StressServers::embedded(seed);
    let failovers = [Failover::StepDown];
    let run = StressRun::<AlwaysRetry>::over(&servers, 2_000, &failovers, (rng, seed));
    let report = run_alone(run).await;
    assert!(!report.wrong.is_empty(), "the faults had no effect");
}

/// Control: the cleanup of the article is not safe while writers are active.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cleanup_with_concurrent_writers_counts_wrong() {
    let (rng, seed) = Rng::seeded(2);
    let servers = StressServers::embedded(seed);
    let failovers = [Failover::StepDown];
    let run = StressRun::<ArticleCounter>::over(&servers, 2_000, &failovers, (rng, seed));
    let report = run_alone(run).await;
    assert!(!report.wrong.is_empty(), "the cleanup met no writer");
}
