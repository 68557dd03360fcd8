//! `steadfast simulate`: effect of retries on an overloaded server, in virtual time.

mod report;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use clap::Args;
use indicatif::ProgressBar;
use simulation::{
    chart, grid,
    measure::Report,
    scenario::{INSERT_SHED_COST, Scenario, Strategy},
};

use self::report::SimulateOutcome;
use crate::{
    context::{self, CommandContext, CommandResult},
    duration,
    notes::WrongArguments,
    output::Output,
    save,
};

/// Show what retries do to an overloaded server: thousands of clients, in virtual time
///
/// Simulates loads from half of the server's capacity to five times of it, each with four retry strategies. The
/// clients use the retry rules of the driver; the server and the network are a model. No database is needed. The
/// result is a table in Markdown.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Simulate {
    /// Simulate 500 clients, for a first look
    #[arg(long, conflicts_with = "clients")]
    quick: bool,

    /// Number of clients
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,

    /// Virtual duration of each experiment: a twelfth calm, two thirds overload, a quarter after it
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration::parse)]
    duration: Duration,

    /// Capacity of the server, in operations per second and client
    #[arg(long, value_name = "NUMBER", default_value_t = 4.0, value_parser = positive)]
    share: f64,

    /// Work of rejecting an operation, as a part of that of serving one; the default is that of an insert on MongoDB
    /// 8.2, and 0.01 is that of a query of a millisecond
    #[arg(long, value_name = "NUMBER", default_value_t = INSERT_SHED_COST, value_parser = positive)]
    shed_cost: f64,

    /// Seed of the random numbers: the same seed gives the same table
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Write a chart to this file, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  A first look:
  $ steadfast simulate --quick

  Clients with a higher rate, and a chart:
  $ steadfast simulate --share 20 --svg overload.svg

  In a script, the goodput of the driver at five times the capacity:
  $ steadfast simulate --quick --json | jq '.experiments[] |
      select(.load == 5 and .strategy == \"steadfast\") | .goodputShare'

Meaning of the columns, and limits of the model: docs/backpressure.md.

Exit status: 0 if all went well, 1 if it was interrupted or a file could not be written, 2 if the arguments \
are wrong.";

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        Ok(_) | Err(_) => Err("expected a number above zero".to_owned()),
    }
}

/// Runs the experiments and prints the results.
pub(crate) fn run(simulate: Simulate) -> CommandResult {
    context::run("simulate", simulate.output, async |context| simulate.run(context).await)
}

impl Simulate {
    async fn run(&self, context: &mut CommandContext) -> CommandResult {
        if self.duration.is_zero() {
            return Err(
                WrongArguments("--duration: must be longer than 0, such as 1m".into()).into()
            );
        }
        if let Some(file) = &self.svg {
            save::check("--svg", file)?;
        }
        let base = self.scenario();
        let began = Instant::now();
        let reports = self.experiments(base, context).await?;
        // The table is printed even if the chart cannot be written.
        let saved = match &self.svg {
            Some(file) => save::write_file(file, &chart::svg(&reports)),
            None => Ok(()),
        };
        let outcome = SimulateOutcome { base, reports, took: began.elapsed() };
        context.output.conclude(&outcome, outcome.to_json(), saved.map_err(Into::into))
    }

    fn scenario(&self) -> Scenario {
        let base = Scenario {
            clients: if self.quick { 500 } else { self.clients },
            share: self.share,
            shed_cost: self.shed_cost,
            seed: self.seed,
            ..Scenario::default()
        };
        base.lasting(self.duration.as_secs_f64())
    }

    /// Runs the experiments on their own threads, which end with the program after an interruption.
    async fn experiments(
        &self,
        base: Scenario,
        context: &mut CommandContext,
    ) -> Result<Vec<Report>, Box<dyn std::error::Error>> {
        let cells = grid::cells(base, &grid::LOADS, &Strategy::ALL);
        let (all, done) = (cells.len(), Arc::new(AtomicUsize::new(0)));
        let bar = context.notes.progress_of(all as u64, "experiments");
        let on_progress = progress_callback(&bar, &done);
        let work = tokio::task::spawn_blocking(move || grid::run(&cells, on_progress));
        let reports = tokio::select! {
            reports = work => Some(reports),
            () = context.signals.received() => None,
        };
        bar.finish_and_clear();
        match reports {
            Some(reports) => Ok(reports?),
            None => {
                let done = done.load(Ordering::Relaxed);
                Err(format!("interrupted after {done} of {all} experiments; nothing was written")
                    .into())
            }
        }
    }
}

fn progress_callback(bar: &ProgressBar, done: &Arc<AtomicUsize>) -> impl Fn(usize) + Sync + use<> {
    let (bar, done) = (bar.clone(), Arc::clone(done));
    move |number| {
        // Threads may call this in another order than they counted.
        let most = done.fetch_max(number, Ordering::Relaxed).max(number);
        bar.set_position(most as u64);
    }
}
