//! Runs a deployment for manual use: `cargo run -p steadfast-testbed -- replica-set`.

use std::{
    error::Error,
    io::{self, Read, Write},
    process::ExitCode,
};

use testbed::{ClusterOptions, Mongod, Mongos, Options, ReplicaSet, ShardedCluster, Version};

const USAGE: &str = "usage: steadfast-testbed standalone | replica-set | sharded [--version 6.0 | 8.2]\n\
    Starts real servers on loopback, prints their process ids and their connection string,\n\
    and stops them when its input ends or when it is interrupted.\n\
    The version is 6.0 by default, and 8.2 for sharded clusters.";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed, the error cannot be reported.
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (deployment, options) = match arguments.as_slice() {
        ["--help" | "-h"] => return Ok(writeln!(io::stdout(), "{USAGE}")?),
        [deployment] => (*deployment, Options::new()),
        [deployment, "--version", version] | ["--version", version, deployment] => {
            (*deployment, Options::new().version(version.parse::<Version>()?))
        }
        _ => return Err(USAGE.into()),
    };
    match deployment {
        "standalone" => {
            let server = Mongod::standalone(options)?;
            wait_for_end_of_input(&[server.pid()], &server.uri())?;
        }
        "replica-set" => {
            let set = ReplicaSet::start(3, options)?;
            wait_for_end_of_input(&pids(&set), &set.uri())?;
        }
        "sharded" => {
            let cluster = ShardedCluster::start(ClusterOptions::new().options(options))?;
            let sets = cluster.shards().iter().chain([cluster.config_server()]);
            let mongos = cluster.mongos().iter().map(Mongos::pid);
            let all: Vec<u32> = mongos.chain(sets.flat_map(pids)).collect();
            wait_for_end_of_input(&all, &cluster.uri())?;
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

fn pids(set: &ReplicaSet) -> Vec<u32> {
    set.members().iter().map(Mongod::pid).collect()
}

/// Prints process ids and connection string, and returns when the input ends.
fn wait_for_end_of_input(pids: &[u32], uri: &str) -> io::Result<()> {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    writeln!(io::stdout(), "{}\n{uri}", pids.join(" "))?;
    io::stdin().read_to_end(&mut Vec::new()).map(drop)
}
