//! `steadfast chaos`: writes of all kinds while everything fails, and a count of what came of each.

mod view;

use std::{error::Error, path::PathBuf, sync::Arc, time::Duration};

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use steadfast_chaos::strategy::Strategy;
use steadfast_chaos::{
    DATABASE, Fault, InvalidPlan, Load, Plan, RATE, Report, Servers, TASKS, run_observed,
};
use steadfast_report::{duration, words::rough};

use self::view::Screen;
use crate::{
    database::{Uri, Where},
    ending::Ending,
    notes::WrongArguments,
    output::Output,
    save,
};

/// Prove that no write is lost or made twice, and no transaction torn: load, faults, and a count
///
/// Several tasks write, while connections break, members freeze or are killed, the primary steps down, servers turn
/// requests away and callers drop the futures of their calls. Every operation is recorded with what the driver said
/// of it. In the end that is held against what the database holds, and four numbers come out: how many writes were
/// applied twice, how many were acknowledged and are lost, how many were said not to be applied, or to have had a
/// result, that is not so, and how many transactions were applied in part. All of them must be zero, whatever
/// happened on the way.
///
/// Without --mongod and --uri it needs nothing: three servers run inside of this program, and are gone with it.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Chaos {
    /// Use three servers in the memory of this program; it is so by default
    #[arg(long, conflicts_with_all = ["mongod", "uri"])]
    embedded: bool,

    /// Use three real servers, which are fetched, started and stopped for this
    #[arg(long, conflicts_with = "uri")]
    mongod: bool,

    /// With --mongod: use a sharded cluster, of two shards of three members and two mongos
    ///
    /// All collections are sharded, chunks move between the shards, and mongos are killed and frozen, too.
    #[arg(long, requires = "mongod")]
    sharded: bool,

    /// Use this deployment: a connection string
    ///
    /// Faults are made on the way to it, and happen to this program alone; only with --faults step-down, its
    /// primary does step down. Nothing is killed, and no other database is touched. It is not taken from the
    /// environment: chaos is not for a deployment that somebody forgot was named there.
    #[arg(long, value_name = "URI")]
    uri: Option<Uri>,

    /// Which writes: any of them, with commas between
    #[arg(long, value_name = "WRITES", value_delimiter = ',', default_values = Load::ALL.map(Load::name), value_parser = loads())]
    workload: Vec<Load>,

    /// Which faults: any of them, with commas between; by default all, or with --uri cuts,slow,overload,drops
    #[arg(long, value_name = "FAULTS", value_delimiter = ',', value_parser = choices())]
    faults: Option<Vec<Choice>>,

    /// What the application does about an error; with always-retry and retry-once, writes are made twice
    #[arg(long, value_name = "STRATEGY", default_value_t = Strategy::RetryableWrites, value_parser = strategies())]
    strategy: Strategy,

    /// How many tasks write at a time: 1 to 256
    #[arg(long, value_name = "NUMBER", default_value_t = TASKS, value_parser = clap::value_parser!(u32).range(1..=256))]
    tasks: u32,

    /// How many operations begin in a second, if the tasks get round to it: 1 to 5000
    #[arg(long, value_name = "NUMBER", default_value_t = RATE, value_parser = clap::value_parser!(u32).range(1..=5000))]
    rate: u32,

    /// How long operations begin: 1s to 1d
    ///
    /// With the rate, it makes 2,000,000 operations at most, or 300,000 on servers in memory.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = lasting)]
    duration: Duration,

    /// How long an operation may take, with all its attempts: 100ms to 1h
    ///
    /// With less than a failover takes, operations fail that would else only take longer; they still have to say
    /// truly what became of them.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = patience)]
    timeout: Duration,

    /// The same seed: the same operations, and the same faults at the same times
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// With --uri: the database that is written to, steadfast_chaos by default; it must not be there yet
    #[arg(long, value_name = "NAME", value_parser = database)]
    database: Option<String>,

    /// With --uri: leave that database there in the end
    #[arg(long)]
    keep: bool,

    /// Write a report to this file: a page that needs nothing else
    ///
    /// A file that is there is replaced, once all of the new one is written.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  A minute on servers in memory, and a page about it:
  $ steadfast chaos --report chaos.html

  Five minutes on real servers, some of which are killed:
  $ steadfast chaos --mongod --duration 5m --report chaos.html

  On a sharded cluster of real servers, while chunks move:
  $ steadfast chaos --mongod --sharded --duration 5m --report chaos.html

  What comes of an application that sends again on any error:
  $ steadfast chaos --strategy always-retry --faults cuts

  On a deployment of yours:
  $ steadfast chaos --uri mongodb://localhost:27017 --duration 30s

  For a script:
  $ steadfast chaos --quiet --json --duration 10s | jq .verdict

