//! Overload of a real MongoDB 8.2 server whose request rate limiter rejects: goodput, attempts, errors and
//! latencies of several retry strategies, and the server's cost of rejecting.

mod cost;
mod load;
mod server;
mod strategy;
mod table;

use std::time::{Duration, Instant};

use simulation::{
    MILLISECOND, Nanos, SECOND,
    measure::Report,
    scenario::{Scenario, Strategy as SimulatedStrategy},
    world::World,
};
use tokio::task::JoinSet;

use self::{
    load::OpenLoopLoad,
    server::{BURST_SECONDS, LimitedServer, Route},
    strategy::Strategy,
    table::Row,
};
use super::in_own_runtime;
use crate::{
    Result,
    arguments::OverloadOptions,
    contender::{Application, with_library},
    measure::load_average,
};

/// Connections that each client makes before the load begins.
const WARM_UP: usize = 4;
const SEED: u64 = 1;

/// Measures all strategies at all loads on both routes, and prints the tables.
pub(crate) fn run(options: &OverloadOptions) -> Result<()> {
    in_own_runtime(measure(options))
}

async fn measure(options: &OverloadOptions) -> Result<()> {
    eprintln!("starting a server of MongoDB 8.2 ...");
    let server = LimitedServer::start().await?;
    let (uri, _) = server.route(Route::Direct).await?;
    let costs = cost::measure(&server, &uri).await?;
    println!("Processor time of the server for a request:\n\n{}", table::costs(&costs.requests));

    let strategies = Strategy::all();
    let cells = u32::try_from(2 * options.loads.len() * strategies.len())?;
    let (began, mut done) = (Instant::now(), 0);
    let mut load_averages = Vec::new();
    for route in [Route::Direct, Route::Relabelled] {
        let (uri, proxy) = server.route(route).await?;
        let mut rows = Vec::new();
        for &load in &options.loads {
            for &strategy in &strategies {
                // The first takes some seconds more than its load: clients connect, and retries end.
                let planned = Duration::from_secs(u64::from(options.seconds) + 2);
                let each = began.elapsed().checked_div(done).unwrap_or(planned);
                let left = (each * (cells - done)).as_secs();
                eprintln!(
                    "{} of {cells}, about {left} s left: {}, load {load}, {}",
                    done + 1,
                    route_name(route),
                    strategy.name(),
                );
                let (server, uri, idle) = (&server, &uri, costs.idle);
                let cell = Cell { server, uri, idle, route, load, strategy, options };
                rows.push(cell.measure().await?);
                load_averages.extend(load_average());
                done += 1;
            }
        }
        println!("{}\n\n{}", heading(route), table::rows(&rows));
        if let Some(proxy) = proxy {
            proxy.shutdown().await;
        }
    }
    server.control().clone().shutdown().await;
    let most = load_averages.into_iter().fold(0.0, f64::max);
    println!(
        "The limiter admits {} requests/s with {BURST_SECONDS} s of burst; {} clients insert documents for {} s. \
         The load average\nwas {most:.1} at most.",
        options.rate, options.clients, options.seconds,
    );
    Ok(())
}

fn route_name(route: Route) -> &'static str {
    match route {
        Route::Direct => "direct",
        Route::Relabelled => "relabelled",
    }
}

fn heading(route: Route) -> &'static str {
    match route {
        Route::Direct => {
            "Directly: rejections as MongoDB 8.2.0 sends them, code 449 without `RetryableError`."
        }
        Route::Relabelled => {
            "Through a proxy that replaces them by the specification's code 462 with both labels; latencies \
             include the proxy."
        }
    }
}

/// One strategy at one load on one route.
struct Cell<'a> {
    server: &'a LimitedServer,
    uri: &'a str,
    /// Processor time of the idle server as a share of the time that passes.
    idle: f64,
    route: Route,
    load: f64,
    strategy: Strategy,
    options: &'a OverloadOptions,
}

