//! What is left behind when operations are given up: connections made anew, and queues.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use bson::rawdoc;
use tokio::{net::TcpStream, runtime::Runtime, task::JoinSet, time::timeout};

use crate::{
    Result,
    case::ServerKind,
    contender::{Application, Contender, OfficialLibrary, SteadfastLibrary, floor::round_trip},
    op_msg,
    servers::Servers,
    workload::Workload,
};

const TASKS: u64 = 64;
/// For how long operations are given up at random.
const CHURNED: Duration = Duration::from_secs(5);
const STORM: u64 = 5_000;
const FILLED: i32 = 100;
/// How long at most is waited for what should take a moment.
const PATIENCE: Duration = Duration::from_secs(40);

/// What was found of one driver.
struct Found {
    calls: Calls,
    connections: i32,
    usual: Duration,
    after_storm: Option<Duration>,
    filled: Option<Duration>,
}

/// How calls ended.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    answered: u32,
    given_up: u32,
}

/// Tries both drivers, each on a server of its own, and prints the table.
pub(crate) fn run() -> Result<()> {
    let runtime = Runtime::new()?;
    println!(
        "{:<10} {:>9} {:>9} {:>12} {:>13} {:>12} {:>17} {:>19}",
        "",
        "answered",
        "given up",
        "connections",
        "per 1,000",
        "usual ping",
        "ping after storm",
        "minPoolSize filled"
    );
    for contender in [Contender::Steadfast, Contender::Official] {
        // A new server for each, so that what one leaves behind does not meet the other.
        let mut servers = Servers::default();
        let place = servers.prepare(ServerKind::Canned, Workload::Ping)?;
        let uri = format!("mongodb://{}/?replicaSet={}&maxPoolSize=100", place.address, place.set);
        let found = runtime.block_on(async {
            match contender {
                Contender::Official => find_out::<OfficialLibrary>(&uri, place.address).await,
                Contender::Floor | Contender::Steadfast => {
                    find_out::<SteadfastLibrary>(&uri, place.address).await
                }
            }
        })?;
        let shown = |time: Option<Duration>| match time {
            Some(time) => format!("{:.2} ms", time.as_secs_f64() * 1e3),
            None => format!("not in {PATIENCE:?}"),
        };
        println!(
            "{:<10} {:>9} {:>9} {:>12} {:>13.2} {:>12} {:>17} {:>19}",
            contender.name(),
            found.calls.answered,
            found.calls.given_up,
            found.connections,
            f64::from(found.connections) * 1e3
                / f64::from(found.calls.answered + found.calls.given_up),
            shown(Some(found.usual)),
            shown(found.after_storm),
            shown(found.filled),
        );
    }
    println!(
        "\n{TASKS} tasks for {CHURNED:?}: calls that the server answers after 0 to 8 ms, given up after 1 to 5 ms; \
         connections made\nmeanwhile, and per thousand calls. The storm: {STORM} such calls at once, all dropped after \
         1 ms; then one ping."
    );
    Ok(())
}

async fn find_out<A: Application>(uri: &str, server: SocketAddr) -> Result<Found> {
    let application = A::connect(uri).await?;
    application.ping().await?;
    let before = accepted(server).await?;
    eprintln!("operations given up at random ...");
    let calls = churn(&application).await?;
    // One more was made to ask.
    let connections = accepted(server).await? - before - 1;
    drop(application);
    eprintln!("a storm of dropped operations ...");
    let (usual, after_storm) = storm(A::connect(uri).await?).await?;
    eprintln!("filling a pool ...");
    Ok(Found { calls, connections, usual, after_storm, filled: fill::<A>(uri, server).await? })
}

/// Has calls given up at random.
async fn churn<A: Application>(application: &A) -> Result<Calls> {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let application = application.clone();
        tasks.spawn(async move {
            let mut calls = Calls::default();
            let mut number = task;
            while began.elapsed() < CHURNED {
                number = (number + TASKS).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let limit = Duration::from_micros(1_000 + (number >> 52));
                match timeout(limit, application.find_slowly()).await {
                    Ok(outcome) => {
                        outcome?;
                        calls.answered += 1;
                    }
                    Err(_) => calls.given_up += 1,
                }
            }
            Result::Ok(calls)
        });
    }
    let mut all = Calls::default();
    while let Some(ended) = tasks.join_next().await {
        let calls = ended??;
        all.answered += calls.answered;
        all.given_up += calls.given_up;
    }
    Ok(all)
}

/// How long a ping takes usually, and right after very many calls were dropped.
async fn storm<A: Application>(application: A) -> Result<(Duration, Option<Duration>)> {
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
async fn fill<A: Application>(uri: &str, server: SocketAddr) -> Result<Option<Duration>> {
    let mut counter = Counter::connect(server).await?;
    let before = counter.accepted().await?;
    let began = Instant::now();
    let application = A::connect(&format!("{uri}&minPoolSize={FILLED}")).await?;
    drop(timeout(PATIENCE, application.ping()).await);
    while began.elapsed() < PATIENCE {
        if counter.accepted().await? - before >= FILLED {
            return Ok(Some(began.elapsed()));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(None)
}

async fn accepted(server: SocketAddr) -> Result<i32> {
    Counter::connect(server).await?.accepted().await
}

/// Asks the server how many connections were made to it.
struct Counter(TcpStream);

impl Counter {
    async fn connect(server: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    async fn accepted(&mut self) -> Result<i32> {
        let request = op_msg::message(&rawdoc! { "accepted": 1, "$db": "admin" }, None);
        let mut inbox = Vec::new();
        round_trip(&mut self.0, &request, &mut inbox).await?;
        let at = op_msg::place_after(&inbox, b"\x10n\0").ok_or("no count came")?;
        Ok(op_msg::i32_at(&inbox, at))
    }
}
