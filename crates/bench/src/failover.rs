//! What an application notices when the primary steps down or is killed.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bson::{oid::ObjectId, rawdoc};
use testbed::{Options, ReplicaSet};
use tokio::{net::TcpStream, runtime::Runtime, task::JoinHandle, time::sleep};

use crate::{
    Result,
    contender::{
        Application, Contender, DATABASE, OfficialLibrary, SteadfastLibrary, floor::round_trip,
    },
    op_msg,
    table::median,
};

const ROUNDS: usize = 5;
/// How long the loop writes before and after.
const BESIDE: Duration = Duration::from_millis(700);
/// Past this, nobody is primary any more.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    StepDown,
    Kill,
}

/// What was noticed of one event.
struct Noticed {
    /// The longest time between two writes that succeeded.
    gap: Duration,
    errors: usize,
    /// From the new primary's word that it takes writes to the first write, in milliseconds; below
    /// zero if it came before the word was heard.
    first_success_ms: f64,
    /// The same of a direct connection to the new primary, which writes as soon as it hears it.
    direct_ms: f64,
}

/// Lets both drivers go through all events, in turn, and prints the table.
pub(crate) fn run() -> Result<()> {
    eprintln!("starting three members ...");
    let set = ReplicaSet::start(3, Options::new())?;
    let runtime = Runtime::new()?;
    println!(
        "{:<10} {:<10} {:>12} {:>8} {:>18} {:>18}",
        "", "", "longest gap", "errors", "first write after", "direct write after"
    );
    for (name, event) in [("step-down", Event::StepDown), ("kill -9", Event::Kill)] {
        let mut ours = Vec::new();
        let mut official = Vec::new();
        for round in 1..=ROUNDS {
            eprintln!("{name}, round {round} of {ROUNDS}");
            ours.push(runtime.block_on(notice::<SteadfastLibrary>(&set, event))?);
            official.push(runtime.block_on(notice::<OfficialLibrary>(&set, event))?);
        }
        for (contender, noticed) in [(Contender::Steadfast, ours), (Contender::Official, official)]
        {
            print(name, contender, &noticed);
        }
    }
    println!(
        "\nMedians of {ROUNDS}, errors summed. \"After\" is the time from the new primary's word that it takes \
         writes, asked for\neach millisecond, to the first write that succeeds: through the driver, and \
         through the connection that asked. w: 1."
    );
    Ok(())
}

fn print(event: &str, contender: Contender, noticed: &[Noticed]) {
    let median_of = |figure: fn(&Noticed) -> f64| median(noticed.iter().map(figure).collect());
    println!(
        "{:<10} {:<10} {:>9.0} ms {:>8} {:>15.1} ms {:>15.1} ms",
        event,
        contender.name(),
        median_of(|it| it.gap.as_secs_f64() * 1e3),
        noticed.iter().map(|it| it.errors).sum::<usize>(),
        median_of(|it| it.first_success_ms),
        median_of(|it| it.direct_ms),
    );
}

async fn notice<A: Application>(set: &ReplicaSet, event: Event) -> Result<Noticed> {
    tokio::task::block_in_place(|| set.wait_until_complete())?;
    let application = A::connect(&format!("{}&w=1", set.uri())).await?;
    application.insert().await?;
    let stop = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn(write_until(application, Arc::clone(&stop)));
    sleep(BESIDE).await;

    let primary = tokio::task::block_in_place(|| set.wait_for_primary())?;
    let others = set.addresses().into_iter().enumerate().filter(|(index, _)| *index != primary);
    let watching: Vec<JoinHandle<Result<_>>> =
        others.map(|(_, address)| tokio::spawn(watch(address, Arc::clone(&stop)))).collect();
    tokio::task::block_in_place(|| match event {
        Event::StepDown => set.step_down().map(drop),
        Event::Kill => set.kill(primary),
    })?;
    let elected = first_of(watching).await?;
    sleep(BESIDE).await;
    stop.store(true, Ordering::Relaxed);
    let written = writing.await??;
    if event == Event::Kill {
        tokio::task::block_in_place(|| set.restart(primary))?;
    }
    Ok(judge(&written, &elected))
}

/// What the loop wrote: when each success came, and how many errors.
struct Written {
    successes: Vec<Instant>,
    errors: usize,
}

async fn write_until<A: Application>(application: A, stop: Arc<AtomicBool>) -> Result<Written> {
    let mut written = Written { successes: Vec::new(), errors: 0 };
    while !stop.load(Ordering::Relaxed) {
        match application.insert().await {
            Ok(()) => written.successes.push(Instant::now()),
            Err(error) => {
                eprintln!("  {error}");
                written.errors += 1;
            }
        }
    }
    Ok(written)
}

/// When a member said that it takes writes, and when it had taken one.
struct Elected {
    said: Instant,
    written: Instant,
}

/// Asks a member each millisecond whether it takes writes; then writes.
async fn watch(address: SocketAddr, stop: Arc<AtomicBool>) -> Result<Option<Elected>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let hello = op_msg::message(&rawdoc! { "hello": 1, "$db": "admin" }, None);
    let mut inbox = Vec::new();
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        round_trip(&mut stream, &hello, &mut inbox).await?;
        if op_msg::place_after(&inbox, b"\x08isWritablePrimary\0\x01").is_some() {
            break;
        }
        sleep(Duration::from_millis(1)).await;
    }
    let said = Instant::now();
    loop {
        let insert = rawdoc! {
            "insert": "written", "documents": [{ "_id": ObjectId::new() }],
            "writeConcern": { "w": 1 }, "$db": DATABASE,
        };
        round_trip(&mut stream, &op_msg::message(&insert, None), &mut inbox).await?;
        if op_msg::place_after(&inbox, b"\x10n\0\x01").is_some() {
            return Ok(Some(Elected { said, written: Instant::now() }));
        }
        if said.elapsed() > PATIENCE {
            return Err("the new primary takes no writes".into());
        }
    }
}

async fn first_of(watching: Vec<JoinHandle<Result<Option<Elected>>>>) -> Result<Elected> {
    let began = Instant::now();
    let mut watching = watching;
    loop {
        if let Some(index) = watching.iter().position(JoinHandle::is_finished)
            && let Some(elected) = watching.swap_remove(index).await??
        {
            return Ok(elected);
        }
        if began.elapsed() > PATIENCE || watching.is_empty() {
            return Err("no member became primary".into());
        }
        sleep(Duration::from_millis(5)).await;
    }
}

fn judge(written: &Written, elected: &Elected) -> Noticed {
    let pairs = written.successes.windows(2).map(|pair| (pair[1] - pair[0], pair[1]));
    let (gap, first) = pairs.max().unwrap_or((Duration::ZERO, elected.said));
    let since_said = |moment: Instant| match moment.checked_duration_since(elected.said) {
        Some(after) => after.as_secs_f64() * 1e3,
        None => -(elected.said - moment).as_secs_f64() * 1e3,
    };
    Noticed {
        gap,
        errors: written.errors,
        first_success_ms: since_said(first),
        direct_ms: since_said(elected.written),
    }
}
