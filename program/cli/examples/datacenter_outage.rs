//! Durations for which the writes of an application stop when its datacenter dies and when it comes back: a sharded
//! cluster of real servers in two zones, a local writer in each, and whole datacenters killed in turn.
//!
//! ```sh
//! cargo run --release -p steadfast-cli --example datacenter_outage \
//!     [ROUNDS] [ACKNOWLEDGED_WITHIN_MS] [kill | freeze] [OPTIONS_OF_THE_CONNECTION_STRING]
//! ```
//!
//! With `kill`, connections to the datacenter are closed at once. With `freeze` they stay open without replies, as
//! during a network partition.
#![allow(clippy::print_stdout, reason = "the table is the result")]

#[path = "../tests/cluster/application.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod application;
#[path = "../tests/cluster/datacenters.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod datacenters;

use std::{
    env,
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use application::{Application, Keys, longest_stop};
use datacenters::{Datacenters, LAYOUT, NAMES, other};
use steadfast::Client;
use steadfast_patterns::zones::{self, Cluster, Layout};
use steadfast_report::quantiles::quantile;

type Failure = Box<dyn Error + Send + Sync>;

/// Number of writes to wait for after each event.
const SOME_WRITES: usize = 50;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Kill,
    Freeze,
}

/// Figures of one round.
struct Round {
    home_stopped: Duration,
    other_stopped: Duration,
    home_again: Duration,
    home_stopped_at_return: Duration,
    other_stopped_at_return: Duration,
    failed: usize,
    writes: usize,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = env::args().skip(1);
    let rounds: usize = arguments.next().map_or(Ok(6), |it| it.parse())?;
    let within = arguments.next().map_or(Ok(2_000), |it| it.parse())?;
    let within = Duration::from_millis(within);
    let fault = match arguments.next().as_deref() {
        None | Some("kill") => Fault::Kill,
        Some("freeze") => Fault::Freeze,
        Some(other) => return Err(format!("{other}: kill or freeze").into()),
    };
    let options = arguments.next().unwrap_or_default();
    let datacenters = Arc::new(Datacenters::start()?);
    let uri = format!("{}?{options}", datacenters.cluster.uri());
    let client = Client::with_uri_str(&uri).await?;
    let layout: Layout = toml::from_str(LAYOUT)?;
    let found = Cluster::read(&client, &layout).await?;
    zones::plan(&layout, &found)?.apply(&client).await?;
    let keys = Keys::default();
    let mut figures = Vec::new();
    for round in 0..rounds {
        let lost = NAMES[round % NAMES.len()];
        figures.push(run(&datacenters, &uri, lost, within, fault, &keys).await?);
    }
    show(&figures);
    Ok(())
}

/// Kills or freezes a datacenter under load, and brings it back.
async fn run(
    datacenters: &Arc<Datacenters>,
    uri: &str,
    lost: &'static str,
    within: Duration,
    fault: Fault,
    keys: &Keys,
) -> Result<Round, Failure> {
    let home = Application::start(uri, [lost, other(lost)], within, keys).await?;
    let elsewhere = Application::start(uri, [other(lost), lost], within, keys).await?;
    home.wait_for_writes(lost, SOME_WRITES).await;
    elsewhere.wait_for_writes(other(lost), SOME_WRITES).await;

    let killed = Instant::now();
    let end = if fault == Fault::Kill { Datacenters::kill } else { Datacenters::freeze };
    act(datacenters, move |it| end(it, lost)).await?;
    home.wait_for_writes(other(lost), SOME_WRITES).await;
    elsewhere.wait_for_writes(other(lost), SOME_WRITES).await;

    let returning = Instant::now();
    let bring_back = if fault == Fault::Kill { Datacenters::restart } else { Datacenters::thaw };
    act(datacenters, move |it| bring_back(it, lost)).await?;
    act(datacenters, move |it| it.wait_for_primary(lost)).await?;
    let has_primary = Instant::now();
    home.wait_for_writes(lost, SOME_WRITES).await;
    elsewhere.wait_for_writes(other(lost), SOME_WRITES).await;
    let returned = Instant::now();
    act(datacenters, Datacenters::wait_until_complete).await?;

    let (home, elsewhere) = (home.stop().await, elsewhere.stop().await);
    let at_home = |write: &&application::Write| {
        write.began > returning
            && write.answer.as_ref().is_ok_and(|receipt| receipt.datacenter() == lost)
    };
    let first_at_home = home.iter().filter(at_home).map(|write| write.ended).min();
    let failed =
        |writes: &[application::Write]| writes.iter().filter(|it| it.answer.is_err()).count();
    Ok(Round {
        home_stopped: longest_stop(&home, killed, returning),
        other_stopped: longest_stop(&elsewhere, killed, returning),
        home_again: first_at_home.expect("some are at home").saturating_duration_since(has_primary),
        home_stopped_at_return: longest_stop(&home, returning, returned),
        other_stopped_at_return: longest_stop(&elsewhere, returning, returned),
        failed: failed(&home) + failed(&elsewhere),
        writes: home.len() + elsewhere.len(),
    })
}

/// Does something with the servers, on a thread that may block.
async fn act<T: Send + 'static>(
    datacenters: &Arc<Datacenters>,
    act: impl FnOnce(&Datacenters) -> T + Send + 'static,
) -> T {
    let datacenters = Arc::clone(datacenters);
    tokio::task::spawn_blocking(move || act(&datacenters)).await.expect("it does not panic")
}

fn show(rounds: &[Round]) {
    println!(
        "{} rounds                                              median    worst",
        rounds.len()
    );
    let line = |name: &str, figure: fn(&Round) -> Duration| {
        let mut times: Vec<Duration> = rounds.iter().map(figure).collect();
        times.sort_unstable();
        let [median, worst] = [500, 1000].map(|it| quantile(&times, it).unwrap_or_default());
        println!("{name:<55} {:>6.2} s {:>6.2} s", median.as_secs_f64(), worst.as_secs_f64());
    };
    line("datacenter lost: its application writes nothing for", |it| it.home_stopped);
    line("datacenter lost: the other's application, for", |it| it.other_stopped);
    line("shard has a primary: written to at home again after", |it| it.home_again);
    line("return: its application writes nothing for", |it| it.home_stopped_at_return);
    line("return: the other's application, for", |it| it.other_stopped_at_return);
    let failed: usize = rounds.iter().map(|it| it.failed).sum();
    let writes: usize = rounds.iter().map(|it| it.writes).sum();
    println!("{writes} writes, {failed} of which no datacenter acknowledged");
}
