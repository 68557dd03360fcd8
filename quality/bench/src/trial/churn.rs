//! What is left behind when operations are given up: connections made anew, and queues.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use tokio::{task::JoinSet, time::timeout};

use super::{Counter, Fresh, apart, millis};
use crate::{
    Result,
    canned::SLOWEST,
    contender::{Application, Contender, with_library},
};

/// How many tasks give up: far fewer than there may be connections, and nearly as many.
const TASKS: [u64; 2] = [8, 64];
/// The largest pool, as it is by default for the official driver too.
const MOST_CONNECTIONS: i32 = 100;
/// For how long operations are given up at random.
const CHURNED: Duration = Duration::from_secs(5);
const STORM: u64 = 5_000;
/// How long at most is waited for what should take a moment.
const PATIENCE: Duration = Duration::from_secs(40);

/// Tries the drivers, each on servers of its own, and prints the tables.
pub(crate) fn run() -> Result<()> {
    given_up_at_random()?;
    println!();
    storm_and_filling()
}

fn given_up_at_random() -> Result<()> {
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
            eprintln!("{}: {tasks} tasks give up at random, {CHURNED:?} ...", contender.name());
            let server = Fresh::start()?;
            let found = apart(async { with_library!(contender, churned(&server, tasks)) })?;
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
        "The server answers after 0 to {SLOWEST:?}, evenly; each call is given up after 1 to 5 ms. maxPoolSize is \
         {MOST_CONNECTIONS}.\nConnections are those made meanwhile, a monitor's included."
    );
    Ok(())
}

fn storm_and_filling() -> Result<()> {
    println!(
        "{:<10} {:>12} {:>17} {:>24}",
        "", "usual ping", "ping after storm", "minPoolSize=100 filled"
    );
    for &contender in Contender::drivers() {
        let server = Fresh::start()?;
        eprintln!("{}: a storm of dropped operations ...", contender.name());
        let (usual, after) = apart(async { with_library!(contender, storm(&server.uri)) })?;
        eprintln!("{}: filling a pool ...", contender.name());
        let filled =
            apart(async { with_library!(contender, filled(&server.uri, server.address)) })?;
        let shown = |time: Option<Duration>| {
            time.map_or_else(|| format!("not within {PATIENCE:?}"), millis)
        };
        println!(
            "{:<10} {:>12} {:>17} {:>24}",
            contender.name(),
            millis(usual),
            shown(after),
            shown(filled),
        );
    }
    println!("The storm: {STORM} calls at once, all dropped after 1 ms; then one ping.");
    Ok(())
}

/// What came of giving up.
struct Churned {
    calls: Calls,
    connections: i32,
}

/// How calls ended.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    started: u32,
    answered: u32,
}

/// Has calls given up at random.
async fn churned<A: Application>(server: &Fresh, tasks: u64) -> Result<Churned> {
    let uri = format!("{}&maxPoolSize={MOST_CONNECTIONS}", server.uri);
    let application = A::connect(&uri).await?;
    application.ping().await?;
    let mut counter = Counter::connect(server.address).await?;
    let before = counter.accepted().await?;
    let began = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        running.spawn(give_up_until(application.clone(), task, began + CHURNED));
    }
    let mut calls = Calls::default();
    while let Some(ended) = running.join_next().await {
        let Calls { started, answered } = ended??;
        calls.started += started;
        calls.answered += answered;
    }
    Ok(Churned { calls, connections: counter.accepted().await? - before })
}

async fn give_up_until<A: Application>(application: A, task: u64, end: Instant) -> Result<Calls> {
    let mut calls = Calls::default();
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

/// How long a ping takes usually, and right after very many calls were dropped.
async fn storm<A: Application>(uri: &str) -> Result<(Duration, Option<Duration>)> {
    let application = A::connect(uri).await?;
    for _ in 0..100 {
        application.ping().await?;
    }
    let began = Instant::now();
    application.ping().await?;
    let usual = began.elapsed();
    let mut tasks = JoinSet::new();
    for _ in 0..STORM {
        let application = application.clone();
        tasks.spawn(async move {
            let _ = timeout(Duration::from_millis(1), application.find_slowly()).await;
        });
    }
    while tasks.join_next().await.is_some() {}
    let began = Instant::now();
    match timeout(PATIENCE, application.ping()).await {
        Ok(outcome) => outcome.map(|()| (usual, Some(began.elapsed()))),
        Err(_) => Ok((usual, None)),
    }
}

/// How long it takes until as many connections are there as are asked for.
async fn filled<A: Application>(uri: &str, server: SocketAddr) -> Result<Option<Duration>> {
    let mut counter = Counter::connect(server).await?;
    let before = counter.accepted().await?;
    let began = Instant::now();
    let application = A::connect(&format!("{uri}&minPoolSize={MOST_CONNECTIONS}")).await?;
    drop(timeout(PATIENCE, application.ping()).await);
    while began.elapsed() < PATIENCE {
        if counter.accepted().await? - before >= MOST_CONNECTIONS {
            return Ok(Some(began.elapsed()));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(None)
}
