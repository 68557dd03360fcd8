//! Open-loop load: operations begin as a Poisson process, whether or not earlier ones have ended.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use steadfast_report::{quantiles::Histogram, random::Rng};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};

use super::strategy::Strategy;
use crate::{Result, contender::Application};

/// Bound on the operations that are still under way when the load ends. Their retries take some seconds.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Load of all clients together.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenLoopLoad {
    pub(super) operations_per_second: f64,
    pub(super) duration: Duration,
    pub(super) seed: u64,
}

/// Outcome of a load.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) begun: u64,
    /// Operations that began in the last quarter.
    pub(super) begun_late: u64,
    /// Operations that succeeded before the load ended.
    pub(super) succeeded_in_time: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    /// Time from the planned beginning of each operation that succeeded.
    pub(super) latencies: Histogram,
    /// An error that is not of overload. The figures of such a run mean nothing.
    pub(super) unexpected: Option<String>,
}

/// Puts a load on the clients in equal parts; returns when all operations have ended.
pub(super) async fn put<A: Application>(
    clients: &[A],
    strategy: Strategy,
    load: OpenLoopLoad,
) -> Result<Tally> {
    let tally = Arc::new(Mutex::new(Tally {
        begun: 0,
        begun_late: 0,
        succeeded_in_time: 0,
        succeeded: 0,
        failed: 0,
        latencies: Histogram::default(),
        unexpected: None,
    }));
    let mut generators = JoinSet::new();
    let start = Instant::now();
    let per_client = load.operations_per_second / clients.len() as f64;
    for (client, seed) in clients.iter().zip(load.seed..) {
        let part = OpenLoopLoad { operations_per_second: per_client, seed, ..load };
        let (client, tally) = (client.clone(), Arc::clone(&tally));
        generators.spawn(generate(client, strategy, part, start, tally));
    }
    while let Some(ended) = generators.join_next().await {
        ended??;
    }
    let tally = Arc::into_inner(tally).ok_or("an operation is still under way")?;
    Ok(tally.into_inner()?)
}

async fn generate<A: Application>(
    client: A,
    strategy: Strategy,
    load: OpenLoopLoad,
    start: Instant,
    tally: Arc<Mutex<Tally>>,
) -> Result<()> {
    let mut rng = Rng::stream(load.seed, 1);
    let mut operations = JoinSet::new();
    let end = start + load.duration;
    let mut next = start;
    loop {
        next += Duration::from_secs_f64(rng.exponential() / load.operations_per_second);
        if next >= end {
            break;
        }
        sleep_until(next).await;
        let (client, tally, mut rng) = (client.clone(), Arc::clone(&tally), Rng(rng.next_u64()));
        operations.spawn(async move {
            let outcome = strategy.insert(&client, &mut rng).await;
            let now = Instant::now();
            let mut tally = tally.lock().expect("no operation panicked");
            tally.begun += 1;
            tally.begun_late += u64::from(next >= end - load.duration / 4);
            match outcome {
                Ok(()) => {
                    tally.succeeded += 1;
                    tally.succeeded_in_time += u64::from(now <= end);
                    tally.latencies.add(now - next);
                }
                Err(error) => {
                    tally.failed += 1;
                    if !error.overloaded {
                        tally.unexpected.get_or_insert(error.message);
                    }
                }
            }
        });
        // Ended tasks are freed while the load goes on.
        while let Some(ended) = operations.try_join_next() {
            ended?;
        }
    }
    let drained = timeout(DRAIN_TIMEOUT, async {
        while let Some(ended) = operations.join_next().await {
            ended?;
        }
        Result::Ok(())
    });
    drained.await.map_err(|_| "operations did not end within a minute after the load")?
}
