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
use tokio::{
    net::TcpStream,
    runtime::Runtime,
    sync::mpsc,
    task::block_in_place,
    time::{sleep, timeout},
};

use crate::{
    Result,
    contender::{Application, Contender, DATABASE, floor::round_trip, with_library},
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
#[derive(Clone)]
struct Noticed {
    /// The longest time between two writes that succeeded.
    gap: Duration,
    errors: usize,
    /// From the new primary's word that it takes writes to the first write, in milliseconds; below
    /// zero if it came before the word was heard.
    first_ms: f64,
    /// The same of a direct connection to the new primary, which writes as soon as it hears it.
    direct_ms: f64,
}

/// Lets the drivers go through all events, in turn, and prints the table.
pub(crate) fn run() -> Result<()> {
    eprintln!("starting three members ...");
    let set = ReplicaSet::start(3, Options::new())?;
    let runtime = Runtime::new()?;
    println!(
        "{:<10} {:<10} {:>12} {:>7} {:>18} {:>19} {:>14} {:>8}",
        "",
        "",
        "longest gap",
        "errors",
        "first write after",
        "direct write after",
        "behind direct",
        "worst"
    );
    for (name, event) in [("step-down", Event::StepDown), ("kill -9", Event::Kill)] {
        let mut noticed = vec![Vec::new(); Contender::drivers().len()];
        for round in 1..=ROUNDS {
            for (noticed, &contender) in noticed.iter_mut().zip(Contender::drivers()) {
                eprintln!("{name}, round {round} of {ROUNDS}: {}", contender.name());
                let outcome =
                    runtime.block_on(async { with_library!(contender, notice(&set, event)) })?;
                noticed.push(outcome);
            }
        }
        for (noticed, contender) in noticed.iter().zip(Contender::drivers()) {
            print(name, *contender, noticed);
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
    let all = |figure: fn(&Noticed) -> f64| noticed.iter().map(figure).collect::<Vec<_>>();
    let behind = all(|it| it.first_ms - it.direct_ms);
    println!(
        "{:<10} {:<10} {:>9.0} ms {:>7} {:>15.1} ms {:>16.1} ms {:>11.1} ms {:>5.1} ms",
        event,
        contender.name(),
        median(all(|it| it.gap.as_secs_f64() * 1e3)),
        noticed.iter().map(|it| it.errors).sum::<usize>(),
        median(all(|it| it.first_ms)),
        median(all(|it| it.direct_ms)),
        median(behind.clone()),
        behind.into_iter().fold(f64::MIN, f64::max),
    );
}

async fn notice<A: Application>(set: &ReplicaSet, event: Event) -> Result<Noticed> {
    block_in_place(|| set.wait_until_complete())?;
    let application = A::connect(&format!("{}&w=1", set.uri())).await?;
    application.insert().await?;
    let stop = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn(write_until(application, Arc::clone(&stop)));
    sleep(BESIDE).await;

    let primary = block_in_place(|| set.wait_for_primary())?;
    let (sender, mut elected) = mpsc::channel(1);
    let others = set.addresses().into_iter().enumerate().filter(|(index, _)| *index != primary);
    let watching: Vec<_> =
        others.map(|(_, address)| tokio::spawn(watch(address, sender.clone()))).collect();
    block_in_place(|| match event {
        Event::StepDown => set.step_down().map(drop),
        Event::Kill => set.kill(primary),
    })?;
    let elected = timeout(PATIENCE, elected.recv()).await;
    watching.iter().for_each(tokio::task::JoinHandle::abort);
    let elected = elected.ok().flatten().ok_or("no member became primary")?;
    sleep(BESIDE).await;
    stop.store(true, Ordering::Relaxed);
    let written = writing.await?;
    if event == Event::Kill {
        block_in_place(|| set.restart(primary))?;
    }
    Ok(judge(&written, &elected))
}

/// What the loop wrote: when each success came, and how many errors.
#[derive(Default)]
struct Written {
    successes: Vec<Instant>,
    errors: usize,
}

async fn write_until<A: Application>(application: A, stop: Arc<AtomicBool>) -> Written {
    let mut written = Written::default();
    while !stop.load(Ordering::Relaxed) {
        match application.insert().await {
            Ok(()) => written.successes.push(Instant::now()),
            Err(error) => {
                eprintln!("  {error}");
                written.errors += 1;
            }
        }
    }
    written
}

/// When a member said that it takes writes, and when it had taken one.
struct Elected {
    said: Instant,
    written: Instant,
}

/// Tells when a member is elected. A member may hang up while it changes its state.
async fn watch(address: SocketAddr, elected: mpsc::Sender<Elected>) {
    loop {
        match write_when_elected(address).await {
            Ok(moments) => return drop(elected.send(moments).await),
            Err(_) => sleep(Duration::from_millis(1)).await,
        }
    }
}

/// Asks a member each millisecond whether it takes writes; then writes.
async fn write_when_elected(address: SocketAddr) -> Result<Elected> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let hello = op_msg::message(&rawdoc! { "hello": 1, "$db": "admin" }, None);
    let mut inbox = Vec::new();
    loop {
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
            return Ok(Elected { said, written: Instant::now() });
        }
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
        first_ms: since_said(first),
        direct_ms: since_said(elected.written),
    }
}