How it is counted: every write leaves a mark of its own, a number that no other write has, and that
is seen in the database once for each time that the write was applied. Acknowledged: there must be
one. Failed and said not to be applied: none. Failed and said to be in doubt, or dropped by the
caller: none or one. Of a transaction: all of its marks, or none. docs/chaos.md tells more.

Ctrl-C (or SIGTERM) ends the load and the faults; what was done until then is counted. A second one
ends all at once.

Exit status: 0 if all four numbers are zero. 1 if one of them is not, if it could not be done, or
if it was interrupted. 2 if the arguments are wrong.";

/// Does it.
pub(crate) fn run(chaos: Chaos) -> Result<(), Box<dyn Error>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(chaos.run());
    // What was given up may still be waiting for a server.
    runtime.shutdown_background();
    done
}

impl Chaos {
    async fn run(self) -> Result<(), Box<dyn Error>> {
        let mut ending = Ending::awaited()?;
        let plan = self.plan()?;
        if let Some(path) = &self.report {
            save::check("--report", path)?;
        }
        if let Some(uri) = &self.uri {
            // The library would connect, too; errors of the connection string are explained here.
            let (at, notes) = (Where::at(uri.as_str())?, self.output.notes("chaos"));
            tokio::select! {
                reached = at.connect(&notes) => drop(reached?),
                () = ending.comes() => {
                    return Err("interrupted before the load began; nothing was done".into());
                }
            }
        }
        let screen = Arc::new(Screen::new(self.output));
        let lasting = plan.lasting;
        let report = run_observed(plan, screen, async || ending.comes().await).await;
        let report = report.map_err(|error| match error.downcast::<InvalidPlan>() {
            Ok(invalid) => Box::new(WrongArguments(invalid.to_string())),
            Err(other) => other,
        })?;
        let saved = self.report.as_ref().map(|path| save::whole(path, &report.page()));
        let page = self.report.as_deref().filter(|_| matches!(saved, Some(Ok(()))));
        let saved = saved.and_then(Result::err);
        let saved = saved.map(|error| format!("the report could not be written to {error}"));
        let ended = self.end(&report, lasting, saved);
        let styles = self.output.paint(&std::io::stdout()).styles();
        let text = report.summary(styles, page);
        self.output.conclude(text.trim_end(), report.json(page), ended)
    }

    /// The exit status, and why.
    fn end(
        &self,
        report: &Report,
        lasting: Duration,
        saved: Option<String>,
    ) -> Result<(), Box<dyn Error>> {
        let interrupted = report.interrupted_after().map(|after| {
            let (after, of) = (rough(after), duration::show(lasting));
            format!("interrupted after {after} of {of}; what was done until then is counted")
        });
        let mut all: Vec<String> =
            saved.into_iter().chain(report.left_behind.clone()).chain(interrupted).collect();
        all.extend(report.verdict.problems());
        let Some(last) = all.pop() else { return Ok(()) };
        let notes = self.output.notes("chaos");
        all.iter().for_each(|what| notes.warn(what));
        Err(last.into())
    }

    /// What the arguments ask for, if it can be.
    fn plan(&self) -> Result<Plan, WrongArguments> {
        let servers = match &self.uri {
            Some(uri) => Servers::Foreign(steadfast_chaos::Uri::new(uri.as_str())),
            None if self.sharded => Servers::Sharded,
            None if self.mongod => Servers::Mongod,
            None => Servers::Embedded,
        };
        if self.uri.is_none() {
            let own =
                "is for a deployment of yours (--uri): the servers of this run are gone with it";
            for (option, is_given) in
                [("--keep", self.keep), ("--database", self.database.is_some())]
            {
                if is_given {
                    return Err(WrongArguments(format!("{option} {own}")));
                }
            }
        }
        let faults = self.faults(&servers)?;
        let mut plan = Plan::new(servers);
        plan.workload = Load::ALL.into_iter().filter(|load| self.workload.contains(load)).collect();
        plan.faults = faults;
        plan.strategy = self.strategy;
        plan.tasks = self.tasks;
        plan.rate = self.rate;
        plan.lasting = self.duration;
        plan.timeout = self.timeout;
        plan.seed = self.seed;
        plan.database = self.database.clone().unwrap_or_else(|| DATABASE.to_owned());
        plan.keep = self.keep;
        plan.check().map_err(|error| WrongArguments(error.to_string()))?;
        Ok(plan)
    }

