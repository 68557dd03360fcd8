//! The `steadfast` program: reads its arguments and does what they say.

mod ending;
mod pipe;
mod serve;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

/// Tools for applications whose writes must happen exactly once
#[derive(Debug, Parser)]
#[command(name = "steadfast", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Pipe(pipe::Pipe),
    Serve(serve::Serve),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Pipe(pipe) => pipe::run(pipe),
        Command::Serve(serve) => serve::run(serve),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to report to if this fails.
            let _ = writeln!(io::stderr(), "steadfast: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }
}
