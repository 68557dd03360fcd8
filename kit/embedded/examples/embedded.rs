//! Measures the embedded deployment: start time, insert throughput, CPU time while idle.
//!
//! `cargo run --release -p steadfast-embedded --example embedded`. Goals on two cores: a replica
//! set of three members starts within 50 ms and acknowledges 10,000 small inserts a second with `w:
//! "majority"`.

use std::{
    fs,
    io::{self, Write},
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use bson::rawdoc;
use steadfast_embedded::Deployment;
use steadfast_wire::{DocumentRun, OpMsg};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

const STARTS: usize = 25;
const ROUND: Duration = Duration::from_secs(3);
const IDLE: Duration = Duration::from_secs(5);

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut out = io::stdout();
    let mut starts: Vec<_> = (0..STARTS).map(|_| time_to_start()).collect();
    starts.sort();
    writeln!(
        out,
        "a replica set of three starts in {:.2?}, at most {:.2?} of {STARTS} times",
        starts[STARTS / 2],
        starts[STARTS - 1],
    )?;

    let clients = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for connections in [1, 16, 64] {
        // A new deployment each time, because stored documents use memory.
        let set = Deployment::replica_set(3).in_thread().start();
        let rate = clients.block_on(rate(set.member(0).address(), connections))?;
        writeln!(out, "{connections:3} connections: {rate:7.0} majority inserts/s")?;
    }

    let set = Deployment::replica_set(3).in_thread().start();
    let before = cpu_ticks()?;
    thread::sleep(IDLE);
    let ticks = cpu_ticks()? - before;
    writeln!(out, "idle for {IDLE:?}: {ticks} ticks of a hundredth of a second")?;
    drop(set);
    Ok(())
}

fn time_to_start() -> Duration {
    let began = Instant::now();
    let set = Deployment::replica_set(3).in_thread().start();
    let took = began.elapsed();
    drop(set);
    took
}

/// CPU ticks that this process has used.
fn cpu_ticks() -> Result<u64, Failure> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(") ").ok_or("no name in /proc/self/stat")?.1;
    let numbers: Vec<_> = fields.split(' ').collect();
    Ok(numbers[11].parse::<u64>()? + numbers[12].parse::<u64>()?)
}

/// Acknowledged inserts per second over all connections.
async fn rate(address: SocketAddr, connections: usize) -> Result<f64, Failure> {
    let message = message()?;
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    for _ in 0..connections {
        tasks.spawn(insert_until(address, message.clone(), began + ROUND));
    }
    let mut count = 0;
    while let Some(done) = tasks.join_next().await {
        count += done??;
    }
    Ok(f64::from(count) / began.elapsed().as_secs_f64())
}

async fn insert_until(address: SocketAddr, message: Vec<u8>, end: Instant) -> Result<u32, Failure> {
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
    let (reply, _) =
        blackpipe::message::reply_document(reply[..length_of(&reply)].to_vec().into())?;
    match (reply.get_i32("n"), reply.get("writeConcernError")) {
        (Ok(1), None) => Ok(count),
        _ => Err(format!("the last insert failed: {reply}").into()),
    }
}

fn length_of(message: &[u8]) -> usize {
    let length = message.first_chunk().map_or(0, |length| i32::from_le_bytes(*length));
    usize::try_from(length).unwrap_or(0)
}

/// An insert of a document without `_id`. The server generates one, so the same bytes can be sent
/// repeatedly.
fn message() -> Result<Vec<u8>, Failure> {
    let body = rawdoc! { "insert": "things", "$db": "test", "writeConcern": { "w": "majority" } };
    let document = rawdoc! { "filling": "x".repeat(100) };
    let documents = DocumentRun::copy_from([document])?;
    let message = OpMsg::new(body.try_into()?).with_sequence("documents", documents);
    let mut bytes = Vec::new();
    message.encode(1, 0, &mut bytes)?;
    Ok(bytes)
}
