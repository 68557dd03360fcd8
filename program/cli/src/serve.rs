//! `steadfast serve`: the embedded deployment as a program.

use std::{convert::Infallible, error::Error, fmt, str::FromStr};

use clap::Args;
use serde_json::json;
use steadfast_embedded::{Builder, Deployment, StartError};

use crate::{
    context::{self, CommandContext, CommandResult},
    notes::WrongArguments,
    output::Output,
};

/// Serve a MongoDB-compatible deployment from memory, for tests and experiments
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, mut_arg("json", |it| it.help(JSON)))]
pub(crate) struct Serve {
    /// Replica set with this number of members (the default, with 3)
    #[arg(long, value_name = "MEMBERS", conflicts_with = "standalone")]
    replica_set: Option<usize>,

    /// Standalone server
    #[arg(long)]
    standalone: bool,

    /// Sharded cluster with these shards, each a replica set of three members
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with_all = ["standalone", "replica_set"])]
    sharded: Vec<String>,

    /// Number of mongos of a sharded cluster
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "sharded")]
    mongos: usize,

    /// Port of the first server; the others get the following ports. By default any free ports
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// Version of MongoDB to emulate: 4.2, 4.4, 5.0, 6.0, 7.0, 8.0 or 8.2
    #[arg(long, value_name = "VERSION", default_value = "8.0")]
    version: String,

    /// Version to emulate, as its maximum wire version, such as 17 for 6.0
    #[arg(long, value_name = "NUMBER", conflicts_with = "version")]
    wire_version: Option<i32>,

    /// Require authentication as this user, who has all privileges
    #[arg(long, value_name = "USER:PASSWORD")]
    auth: Option<Secret>,

    /// Requests per second that each server accepts; it rejects the others
    ///
    /// The second number is the burst: requests that are accepted at once after a quiet time.
    #[arg(long, value_name = "RATE[,BURST]")]
    request_rate: Option<Rate>,

    /// Seed of all random numbers
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    output: Output,
}

const JSON: &str =
    "Print the connection string in a document: {\"uri\": …, \"servers\": […], \"version\": …}";

const EXAMPLES: &str = "\
Getting started:
  $ steadfast serve --port 27017

  The first line of the output is the connection string for the application. All data is in memory, and is
  lost at the end. The servers listen on this machine only.

  Elections, fail points and the like are controlled with the commands of real servers:

  > db.adminCommand({ replSetStepDown: 60 })
  > db.adminCommand({ configureFailPoint: 'failCommand', mode: { times: 1 },
                      data: { failCommands: ['insert'], closeConnection: true } })

An overloaded server that sheds load, as in the specification of client backpressure:
  $ steadfast serve --standalone --version 8.2 --request-rate 100,20

Supported features, and use in tests: docs/embedded.md.

Exit status: 0 after Ctrl-C or SIGTERM, 1 if the servers could not start, 2 if the arguments are wrong.";

/// User and password as typed. Parsed later, because clap prints the arguments that it rejects.
#[derive(Clone)]
struct Secret(String);

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// User and password.
struct Credentials {
    user: String,
    password: String,
}

impl Secret {
    fn parse(&self) -> Result<Credentials, String> {
        match self.0.split_once(':') {
            Some((user, password)) if !user.is_empty() && !password.is_empty() => {
                Ok(Credentials { user: user.to_owned(), password: password.to_owned() })
            }
            Some(_) | None => {
                Err("--auth: expected a user and a password, with a colon between them".to_owned())
            }
        }
    }
}

/// Requests per second, and the burst.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate {
    per_second: f64,
    burst: f64,
}

impl FromStr for Rate {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected requests per second, such as 100, or with a burst: 100,20";
        let number =
            |text: &str| text.trim().parse().ok().filter(|it: &f64| *it >= 0.0).ok_or(EXPECTED);
        match text.split_once(',') {
            Some((rate, burst)) => Ok(Self { per_second: number(rate)?, burst: number(burst)? }),
            None => number(text).map(|rate| Self { per_second: rate, burst: rate.max(1.0) }),
        }
    }
}

