//! Throughput of inserts through the proxy as a ratio of inserts sent to the server directly.
//!
//! `cargo run --release -p blackpipe --example throughput` starts a real server and sends prepared
//! messages over several connections. Rounds alternate between direct and proxied. The ratio is
//! that of the medians. Goal: 0.8 without rules.

use std::{
    io::{self, Write},
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use blackpipe::proxy::Proxy;
use bson::rawdoc;
use steadfast_wire::{DocumentRun, OpMsg};
use testbed::{Options, ReplicaSet};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(1500);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Size and concurrency of one measurement.
struct Load {
    name: &'static str,
    document_bytes: usize,
    connections: usize,
}

const LOADS: [Load; 4] = [
    Load { name: "small inserts, 1 connection", document_bytes: 100, connections: 1 },
    Load { name: "small inserts, 16 connections", document_bytes: 100, connections: 16 },
    Load { name: "1 MB inserts, 1 connection", document_bytes: 1_000_000, connections: 1 },
    Load { name: "1 MB inserts, 4 connections", document_bytes: 1_000_000, connections: 4 },
];

fn main() -> Result<(), Failure> {
    let set = ReplicaSet::start(1, Options::new()).map_err(|error| error.to_string())?;
    let proxy = proxy_on_its_own_thread(set.uri())?;
    let clients = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut out = io::stdout();
    for load in LOADS {
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (rates, address) in rates.iter_mut().zip([set.addresses()[0], proxy]) {
                rates.push(clients.block_on(rate(address, &load))?);
            }
        }
        let [straight, through] = rates.map(median);
        let ratio = through / straight;
        let name = load.name;
        writeln!(out, "{name:32} {straight:9.0}/s straight {through:9.0}/s through: {ratio:.2}")?;
    }
    Ok(())
}

/// Starts a proxy as the program `steadfast pipe` does: on one thread, which is faster than handing
/// work between several.
fn proxy_on_its_own_thread(uri: String) -> Result<SocketAddr, Failure> {
    let (started, address) = std::sync::mpsc::channel();
    thread::spawn(move || -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let proxy = Proxy::builder(uri).start().await?;
            started.send(proxy.members()[0].0)?;
            std::future::pending::<Result<(), Failure>>().await
        })
    });
    Ok(address.recv()?)
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Inserts per second over all connections.
async fn rate(address: SocketAddr, load: &Load) -> Result<f64, Failure> {
    let message = message(load.document_bytes)?;
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    for _ in 0..load.connections {
        tasks.spawn(insert_until(address, message.clone(), began + ROUND));
    }
    let mut count = 0;
    while let Some(done) = tasks.join_next().await {
        count += done??;
    }
    Ok(f64::from(count) / began.elapsed().as_secs_f64())
}

async fn insert_until(address: SocketAddr, message: Vec<u8>, end: Instant) -> io::Result<u32> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut reply = vec![0; 65_536];
    let mut count = 0;
    while Instant::now() < end {
        stream.write_all(&message).await?;
        let mut read = stream.read(&mut reply).await?;
        while read < 4 || read < length_of(&reply) {
            read += stream.read(&mut reply[read..]).await?;
        }
        count += 1;
    }
    Ok(count)
}

fn length_of(message: &[u8]) -> usize {
    let length = message.first_chunk().map_or(0, |length| i32::from_le_bytes(*length));
    usize::try_from(length).unwrap_or(0)
}

/// An insert without `_id`, which can be sent any number of times. The server creates the `_id`.
fn message(document_bytes: usize) -> Result<Vec<u8>, Failure> {
    // With `w: 1` the server does not wait for the disk, which would hide the cost of the proxy.
    let body = rawdoc! { "insert": "throughput", "$db": "test", "writeConcern": { "w": 1 } };
    let document = rawdoc! { "filling": "x".repeat(document_bytes) };
    let documents = DocumentRun::copy_from([document])?;
    let message = OpMsg::new(body.try_into()?).with_sequence("documents", documents);
    let mut bytes = Vec::new();
    message.encode(1, 0, &mut bytes)?;
    Ok(bytes)
}
