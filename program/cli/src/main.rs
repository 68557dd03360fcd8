//! The `steadfast` program: parses the arguments and runs the command.

mod arguments;
mod chaos;
mod completions;
mod context;
mod database;
mod dedupe;
mod demo;
mod doctor;
mod ingest;
mod manual;
mod notes;
mod output;
mod paint;
mod pipe;
mod save;
mod serve;
mod signals;
mod simulate;
mod sweep;
mod zones;

use std::{error::Error, io, process::ExitCode};

use clap::ArgMatches;
use serde_json::json;
use steadfast_report::duration;

use crate::{
    arguments::{Arguments, Command},
    context::CommandResult,
    notes::{Notes, WrongArguments},
    paint::Paint,
};

fn main() -> ExitCode {
    let (Arguments { command, color }, matches) = arguments::read();
    let (name, done) = run(command);
    let Err(error) = done else { return ExitCode::SUCCESS };
    if notes::is_broken_pipe(&*error) {
        return ExitCode::FAILURE;
    }
    Notes::of(name, false).painted(Paint::new(color, &io::stderr())).error(&error);
    if error.is::<WrongArguments>() {
        return WRONG_ARGUMENTS.into();
    }
    if is_json_requested(&matches) {
        print_error_document(&*error);
    }
    ExitCode::FAILURE
}

/// Exit status for wrong arguments, the same as that of clap.
const WRONG_ARGUMENTS: u8 = 2;

fn run(command: Command) -> (&'static str, CommandResult) {
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

/// Returns `true` if the innermost command has `--json`.
fn is_json_requested(matches: &ArgMatches) -> bool {
    if let Some((_, inner)) = matches.subcommand() {
        return is_json_requested(inner);
    }
    matches.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or(false)
}

/// Prints a document with the error for `--json`, unless a document was printed before.
fn print_error_document(error: &dyn Error) {
    if !notes::is_json_printed() {
        // The exit status reports the failure, too.
        let _ = notes::print_json(&json!({ "error": context::error_value(error) }));
    }
}
