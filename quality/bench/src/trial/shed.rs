//! Load shedding: failed operations and attempts with a server that rejects half of all inserts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use super::{CannedCounters, CannedServer, in_own_runtime};
use crate::{
    Result,
    contender::{Application, Contender, with_library},
};

const TASKS: u32 = 64;
/// Numbers of operations: a burst, and a sustained load.
const OPERATIONS: [u32; 2] = [2_000, 20_000];

/// Result of a run.
struct ShedResult {
    failed: u32,
    attempts: i32,
    elapsed: Duration,
}

/// Runs the drivers on separate servers and prints the table.
pub(crate) fn run() -> Result<()> {
    println!(
        "{:<11} {:<10} {:>8} {:>9} {:>23} {:>20}",
        "operations", "", "failed", "", "attempts per operation", "operations per s"
    );
    for operations in OPERATIONS {
        for &contender in Contender::drivers() {
            eprintln!("{}: {operations} inserts, half of them rejected ...", contender.name());
            let server = CannedServer::start()?;
            let shed =
                in_own_runtime(async { with_library!(contender, insert(&server, operations)) })?;
            println!(
                "{operations:<11} {:<10} {:>8} {:>7.1} % {:>23.2} {:>20.0}",
                contender.name(),
                shed.failed,
                f64::from(shed.failed) * 100.0 / f64::from(operations),
                f64::from(shed.attempts) / f64::from(operations),
                f64::from(operations) / shed.elapsed.as_secs_f64(),
            );
        }
    }
    println!(
        "{TASKS} tasks with one client. The server rejects half of all inserts, retries included, at random with a fixed \
         seed\n(code 462, labels RetryableError and SystemOverloadedError)."
    );
    Ok(())
}

async fn insert<A: Application>(server: &CannedServer, operations: u32) -> Result<ShedResult> {
    let application = A::connect(&server.uri).await?;
    // Not into `shed`: connects the client before the measurement.
    application.insert().await?;
    let left = Arc::new(AtomicU32::new(operations));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        tasks.spawn(insert_while(application.clone(), Arc::clone(&left)));
    }
    let mut failed = 0;
    while let Some(ended) = tasks.join_next().await {
        failed += ended?;
    }
    let elapsed = began.elapsed();
    let attempts = CannedCounters::connect(server.address).await?.attempted().await?;
    Ok(ShedResult { failed, attempts, elapsed })
}

/// Inserts until none are left; returns the number of failed inserts.
async fn insert_while<A: Application>(application: A, left: Arc<AtomicU32>) -> u32 {
    let mut failed = 0;
    let take = |left: u32| left.checked_sub(1);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        failed += u32::from(application.insert_shed().await.is_err());
    }
    failed
}
