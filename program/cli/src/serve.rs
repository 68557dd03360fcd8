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

/// Serve a MongoDB-compatible deployment from memory, for tests and for trying things out
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, mut_arg("json", |it| it.help(JSON)))]
pub(crate) struct Serve {
    /// A replica set of so many members (the default, with 3)
    #[arg(long, value_name = "MEMBERS", conflicts_with = "standalone")]
    replica_set: Option<usize>,

    /// A server of its own
    #[arg(long)]
    standalone: bool,

    /// A sharded cluster with these shards, each a replica set of three members
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with_all = ["standalone", "replica_set"])]
    sharded: Vec<String>,

    /// How many mongos a sharded cluster has
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "sharded")]
    mongos: usize,

    /// The port of the first server; the others get those after it. Without it, any free ports
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// The version of MongoDB that it passes for: 4.2, 4.4, 5.0, 6.0, 7.0, 8.0 or 8.2
    #[arg(long, value_name = "VERSION", default_value = "8.0")]
    version: String,

    /// The same by the newest version of the wire protocol that it speaks, such as 17 for 6.0
    #[arg(long, value_name = "NUMBER", conflicts_with = "version")]
    wire_version: Option<i32>,

    /// Clients must log in as this user, who may do everything
    #[arg(long, value_name = "USER:PASSWORD")]
    auth: Option<Secret>,

    /// Each server takes so many requests a second, and sheds the rest
    ///
    /// With a second number, so many are taken at once if there were few before.
    #[arg(long, value_name = "RATE[,BURST]")]
    request_rate: Option<Rate>,

    /// What all chances come from: the same seed, the same chances
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

  The first line that it prints is the connection string for the application. All data is in memory, and is
  gone when it ends. It listens on this machine only.

  Elections, fail points and the like are asked for with the commands that servers have for them:

  > db.adminCommand({ replSetStepDown: 60 })
  > db.adminCommand({ configureFailPoint: 'failCommand', mode: { times: 1 },
                      data: { failCommands: ['insert'], closeConnection: true } })

An overloaded server that sheds load as the specification of Client Backpressure shows:
  $ steadfast serve --standalone --version 8.2 --request-rate 100,20

What it can do, and how it is used from tests: docs/embedded.md.

Exit status: 0 if it was told to end, 1 if it could not serve, 2 if the arguments are wrong. Ctrl-C (or SIGTERM) \
ends it.";

/// A user and a password as they were typed. Anything is taken at first: what is refused as an argument is shown.
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

/// A user and a password.
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
                Err("--auth: it is a user and a password, with a colon between them".to_owned())
            }
        }
    }
}

/// How many requests a second, and how many at once.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate {
    per_second: f64,
    burst: f64,
}

impl FromStr for Rate {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WHAT: &str = "it is requests a second, such as 100, or with a burst: 100,20";
        let number =
            |text: &str| text.trim().parse().ok().filter(|it: &f64| *it >= 0.0).ok_or(WHAT);
        match text.split_once(',') {
            Some((rate, burst)) => Ok(Self { per_second: number(rate)?, burst: number(burst)? }),
            None => number(text).map(|rate| Self { per_second: rate, burst: rate.max(1.0) }),
        }
    }
}

/// Serves until it is told to end.
pub(crate) fn run(serve: Serve) -> CommandResult {
    // One thread: what servers do here is short, and the state of a set is one.
    context::run("serve", serve.output, async |context| {
        let deployment = builder(&serve)?.try_start().map_err(explained)?;
        announce(&deployment, &serve, context)?;
        context.signals.received().await;
        Ok(())
    })
}

/// What cannot be had, apart from what nobody can have.
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

/// The connection string alone on the first line, for programs; the rest for people.
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
    notes.info(format_args!("{what}, as MongoDB {version} would be"));
    for shard in deployment.shards() {
        let members: Vec<_> = shard.members().iter().map(|it| it.address().to_string()).collect();
        notes.info(format_args!("shard {}: {}", shard.name(), members.join(", ")));
    }
    notes.info("all data is in memory, and is gone when this ends");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_come_with_a_burst_or_make_their_own() {
        assert_eq!("100".parse(), Ok(Rate { per_second: 100.0, burst: 100.0 }));
        assert_eq!("0.5, 3".parse(), Ok(Rate { per_second: 0.5, burst: 3.0 }));
        assert!("fast".parse::<Rate>().is_err());
        assert!("-1".parse::<Rate>().is_err());
    }

    #[test]
    fn a_password_is_not_shown() {
        let given: Secret = "root:s:e".parse().unwrap();
        let credentials = given.parse().unwrap();
        assert_eq!((credentials.user.as_str(), credentials.password.as_str()), ("root", "s:e"));
        assert!(!format!("{given:?}").contains("s:e"));
        assert!(Secret("root".to_owned()).parse().is_err());
    }
}
