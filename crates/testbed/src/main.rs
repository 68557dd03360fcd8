//! Holds a deployment up for use by hand: `cargo run -p steadfast-testbed -- replica-set`.

use std::{
    error::Error,
    io::{self, Read, Write},
    process::ExitCode,
};

use testbed::{Mongod, Options, ReplicaSet};

const USAGE: &str = "usage: steadfast-testbed standalone | replica-set\n\
    Starts real servers on loopback, prints their process ids and their connection string,\n\
    and stops them when its input ends or when it is interrupted.";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to report to if this fails.
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    match wanted.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["standalone"] => {
            let server = Mongod::standalone(Options::new())?;
            hold(&[server.pid()], &server.uri())?;
        }
        ["replica-set"] => {
            let set = ReplicaSet::start(3, Options::new())?;
            let pids: Vec<u32> = set.members().iter().map(Mongod::pid).collect();
            hold(&pids, &set.uri())?;
        }
        ["--help" | "-h"] => writeln!(io::stdout(), "{USAGE}")?,
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

/// Says what is up, and returns when the input ends.
fn hold(pids: &[u32], uri: &str) -> io::Result<()> {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    writeln!(io::stdout(), "{}\n{uri}", pids.join(" "))?;
    io::stdin().read_to_end(&mut Vec::new()).map(drop)
}
