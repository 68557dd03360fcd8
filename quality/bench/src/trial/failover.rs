//! Failover: write gaps and errors when the primary steps down or is killed.

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
/// Time that the loop writes before and after the event.
const MARGIN: Duration = Duration::from_millis(700);
/// Bound on the election of a new primary.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailoverEvent {
    StepDown,
    Kill,
}

/// Figures of one event.
#[derive(Clone)]
struct FailoverFigures {
    /// Longest time between two successful writes.
    gap: Duration,
    errors: usize,
    /// Milliseconds from the first `hello` reply of the new primary to the first successful write. Negative if the write
    /// was earlier.
    first_ms: f64,
    /// The same for a direct connection, which writes immediately after that reply.
    direct_ms: f64,
}

/// Runs all events with each driver in turn, and prints the table.
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
    for (name, event) in [("step-down", FailoverEvent::StepDown), ("kill -9", FailoverEvent::Kill)]
    {
        let mut figures = vec![Vec::new(); Contender::drivers().len()];
        for round in 1..=ROUNDS {
            for (figures, &contender) in figures.iter_mut().zip(Contender::drivers()) {
                eprintln!("{name}, round {round} of {ROUNDS}: {}", contender.name());
                let outcome =
                    runtime.block_on(async { with_library!(contender, measure(&set, event)) })?;
                figures.push(outcome);
            }
        }
        for (figures, contender) in figures.iter().zip(Contender::drivers()) {
            print(name, *contender, figures);
        }
    }
    println!(
        "\nMedians of {ROUNDS}, errors summed. \"After\" is the time from the new primary's first hello reply with \
         isWritablePrimary\n(polled each millisecond) to the first successful write: through the driver, and \
         through the polling connection. w: 1."
    );
    Ok(())
}

fn print(event: &str, contender: Contender, figures: &[FailoverFigures]) {
    let all = |figure: fn(&FailoverFigures) -> f64| figures.iter().map(figure).collect::<Vec<_>>();
    let behind = all(|it| it.first_ms - it.direct_ms);
    println!(
        "{:<10} {:<10} {:>9.0} ms {:>7} {:>15.1} ms {:>16.1} ms {:>11.1} ms {:>5.1} ms",
        event,
        contender.name(),
        median(all(|it| it.gap.as_secs_f64() * 1e3)),
        figures.iter().map(|it| it.errors).sum::<usize>(),
        median(all(|it| it.first_ms)),
        median(all(|it| it.direct_ms)),
        median(behind.clone()),
        behind.into_iter().fold(f64::MIN, f64::max),
    );
}

async fn measure<A: Application>(
    set: &ReplicaSet,
    event: FailoverEvent,
) -> Result<FailoverFigures> {
    block_in_place(|| set.wait_until_complete())?;
    let application = A::connect(&format!("{}&w=1", set.uri())).await?;
    application.insert().await?;
    let stop = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn(write_until(application, Arc::clone(&stop)));
    sleep(MARGIN).await;

    let primary = block_in_place(|| set.wait_for_primary())?;
    let (sender, mut elected) = mpsc::channel(1);
    let others = set.addresses().into_iter().enumerate().filter(|(index, _)| *index != primary);
    let watching: Vec<_> =
        others.map(|(_, address)| tokio::spawn(report_election(address, sender.clone()))).collect();
    block_in_place(|| match event {
        FailoverEvent::StepDown => set.step_down().map(drop),
        FailoverEvent::Kill => set.kill(primary),
    })?;
    let elected = timeout(ELECTION_TIMEOUT, elected.recv()).await;
    watching.iter().for_each(tokio::task::JoinHandle::abort);
    let elected = elected.ok().flatten().ok_or("no member became primary")?;
    sleep(MARGIN).await;
    stop.store(true, Ordering::Relaxed);
    let written = writing.await?;
    if event == FailoverEvent::Kill {
        block_in_place(|| set.restart(primary))?;
    }
    Ok(figures_of(&written, &elected))
}

/// Results of the loop: times of the successful writes, and number of errors.
#[derive(Default)]
struct LoopResult {
    successes: Vec<Instant>,
    errors: usize,
}

async fn write_until<A: Application>(application: A, stop: Arc<AtomicBool>) -> LoopResult {
    let mut written = LoopResult::default();
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

/// Times at which a member reported `isWritablePrimary`, and acknowledged its first write.
struct Election {
    announced: Instant,
    written: Instant,
}

/// Reports the election of a member. A member may close connections while it changes its state.
async fn report_election(address: SocketAddr, elected: mpsc::Sender<Election>) {
    loop {
        match write_when_elected(address).await {
            Ok(moments) => return drop(elected.send(moments).await),
            Err(_) => sleep(Duration::from_millis(1)).await,
        }
    }
}

/// Polls a member each millisecond until it is the primary; then writes.
async fn write_when_elected(address: SocketAddr) -> Result<Election> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let hello = op_msg::message(&rawdoc! { "hello": 1, "$db": "admin" }, None);
    let mut buffer = Vec::new();
    loop {
        round_trip(&mut stream, &hello, &mut buffer).await?;
        if op_msg::offset_after(&buffer, b"\x08isWritablePrimary\0\x01").is_some() {
            break;
        }
        sleep(Duration::from_millis(1)).await;
    }
    let announced = Instant::now();
    loop {
        let insert = rawdoc! {
            "insert": "written", "documents": [{ "_id": ObjectId::new() }],
            "writeConcern": { "w": 1 }, "$db": DATABASE,
        };
        round_trip(&mut stream, &op_msg::message(&insert, None), &mut buffer).await?;
        if op_msg::offset_after(&buffer, b"\x10n\0\x01").is_some() {
            return Ok(Election { announced, written: Instant::now() });
        }
    }
}

fn figures_of(written: &LoopResult, elected: &Election) -> FailoverFigures {
    let pairs = written.successes.windows(2).map(|pair| (pair[1] - pair[0], pair[1]));
    let (gap, first) = pairs.max().unwrap_or((Duration::ZERO, elected.announced));
    let since_announced = |moment: Instant| match moment.checked_duration_since(elected.announced) {
        Some(after) => after.as_secs_f64() * 1e3,
        None => -(elected.announced - moment).as_secs_f64() * 1e3,
    };
    FailoverFigures {
        gap,
        errors: written.errors,
        first_ms: since_announced(first),
        direct_ms: since_announced(elected.written),
    }
}
