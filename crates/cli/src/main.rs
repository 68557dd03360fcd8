//! The `steadfast` program: reads its arguments and does what they say.

mod database;
mod dedupe;
mod demo;
mod doctor;
mod duration;
mod ending;
mod ingest;
mod notes;
mod pipe;
mod serve;
mod sweep;
mod zones;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::notes::{Notes, WrongArguments};

/// Tools for applications whose writes must happen exactly once
#[derive(Debug, Parser)]
#[command(name = "steadfast", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Demo),
    Pipe(pipe::Pipe),
    Serve(serve::Serve),
    Sweep(sweep::Sweep),
    Zones(zones::Zones),
    Dedupe(dedupe::Dedupe),
    Doctor(doctor::Doctor),
    Ingest(ingest::Ingest),
}

fn main() -> ExitCode {
    let (command, done) = match Arguments::parse().command {
        Command::Demo(demo) => ("demo", demo::run(demo)),
        Command::Pipe(pipe) => ("pipe", pipe::run(pipe)),
        Command::Serve(serve) => ("serve", serve::run(serve)),
        Command::Sweep(sweep) => ("sweep", sweep::run(sweep)),
        Command::Zones(zones) => ("zones", zones::run(zones)),
        Command::Dedupe(dedupe) => ("dedupe", dedupe::run(dedupe)),
        Command::Doctor(doctor) => ("doctor", doctor::run(doctor)),
        Command::Ingest(ingest) => ("ingest", ingest::run(ingest)),
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    Notes::of(command, false).warn(&error);
    if error.is::<WrongArguments>() { WRONG_ARGUMENTS.into() } else { ExitCode::FAILURE }
}

/// As for arguments that cannot be read.
const WRONG_ARGUMENTS: u8 = 2;

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }
}
