//! Memory of an idle connection.
//!
//! One process holds many connections, another one holds one. The difference is the memory of the additional
//! connections.

use std::{
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tokio::{runtime, task::JoinSet, time::sleep};

use super::{CannedCounters, CannedServer};
use crate::{
    Result,
    comparison::Programs,
    contender::{Application, Contender, with_library},
    measure::{Allocations, resident_memory},
};

const POOL_SIZE: i32 = 500;
/// Bound on the creation of all connections.
const FILL_TIMEOUT: Duration = Duration::from_secs(60);
/// Time without a new connection after which the pool is complete.
const SETTLE_TIME: Duration = Duration::from_millis(700);

/// Parameters of a process that holds a pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PoolHolder {
    contender: Contender,
    uri: String,
    address: SocketAddr,
    connections: i32,
}

/// Memory of such a process in bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct ProcessMemory {
    resident: u64,
    /// Bytes allocated and not freed, with the counting allocator.
    heap: Option<u64>,
}

/// Memory after all connections were created, and after all were used once.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct PoolMemory {
    connections: i32,
    unused: ProcessMemory,
    used: ProcessMemory,
}

/// Measures the drivers and prints the table.
pub(crate) fn run() -> Result<()> {
    let programs = Programs::find()?;
    println!(
        "{:<10} {:>12} {:>14} {:>14} {:>18} {:>18}",
        "", "connections", "heap, unused", "heap, used", "resident, unused", "resident, used"
    );
    for &contender in Contender::drivers() {
        let resident = MemoryDifference::of(&programs.plain, contender)?;
        let heap = match &programs.counting {
            Some(counting) => Some(MemoryDifference::of(counting, contender)?),
            None => None,
        };
        let heap = |memory: fn(&PoolMemory) -> ProcessMemory| {
            let heap = heap.as_ref().and_then(|it| it.per_connection(|held| memory(held).heap));
            heap.map_or("-".to_owned(), kilobytes)
        };
        let resident_per_connection = |memory: fn(&PoolMemory) -> ProcessMemory| {
            let resident = resident.per_connection(|held| Some(memory(held).resident));
            resident.map_or("-".to_owned(), kilobytes)
        };
        println!(
            "{:<10} {:>12} {:>14} {:>14} {:>18} {:>18}",
            contender.name(),
            resident.many.connections,
            heap(|held| held.unused),
            heap(|held| held.used),
            resident_per_connection(|held| held.unused),
            resident_per_connection(|held| held.used),
        );
    }
    println!(
        "Per connection of a pool. Heap is the memory allocated and not freed, by the counting allocator; resident is \
         the\nprocess's resident memory. Used: all connections ran a find at the same time and are idle again."
    );
    Ok(())
}

/// Memory with one connection and with many.
struct MemoryDifference {
    one: PoolMemory,
    many: PoolMemory,
}

impl MemoryDifference {
    fn of(program: &Path, contender: Contender) -> Result<Self> {
        let [one, many] = [1, POOL_SIZE].map(|connections| {
            eprintln!("{}: a pool of {connections} ...", contender.name());
            let server = CannedServer::start()?;
            let uri = format!(
                "{}&minPoolSize={connections}&maxPoolSize={connections}&maxConnecting=50",
                server.uri
            );
            let holder = PoolHolder { contender, uri, address: server.address, connections };
            let output = Command::new(program)
                .arg("hold")
                .arg(serde_json::to_string(&holder)?)
                .stderr(Stdio::inherit())
                .output()?;
            match output.status.success() {
                true => Result::<PoolMemory>::Ok(serde_json::from_slice(&output.stdout)?),
                false => Err(format!("{} failed to fill its pool", contender.name()).into()),
            }
        });
        Ok(Self { one: one?, many: many? })
    }

    /// Returns the bytes per additional connection.
    #[expect(clippy::cast_precision_loss, reason = "for people to read")]
    fn per_connection(&self, memory: impl Fn(&PoolMemory) -> Option<u64>) -> Option<f64> {
        let more = memory(&self.many)?.saturating_sub(memory(&self.one)?);
        Some(more as f64 / f64::from(self.many.connections - self.one.connections))
    }
}

fn kilobytes(bytes: f64) -> String {
    format!("{:.1} KB", bytes / 1e3)
}

impl PoolHolder {
    /// Fills the pool and prints the memory.
    pub(crate) fn run(&self, allocations: Option<fn() -> Allocations>) -> Result<()> {
        let runtime = runtime::Builder::new_multi_thread().enable_all().build()?;
        let contender = self.contender;
        let held = runtime.block_on(async { with_library!(contender, hold(self, allocations)) })?;
        println!("{}", serde_json::to_string(&held)?);
        Ok(())
    }
}

async fn hold<A: Application>(
    holder: &PoolHolder,
    allocations: Option<fn() -> Allocations>,
) -> Result<PoolMemory> {
    let memory = || {
        let heap = allocations.map(|count| count().live);
        Result::Ok(ProcessMemory { resident: resident_memory()?, heap })
    };
    let mut counter = CannedCounters::connect(holder.address).await?;
    let before = counter.accepted().await?;
    let application = A::connect(&holder.uri).await?;
    application.ping().await?;
    settle(&mut counter, before + holder.connections).await?;
    let unused = memory()?;
    let mut tasks = JoinSet::new();
    for _ in 0..holder.connections {
        let application = application.clone();
        tasks.spawn(async move { application.find_slowly().await });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    drop(tasks);
    settle(&mut counter, 0).await?;
    Ok(PoolMemory { connections: holder.connections, unused, used: memory()? })
}

/// Waits until at least this many connections were accepted and no new ones follow.
async fn settle(counter: &mut CannedCounters, expected: i32) -> Result<()> {
    let began = Instant::now();
    let (mut seen, mut since) = (0, Instant::now());
    while seen < expected || since.elapsed() < SETTLE_TIME {
        if began.elapsed() > FILL_TIMEOUT {
            return Err(
                format!("only {seen} of {expected} connections within {FILL_TIMEOUT:?}").into()
            );
        }
        sleep(Duration::from_millis(20)).await;
        let now = counter.accepted().await?;
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
    Ok(())
}
