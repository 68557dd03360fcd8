//! What an application notices of a server that turns away half of all inserts, and what the server
//! notices of the driver.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use super::{Counter, Fresh, apart};
use crate::{
    Result,
    contender::{Application, Contender, with_library},
};

const TASKS: u32 = 64;
/// How many operations are tried: a burst, and so many that it is no burst any more.
const OPERATIONS: [u32; 2] = [2_000, 20_000];

/// What came of it.
struct Shed {
    failed: u32,
    attempts: i32,
    elapsed: Duration,
}

/// Tries the drivers, each on servers of its own, and prints the table.
pub(crate) fn run() -> Result<()> {
    println!(
        "{:<11} {:<10} {:>8} {:>9} {:>23} {:>20}",
        "operations", "", "failed", "", "attempts per operation", "operations per s"
    );
    for operations in OPERATIONS {
        for &contender in Contender::drivers() {
            eprintln!("{}: {operations} inserts, every other one shed ...", contender.name());
            let server = Fresh::start()?;
            let shed = apart(async { with_library!(contender, insert(&server, operations)) })?;
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
        "{TASKS} tasks with one client. The server turns away every other insert, by chance and always the same \
         (code 462,\nlabelled RetryableError and SystemOverloadedError), also those that are tried again."
    );
    Ok(())
}

async fn insert<A: Application>(server: &Fresh, operations: u32) -> Result<Shed> {
    let application = A::connect(&server.uri).await?;
    // The first of all is not turned away: the client has met its server by then.
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
    let attempts = Counter::connect(server.address).await?.attempted().await?;
    Ok(Shed { failed, attempts, elapsed })
}

/// Inserts until all are done, and returns how many failed.
async fn insert_while<A: Application>(application: A, left: Arc<AtomicU32>) -> u32 {
    let mut failed = 0;
    let take = |left: u32| left.checked_sub(1);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        failed += u32::from(application.insert_shed().await.is_err());
    }
    failed
}
