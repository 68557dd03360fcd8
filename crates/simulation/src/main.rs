//! The `simulation` program: prints what overload does to four ways of retrying.

use std::{
    error::Error,
    fs,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use simulation::{
    chart, grid,
    measure::Report,
    scenario::{Scenario, Strategy},
    table,
};

/// Thousands of clients against one overloaded server, in virtual time.
///
/// Loads from half of the server's capacity to five times of it, each with four ways of retrying. The
/// clients decide with the driver's own code. Prints a table, which is Markdown.
#[derive(Debug, Parser)]
#[command(name = "simulation")]
struct Arguments {
    /// A smaller fleet, for a first look: 500 clients
    #[arg(long, conflicts_with = "clients")]
    quick: bool,
    /// How many clients there are
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,
    /// How long it lasts, in virtual seconds: a twelfth calm, two thirds overload, a quarter after
    #[arg(long, value_name = "S", default_value_t = 60.0, value_parser = positive)]
    seconds: f64,
    /// Operations that the server can serve each client in a second
    #[arg(long, value_name = "N", default_value_t = 4.0, value_parser = positive)]
    share: f64,
    /// The work of turning an operation away, as a part of that of serving one
    #[arg(long, value_name = "PART", default_value_t = 0.01, value_parser = positive)]
    shed_cost: f64,
    /// What random numbers begin with: the same seed gives the same table
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the curves to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write all numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to report to if this fails.
            let _ = writeln!(io::stderr(), "simulation: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let base = Scenario {
        clients: if arguments.quick { 500 } else { arguments.clients },
        share: arguments.share,
        shed_cost: arguments.shed_cost,
        seed: arguments.seed,
        ..Scenario::default()
    };
    let base = base.lasting(arguments.seconds);
    let cells = grid::cells(base, &grid::LOADS, &Strategy::ALL);
    let began = Instant::now();
    let reports = grid::run(&cells, progress(cells.len()));
    let took = began.elapsed();

    let mut out = io::stdout().lock();
    write!(out, "{}", table::table(&reports, &base))?;
    writeln!(out, "\n{}", summary(&base, &reports, took))?;
    if let Some(file) = &arguments.svg {
        write_file(file, &chart::svg(&reports))?;
    }
    if let Some(file) = &arguments.json {
        write_file(file, &(serde_json::to_string_pretty(&reports)? + "\n"))?;
    }
    Ok(())
}

fn summary(base: &Scenario, reports: &[Report], took: Duration) -> String {
    let attempts: u64 = reports.iter().map(|report| report.books.attempts).sum();
    format!(
        "{} clients, a server of {:.0} operations a second, {:.0} s each; {} experiments with {:.1} \
         million attempts took {:.1} s.",
        base.clients,
        base.capacity(),
        base.phases()[2] as f64 / 1e9,
        reports.len(),
        attempts as f64 / 1e6,
        took.as_secs_f64(),
    )
}

/// Shows on a terminal how far it has come.
fn progress(all: usize) -> impl Fn(usize) + Sync {
    let shown = io::stderr().is_terminal();
    move |done| {
        if shown {
            let bar: String = (0..all).map(|cell| if cell < done { '█' } else { '░' }).collect();
            let end = if done == all { "\r\x1b[K" } else { "" };
            let _ = write!(io::stderr(), "\r{bar} {done}/{all}{end}");
        }
    }
}

fn write_file(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number.is_finite() && number > 0.0 { Ok(number) } else { Err("not above zero".to_owned()) }
}
