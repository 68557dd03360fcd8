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
const CALLS_OF_A_TASK: u64 = 200;
const STORM: u64 = 5_000;
const FILLED: i32 = 100;
/// How long at most the pool is watched while it fills.
const FILLING_LIMIT: Duration = Duration::from_secs(40);

/// What was found of one driver.
struct Found {
    connections_per_thousand: f64,
    given_up: f64,
    usual: Duration,
    after_storm: Duration,
    filled: Option<Duration>,
}

/// Tries both drivers, each on a server of its own, and prints the table.
pub(crate) fn run() -> Result<()> {
    let runtime = Runtime::new()?;
    println!(
        "{:<10} {:>10} {:>18} {:>12} {:>18} {:>20}",
        "", "given up", "connections/1,000", "usual ping", "ping after storm", "minPoolSize filled"
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
        let filled = match found.filled {
            Some(time) => format!("{:.2} s", time.as_secs_f64()),
            None => format!("not in {FILLING_LIMIT:?}"),
        };
        println!(
            "{:<10} {:>9.0}% {:>18.1} {:>9.2} ms {:>15.2} ms {:>20}",
            contender.name(),
            found.given_up * 100.0,
            found.connections_per_thousand,
            found.usual.as_secs_f64() * 1e3,
            found.after_storm.as_secs_f64() * 1e3,
            filled,
        );
    }
    println!(
        "\n{TASKS} tasks, {CALLS_OF_A_TASK} calls each that the server answers after 0 to 8 ms, given up after 1 to \
         5 ms. The storm: {STORM} such calls\nat once, all dropped after 1 ms; then one ping."
    );
    Ok(())
}

async fn find_out<A: Application>(uri: &str, server: SocketAddr) -> Result<Found> {
    let application = A::connect(uri).await?;
    application.ping().await?;
    let before = accepted(server).await?;
    let given_up = churn(&application).await?;
    let after = accepted(server).await?;
    // One of them was made to ask.
    let made = f64::from(after - before - 1);
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let calls = (TASKS * CALLS_OF_A_TASK) as f64;
    let (usual, after_storm) = storm(A::connect(uri).await?).await?;
    Ok(Found {
        connections_per_thousand: made * 1000.0 / calls,
        given_up: given_up / calls,
        usual,
        after_storm,
        filled: fill::<A>(uri, server).await?,
    })
}

/// Has many calls given up at random; returns how many were.
async fn churn<A: Application>(application: &A) -> Result<f64> {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let application = application.clone();
        tasks.spawn(async move {
            let mut given_up = 0_u32;
            for call in 0..CALLS_OF_A_TASK {
                let number = (task * CALLS_OF_A_TASK + call).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let limit = Duration::from_micros(1_000 + (number >> 52));
                match timeout(limit, application.find_slowly()).await {
                    Ok(outcome) => outcome?,
                    Err(_) => given_up += 1,
                }
            }
            Result::Ok(given_up)
        });
    }
    let mut given_up = 0.0;
    while let Some(ended) = tasks.join_next().await {
        given_up += f64::from(ended??);
    }
    Ok(given_up)
}

/// How long a ping takes usually, and right after very many calls were dropped.
async fn storm<A: Application>(application: A) -> Result<(Duration, Duration)> {
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
    application.ping().await?;
    Ok((usual, began.elapsed()))
}

/// How long it takes until as many connections are there as are asked for.
async fn fill<A: Application>(uri: &str, server: SocketAddr) -> Result<Option<Duration>> {
    let mut counter = Counter::connect(server).await?;
    let before = counter.accepted().await?;
    let began = Instant::now();
    let application = A::connect(&format!("{uri}&minPoolSize={FILLED}")).await?;
    application.ping().await?;
    while began.elapsed() < FILLING_LIMIT {
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