    /// Those that were chosen, each once and in the same order however they were written.
    fn faults(&self, servers: &Servers) -> Result<Vec<Fault>, WrongArguments> {
        let Some(choices) = &self.faults else { return Ok(servers.default_faults()) };
        if choices.len() > 1 && choices.contains(&Choice::None) {
            return Err(WrongArguments("--faults: none goes with no other".to_owned()));
        }
        let mut faults = Vec::new();
        for fault in Fault::ALL {
            match servers.refuses(fault) {
                Some(why) if choices.contains(&Choice::One(fault)) => {
                    return Err(WrongArguments(format!("--faults: {why}")));
                }
                Some(_) => {}
                None if choices.contains(&Choice::All) => faults.push(fault),
                None if choices.contains(&Choice::One(fault)) => faults.push(fault),
                None => {}
            }
        }
        Ok(faults)
    }
}

/// What can be written after `--faults`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    All,
    None,
    One(Fault),
}

fn choices() -> impl TypedValueParser<Value = Choice> {
    let faults = Fault::ALL.map(|it| PossibleValue::new(it.name()).help(it.description()));
    let others = [
        PossibleValue::new("all").help("All that the servers can have"),
        PossibleValue::new("none").help("The load alone"),
    ];
    PossibleValuesParser::new(faults.into_iter().chain(others)).map(|name| match &*name {
        "all" => Choice::All,
        _ => Fault::ALL.into_iter().find(|it| it.name() == name).map_or(Choice::None, Choice::One),
    })
}

fn loads() -> impl TypedValueParser<Value = Load> {
    let all = Load::ALL.map(|it| PossibleValue::new(it.name()).help(it.description()));
    PossibleValuesParser::new(all).try_map(|name| {
        Load::ALL.into_iter().find(|it| it.name() == name).ok_or("no such workload")
    })
}

fn strategies() -> impl TypedValueParser<Value = Strategy> {
    let all = Strategy::ALL.map(|strategy| {
        PossibleValue::new(strategy.name()).help(match strategy {
            Strategy::DontRetry => "Raises it",
            Strategy::AlwaysRetry { .. } => {
                "Sends again on any error: what was done already is done twice"
            }
            Strategy::RetryNetworkErrorsOnce => {
                "Sends again once if the network broke: done twice as well"
            }
            Strategy::RetryIdempotent => "Writes so that it can be repeated, and repeats it",
            Strategy::RetryableWrites => "Lets the driver send again, and the server recognise it",
            _ => "",
        })
    });
    PossibleValuesParser::new(all).try_map(|name| name.parse::<Strategy>())
}

fn lasting(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_secs(1), Duration::from_secs(24 * 3600))
}

fn patience(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_millis(100), Duration::from_secs(3600))
}

fn within(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let given = duration::parse(text)?;
    if (least..=most).contains(&given) {
        return Ok(given);
    }
    Err(format!("it is from {} to {}", duration::show(least), duration::show(most)))
}

/// The name of a database that can be made, and is no other's.
fn database(name: &str) -> Result<String, String> {
    const OTHERS: [&str; 3] = ["admin", "config", "local"];
    let is_possible = |c: char| !c.is_control() && !" /\\.\"$*<>:|?".contains(c);
    if name.is_empty() || name.len() > 63 || !name.chars().all(is_possible) {
        return Err("a database's name has 1 to 63 bytes, without any of / \\ . \" $ * < > : | ? \
                    and spaces"
            .to_owned());
    }
    if OTHERS.iter().any(|other| name.eq_ignore_ascii_case(other)) {
        return Err("that is a database of the servers themselves".to_owned());
    }
    Ok(name.to_owned())
}