/// Runs the servers until a signal arrives.
pub(crate) fn run(serve: Serve) -> CommandResult {
    // One thread suffices: requests are short, and the members share their state.
    context::run("serve", serve.output, async |context| {
        let deployment = builder(&serve)?.try_start().map_err(explained)?;
        announce(&deployment, &serve, context)?;
        context.signals.received().await;
        Ok(())
    })
}

/// Converts an error: invalid arguments have exit status 2.
fn explained(error: StartError) -> Box<dyn Error> {
    match error {
        StartError::AddressUnavailable { .. } => error.into(),
        _ => WrongArguments(error.to_string()).into(),
    }
}

fn builder(serve: &Serve) -> Result<Builder, WrongArguments> {
    let shards: Vec<&str> = serve.sharded.iter().map(String::as_str).collect();
    let mut builder = match (serve.standalone, shards.is_empty()) {
        (true, _) => Deployment::standalone(),
        (false, true) => Deployment::replica_set(serve.replica_set.unwrap_or(3)),
        (false, false) => Deployment::sharded(&shards).mongos_count(serve.mongos),
    };
    builder = match serve.wire_version {
        Some(wire_version) => builder.wire_version(wire_version),
        None => builder.version(&serve.version),
    };
    builder = builder.seed(serve.seed);
    if let Some(port) = serve.port {
        builder = builder.ports(port..);
    }
    if let Some(credentials) = &serve.auth {
        let Credentials { user, password } = credentials.parse().map_err(WrongArguments)?;
        builder = builder.auth(&user, &password);
    }
    if let Some(Rate { per_second, burst }) = serve.request_rate {
        builder = builder.request_rate(per_second, burst);
    }
    Ok(builder)
}

/// Prints the connection string as the first line of the result, and notes about the servers.
fn announce(deployment: &Deployment, serve: &Serve, context: &CommandContext) -> CommandResult {
    let what = match (serve.standalone, deployment.members().len()) {
        (true, _) => "a standalone server".to_owned(),
        (false, _) if !serve.sharded.is_empty() => {
            format!("a sharded cluster of {}", serve.sharded.join(" and "))
        }
        (false, 1) => "a replica set of one member".to_owned(),
        (false, members) => format!("a replica set of {members} members"),
    };
    let version = deployment.version();
    let servers: Vec<_> =
        deployment.members().iter().map(|member| member.address().to_string()).collect();
    let document = json!({ "uri": deployment.uri(), "servers": servers, "version": version });
    context.output.conclude(deployment.uri(), document, Ok(()))?;
    let notes = &context.notes;
    notes.info(format_args!("{what}, emulating MongoDB {version}"));
    for shard in deployment.shards() {
        let members: Vec<_> = shard.members().iter().map(|it| it.address().to_string()).collect();
        notes.info(format_args!("shard {}: {}", shard.name(), members.join(", ")));
    }
    notes.info("all data is in memory, and is lost at the end");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_defaults_to_the_rate() {
        assert_eq!("100".parse(), Ok(Rate { per_second: 100.0, burst: 100.0 }));
        assert_eq!("0.5, 3".parse(), Ok(Rate { per_second: 0.5, burst: 3.0 }));
        assert!("fast".parse::<Rate>().is_err());
        assert!("-1".parse::<Rate>().is_err());
    }

    #[test]
    fn debug_hides_the_password() {
        let given: Secret = "root:s:e".parse().unwrap();
        let credentials = given.parse().unwrap();
        assert_eq!((credentials.user.as_str(), credentials.password.as_str()), ("root", "s:e"));
        assert!(!format!("{given:?}").contains("s:e"));
        assert!(Secret("root".to_owned()).parse().is_err());
    }
}
