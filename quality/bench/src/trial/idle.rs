//! How much memory a connection takes that nobody uses.
//!
//! A process of its own holds many, another one holds one; the difference is theirs.

use std::{
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tokio::{runtime, task::JoinSet, time::sleep};

use super::{Counter, Fresh};
use crate::{
    Result,
    comparison::Programs,
    contender::{Application, Contender, with_library},
    measure::{Allocations, resident_memory},
};

const MANY: i32 = 500;
/// How long at most is waited until all connections are there.
const PATIENCE: Duration = Duration::from_secs(60);
/// When no connection was made for so long, none will be.
const QUIET: Duration = Duration::from_millis(700);

/// What a process is told that is to hold connections.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Holder {
    contender: Contender,
    uri: String,
    address: SocketAddr,
    connections: i32,
}

/// What such a process has, in bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Memory {
    resident: u64,
    /// What it has allocated and not freed, if it counts that.
    heap: Option<u64>,
}

/// The memory when the connections were made, and when all had been used once.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Held {
    connections: i32,
    unused: Memory,
    used: Memory,
}

/// Tries the drivers and prints the table.
pub(crate) fn run() -> Result<()> {
    let programs = Programs::find()?;
    println!(
        "{:<10} {:>12} {:>14} {:>14} {:>18} {:>18}",
        "", "connections", "heap, unused", "heap, used", "resident, unused", "resident, used"
    );
    for &contender in Contender::drivers() {
        let resident = Difference::of(&programs.plain, contender)?;
        let heap = match &programs.counting {
            Some(counting) => Some(Difference::of(counting, contender)?),
            None => None,
        };
        let heap = |memory: fn(&Held) -> Memory| {
            let heap = heap.as_ref().and_then(|it| it.each(|held| memory(held).heap));
            heap.map_or("-".to_owned(), kilobytes)
        };
        let shown = |memory: fn(&Held) -> Memory| {
            let resident = resident.each(|held| Some(memory(held).resident));
            resident.map_or("-".to_owned(), kilobytes)
        };
        println!(
            "{:<10} {:>12} {:>14} {:>14} {:>18} {:>18}",
            contender.name(),
            resident.many.connections,
            heap(|held| held.unused),
            heap(|held| held.used),
            shown(|held| held.unused),
            shown(|held| held.used),
        );
    }
    println!(
        "Per connection of a pool. Heap is what is allocated and not freed, by an allocator that counts; resident is \
         the\nprocess's memory. Used: all were in use once at the same time, each for a find, and lie idle again."
    );
    Ok(())
}

/// One connection, and many.
struct Difference {
    one: Held,
    many: Held,
}

impl Difference {
    fn of(program: &Path, contender: Contender) -> Result<Self> {
        let [one, many] = [1, MANY].map(|connections| {
            eprintln!("{}: a pool of {connections} ...", contender.name());
            let server = Fresh::start()?;
            let uri = format!(
                "{}&minPoolSize={connections}&maxPoolSize={connections}&maxConnecting=50",
                server.uri
            );
            let holder = Holder { contender, uri, address: server.address, connections };
            let output = Command::new(program)
                .arg("hold")
                .arg(serde_json::to_string(&holder)?)
                .stderr(Stdio::inherit())
                .output()?;
            match output.status.success() {
                true => Result::<Held>::Ok(serde_json::from_slice(&output.stdout)?),
                false => Err(format!("{} could not hold its pool", contender.name()).into()),
            }
        });
        Ok(Self { one: one?, many: many? })
    }

    /// The bytes that a connection more takes.
    #[expect(clippy::cast_precision_loss, reason = "for people to read")]
    fn each(&self, memory: impl Fn(&Held) -> Option<u64>) -> Option<f64> {
        let more = memory(&self.many)?.saturating_sub(memory(&self.one)?);
        Some(more as f64 / f64::from(self.many.connections - self.one.connections))
    }
}

fn kilobytes(bytes: f64) -> String {
    format!("{:.1} KB", bytes / 1e3)
}

impl Holder {
    /// Holds the connections, and prints how much memory there is.
    pub(crate) fn run(&self, allocations: Option<fn() -> Allocations>) -> Result<()> {
        let runtime = runtime::Builder::new_multi_thread().enable_all().build()?;
        let contender = self.contender;
        let held = runtime.block_on(async { with_library!(contender, hold(self, allocations)) })?;
        println!("{}", serde_json::to_string(&held)?);
        Ok(())
    }
}

async fn hold<A: Application>(
    holder: &Holder,
    allocations: Option<fn() -> Allocations>,
) -> Result<Held> {
    let memory = || {
        let heap = allocations.map(|count| count().live);
        Result::Ok(Memory { resident: resident_memory()?, heap })
    };
    let mut counter = Counter::connect(holder.address).await?;
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
    Ok(Held { connections: holder.connections, unused, used: memory()? })
}

/// Waits until so many connections were made, and no more are.
async fn settle(counter: &mut Counter, wanted: i32) -> Result<()> {
    let began = Instant::now();
    let (mut seen, mut since) = (0, Instant::now());
    while seen < wanted || since.elapsed() < QUIET {
        if began.elapsed() > PATIENCE {
            return Err(format!("only {seen} of {wanted} connections within {PATIENCE:?}").into());
        }
        sleep(Duration::from_millis(20)).await;
        let now = counter.accepted().await?;
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
    Ok(())
}