impl Cell<'_> {
    async fn measure(&self) -> Result<Row> {
        let cell = self;
        with_library!(self.strategy.contender(), put_load(cell))
    }

    fn load(&self) -> OpenLoopLoad {
        OpenLoopLoad {
            operations_per_second: self.load * f64::from(self.options.rate),
            duration: Duration::from_secs(u64::from(self.options.seconds)),
            seed: SEED,
        }
    }

    /// Simulates the same load. Rejecting is free there: the server has processor time to spare.
    fn simulated(&self) -> Option<Report> {
        let strategy = match (self.strategy, self.route) {
            (Strategy::Official, _) => return None,
            (Strategy::AtOnce, _) => SimulatedStrategy::AtOnce,
            (Strategy::NoRetries, _) | (_, Route::Direct) => SimulatedStrategy::Never,
            (Strategy::NoBudget, Route::Relabelled) => SimulatedStrategy::Backoff,
            (Strategy::Steadfast, Route::Relabelled) => SimulatedStrategy::Steadfast,
        };
        let OverloadOptions { clients, rate, seconds, .. } = *self.options;
        let scenario = Scenario {
            clients,
            share: f64::from(rate) / f64::from(clients),
            load: self.load,
            strategy,
            calm: 0,
            overload: Nanos::from(seconds) * SECOND,
            after: 10 * SECOND,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a small constant"
            )]
            queue: (BURST_SECONDS * SECOND as f64) as Nanos,
            shed_cost: 0.0,
            round_trip: MILLISECOND,
            seed: SEED,
        };
        Some(World::new(scenario).run().report)
    }
}

async fn put_load<A: Application>(cell: &Cell<'_>) -> Result<Row> {
    let Cell { server, strategy, options, .. } = *cell;
    server.admit_all().await?;
    let uri = format!("{}{}", cell.uri, strategy.options());
    let mut clients = Vec::new();
    for _ in 0..options.clients {
        clients.push(warmed_up::<A>(&uri).await?);
    }
    let load = cell.load();
    server.limit(options.rate).await?;
    let (before, time) = (server.admissions().await?, server.processor_time()?);
    let began = Instant::now();
    let late = async {
        tokio::time::sleep(load.duration * 3 / 4).await;
        let begun = server.admissions().await?;
        tokio::time::sleep(load.duration / 4).await;
        Result::Ok(server.admissions().await?.since(begun))
    };
    let (tally, late) = tokio::join!(load::put(&clients, strategy, load), late);
    let (tally, late) = (tally?, late?);
    let time = (server.processor_time()? - time).as_secs_f64();
    let time = time - began.elapsed().as_secs_f64() * cell.idle;
    let attempts = server.admissions().await?.since(before).attempts();
    server.admit_all().await?;
    if let Some(unexpected) = tally.unexpected {
        return Err(format!("{}: {unexpected}", strategy.name()).into());
    }
    let millis = |per_mille| tally.latencies.quantile(per_mille).as_secs_f64() * 1e3;
    let seconds = load.duration.as_secs_f64();
    Ok(Row {
        load: cell.load,
        strategy,
        offered: tally.begun as f64 / seconds,
        goodput: tally.succeeded_in_time as f64 / seconds,
        attempts_per_operation: attempts as f64 / tally.begun as f64,
        late_attempts_per_operation: late.attempts() as f64 / tally.begun_late as f64,
        failed_share: tally.failed as f64 / tally.begun as f64,
        p50_ms: millis(500),
        p99_ms: millis(990),
        micros_per_success: time * 1e6 / tally.succeeded as f64,
        simulated: cell.simulated(),
    })
}

/// Returns a client that has created its first connections.
async fn warmed_up<A: Application>(uri: &str) -> Result<A> {
    let client = A::connect(uri).await?;
    let mut inserts = JoinSet::new();
    for _ in 0..WARM_UP {
        let client = client.clone();
        inserts.spawn(async move { client.insert().await });
    }
    while let Some(inserted) = inserts.join_next().await {
        inserted??;
    }
    Ok(client)
}
