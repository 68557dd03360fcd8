//! `steadfast serve`: the embedded deployment as a program.

use std::{
    error::Error,
    fmt,
    io::{self, Write},
    str::FromStr,
};

use blackpipe::embedded::{Builder, Deployment};
use clap::Args;

use crate::ending::Ending;

/// Serve a MongoDB-compatible deployment from memory, for tests and for trying things out
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
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

    /// How many routers a sharded cluster has
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "sharded")]
    routers: usize,

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
    auth: Option<Login>,

    /// Each server takes so many requests a second, and sheds the rest
    ///
    /// With a second number, so many are taken at once if there were few before.
    #[arg(long, value_name = "RATE[,BURST]")]
    request_rate: Option<Rate>,

    /// What all chances come from: the same seed, the same chances
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
}

const EXAMPLES: &str = "\
Getting started:
  $ steadfast serve --port 27017

  The first line that it prints is the connection string for the application. All data is in memory,
  and is gone when it ends. It listens on this machine only.

  Elections, fail points and the like are asked for with the commands that servers have for them:

  > db.adminCommand({ replSetStepDown: 60 })
  > db.adminCommand({ configureFailPoint: 'failCommand', mode: { times: 1 },
                      data: { failCommands: ['insert'], closeConnection: true } })

An overloaded server that sheds load as MongoDB 8.2 does:
  $ steadfast serve --standalone --version 8.2 --request-rate 100,20

Ctrl-C (or SIGTERM) ends it.";

/// A user and a password.
#[derive(Clone)]
struct Login {
    user: String,
    password: String,
}

impl FromStr for Login {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some((user, password)) if !user.is_empty() && !password.is_empty() => {
                Ok(Self { user: user.to_owned(), password: password.to_owned() })
            }
            Some(_) | None => Err("it is a user and a password, with a colon between them"),
        }
    }
}

/// Without the password.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Login").field(&self.user).finish()
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
pub(crate) fn run(serve: Serve) -> Result<(), Box<dyn Error>> {
    // One thread: what servers do here is short, and the state of a set is one.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut ending = Ending::awaited()?;
        let deployment = builder(&serve).try_start()?;
        announce(&deployment, &serve)?;
        ending.comes().await;
        Ok(())
    })
}

fn builder(serve: &Serve) -> Builder {
    let shards: Vec<&str> = serve.sharded.iter().map(String::as_str).collect();
    let mut builder = match (serve.standalone, shards.is_empty()) {
        (true, _) => Deployment::standalone(),
        (false, true) => Deployment::replica_set(serve.replica_set.unwrap_or(3)),
        (false, false) => Deployment::sharded(&shards).routers(serve.routers),
    };
    builder = match serve.wire_version {
        Some(wire_version) => builder.wire_version(wire_version),
        None => builder.version(&serve.version),
    };
    builder = builder.seed(serve.seed);
    if let Some(port) = serve.port {
        builder = builder.ports(port..);
    }
    if let Some(Login { user, password }) = &serve.auth {
        builder = builder.auth(user, password);
    }
    if let Some(Rate { per_second, burst }) = serve.request_rate {
        builder = builder.request_rate(per_second, burst);
    }
    builder
}

/// The connection string alone on the first line, for programs; the rest for people.
fn announce(deployment: &Deployment, serve: &Serve) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{}", deployment.uri())?;
    out.flush()?;
    let mut notes = io::stderr();
    let what = match (serve.standalone, deployment.members().len()) {
        (true, _) => "a standalone server".to_owned(),
        (false, _) if !serve.sharded.is_empty() => {
            format!("a sharded cluster of {}", serve.sharded.join(" and "))
        }
        (false, 1) => "a replica set of one member".to_owned(),
        (false, members) => format!("a replica set of {members} members"),
    };
    let version = deployment.version();
    writeln!(notes, "steadfast serve: {what}, as MongoDB {version} would be")?;
    for shard in deployment.shards() {
        let members: Vec<_> = shard.members().iter().map(|it| it.address().to_string()).collect();
        writeln!(notes, "steadfast serve: shard {}: {}", shard.name(), members.join(", "))?;
    }
    writeln!(notes, "steadfast serve: all data is in memory, and is gone when this ends")
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
        let login: Login = "root:s:e".parse().unwrap();
        assert_eq!((login.user.as_str(), login.password.as_str()), ("root", "s:e"));
        assert!(!format!("{login:?}").contains("s:e"));
        assert!("root".parse::<Login>().is_err());
    }
}
