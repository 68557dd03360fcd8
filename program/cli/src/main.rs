//! The `steadfast` program: reads its arguments and does what they say.

mod arguments;
mod chaos;
mod completions;
mod database;
mod dedupe;
mod demo;
mod doctor;
mod ending;
mod errand;
mod ingest;
mod manual;
mod notes;
mod output;
mod paint;
mod pipe;
mod save;
mod serve;
mod simulate;
mod sweep;
mod zones;

use std::{error::Error, io, process::ExitCode};

use clap::ArgMatches;
use serde_json::json;
use steadfast_report::duration;

use crate::{
    arguments::{Arguments, Command},
    errand::Done,
    notes::{Notes, WrongArguments},
    paint::Paint,
};

fn main() -> ExitCode {
    let (Arguments { command, color }, matches) = arguments::read();
    let (name, done) = run(command);
    let Err(error) = done else { return ExitCode::SUCCESS };
    if notes::is_unread(&*error) {
        return ExitCode::FAILURE;
    }
    Notes::of(name, false).painted(Paint::new(color, &io::stderr())).fail(&error);
    if error.is::<WrongArguments>() {
        return WRONG_ARGUMENTS.into();
    }
    if is_for_programs(&matches) {
        tell(&*error);
    }
    ExitCode::FAILURE
}

/// As for arguments that cannot be read.
const WRONG_ARGUMENTS: u8 = 2;

fn run(command: Command) -> (&'static str, Done) {
    match command {
        Command::Demo(demo) => ("demo", demo::run(demo)),
        Command::Simulate(simulate) => ("simulate", simulate::run(simulate)),
        Command::Chaos(chaos) => ("chaos", chaos::run(chaos)),
        Command::Doctor(doctor) => ("doctor", doctor::run(doctor)),
        Command::Ingest(ingest) => ("ingest", ingest::run(ingest)),
        Command::Sweep(sweep) => ("sweep", sweep::run(sweep)),
        Command::Zones(zones) => ("zones", zones::run(zones)),
        Command::Dedupe(dedupe) => ("dedupe", dedupe::run(dedupe)),
        Command::Pipe(pipe) => ("pipe", pipe::run(pipe)),
        Command::Serve(serve) => ("serve", serve::run(serve)),
        Command::Completions(completions) => ("completions", completions::run(&completions)),
        Command::Manual(_) => ("manual", manual::run()),
    }
}

/// Whether the innermost command was asked for JSON.
fn is_for_programs(matches: &ArgMatches) -> bool {
    if let Some((_, inner)) = matches.subcommand() {
        return is_for_programs(inner);
    }
    matches.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or(false)
}

/// Programs that were told nothing yet are told this much.
fn tell(error: &dyn Error) {
    if !notes::is_told() {
        // The exit status says it, too.
        let _ = notes::print_json(&json!({ "error": errand::failure(error) }));
    }
}
