//! Cancelled operations: new connections and queues that they cause.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use tokio::{task::JoinSet, time::timeout};

use super::{CannedCounters, CannedServer, in_own_runtime, millis};
use crate::{
    Result,
    canned::MAX_DELAY,
    contender::{Application, Contender, with_library},
};

/// Numbers of tasks: far below `maxPoolSize`, and close to it.
const TASKS: [u64; 2] = [8, 64];
/// Pool size; the default `maxPoolSize` of the official driver, too.
const MAX_POOL_SIZE: i32 = 100;
/// Duration of cancelling at random.
const CHURN_DURATION: Duration = Duration::from_secs(5);
const BURST_CALLS: u64 = 5_000;
/// Bound on operations that usually take a moment.
const TIMEOUT: Duration = Duration::from_secs(40);

/// Runs the drivers on separate servers and prints the tables.
pub(crate) fn run() -> Result<()> {
    compare_cancellation()?;
    println!();
    compare_burst_and_filling()
}

fn compare_cancellation() -> Result<()> {
    println!(
        "{:<5} {:<10} {:>9} {:>9} {:>12} {:>18} {:>19}",
        "tasks",
        "",
        "started",
        "answered",
        "connections",
        "per 1,000 started",
        "per 1,000 answered"
    );
    for tasks in TASKS {
        for &contender in Contender::drivers() {
            eprintln!(
                "{}: {tasks} tasks cancel calls at random, {CHURN_DURATION:?} ...",
                contender.name()
            );
            let server = CannedServer::start()?;
            let found = in_own_runtime(async {
                with_library!(contender, cancel_at_random(&server, tasks))
            })?;
            println!(
                "{tasks:<5} {:<10} {:>9} {:>9} {:>12} {:>18.2} {:>19.2}",
                contender.name(),
                found.calls.started,
                found.calls.answered,
                found.connections,
                f64::from(found.connections) * 1e3 / f64::from(found.calls.started),
                f64::from(found.connections) * 1e3 / f64::from(found.calls.answered),
            );
        }
    }
    println!(
        "The server replies after 0 to {MAX_DELAY:?}, uniformly distributed; each call is cancelled after 1 to 5 ms. \
         maxPoolSize is {MAX_POOL_SIZE}.\nConnections are those created in this time, those of monitors included."
    );
    Ok(())
}

fn compare_burst_and_filling() -> Result<()> {
    println!(
        "{:<10} {:>12} {:>17} {:>24}",
        "", "ping before", "ping after burst", "minPoolSize=100 filled"
    );
    for &contender in Contender::drivers() {
        let server = CannedServer::start()?;
        eprintln!("{}: a burst of cancelled operations ...", contender.name());
        let (usual, after) =
            in_own_runtime(async { with_library!(contender, ping_after_burst(&server.uri)) })?;
        eprintln!("{}: filling a pool ...", contender.name());
        let time_to_fill_pool = in_own_runtime(async {
            with_library!(contender, time_to_fill_pool(&server.uri, server.address))
        })?;
        let shown =
            |time: Option<Duration>| time.map_or_else(|| format!("not within {TIMEOUT:?}"), millis);
        println!(
            "{:<10} {:>12} {:>17} {:>24}",
            contender.name(),
            millis(usual),
            shown(after),
            shown(time_to_fill_pool),
        );
    }
    println!("The burst: {BURST_CALLS} concurrent calls, all cancelled after 1 ms; then one ping.");
    Ok(())
}

/// Result of cancelling at random.
struct ChurnResult {
    calls: CallCounts,
    connections: i32,
}

/// Numbers of calls.
#[derive(Clone, Copy, Debug, Default)]
struct CallCounts {
    started: u32,
    answered: u32,
}

/// Cancels calls at random and counts the connections.
async fn cancel_at_random<A: Application>(
    server: &CannedServer,
    tasks: u64,
) -> Result<ChurnResult> {
    let uri = format!("{}&maxPoolSize={MAX_POOL_SIZE}", server.uri);
    let application = A::connect(&uri).await?;
    application.ping().await?;
    let mut counter = CannedCounters::connect(server.address).await?;
    let before = counter.accepted().await?;
    let began = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        running.spawn(cancel_until(application.clone(), task, began + CHURN_DURATION));
    }
    let mut calls = CallCounts::default();
    while let Some(ended) = running.join_next().await {
        let CallCounts { started, answered } = ended??;
        calls.started += started;
        calls.answered += answered;
    }
    Ok(ChurnResult { calls, connections: counter.accepted().await? - before })
}

async fn cancel_until<A: Application>(
    application: A,
    task: u64,
    end: Instant,
) -> Result<CallCounts> {
    let mut calls = CallCounts::default();
    let mut number = task;
    while Instant::now() < end {
        number = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let limit = Duration::from_micros(1_000 + (number >> 32) % 4_000);
        calls.started += 1;
        if let Ok(outcome) = timeout(limit, application.find_slowly()).await {
            outcome?;
            calls.answered += 1;
        }
    }
    Ok(calls)
}

/// Returns the latency of a ping before a burst of cancelled calls, and immediately after it.
async fn ping_after_burst<A: Application>(uri: &str) -> Result<(Duration, Option<Duration>)> {
    let application = A::connect(uri).await?;
    for _ in 0..100 {
        application.ping().await?;
    }
    let began = Instant::now();
    application.ping().await?;
    let usual = began.elapsed();
    let mut tasks = JoinSet::new();
    for _ in 0..BURST_CALLS {
        let application = application.clone();
        tasks.spawn(async move {
            let _ = timeout(Duration::from_millis(1), application.find_slowly()).await;
        });
    }
    while tasks.join_next().await.is_some() {}
    let began = Instant::now();
    match timeout(TIMEOUT, application.ping()).await {
        Ok(outcome) => outcome.map(|()| (usual, Some(began.elapsed()))),
        Err(_) => Ok((usual, None)),
    }
}

/// Returns the time until the pool has `minPoolSize` connections.
async fn time_to_fill_pool<A: Application>(
    uri: &str,
    server: SocketAddr,
) -> Result<Option<Duration>> {
    let mut counter = CannedCounters::connect(server).await?;
    let before = counter.accepted().await?;
    let began = Instant::now();
    let application = A::connect(&format!("{uri}&minPoolSize={MAX_POOL_SIZE}")).await?;
    drop(timeout(TIMEOUT, application.ping()).await);
    while began.elapsed() < TIMEOUT {
        if counter.accepted().await? - before >= MAX_POOL_SIZE {
            return Ok(Some(began.elapsed()));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(None)
}
