//! `steadfast chaos`: a load of writes under faults, and a verdict on every write.

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

use self::view::ProgressView;
use crate::{
    database::{Uri, UriArg},
    notes::WrongArguments,
    output::Output,
    save,
    signals::ShutdownSignals,
};

/// Test that no write is lost or applied twice, and no transaction is torn: load, faults and a verdict
///
/// Several tasks write while connections break, members freeze or are killed, the primary steps down, servers reject
/// requests and callers drop the futures of their calls. Each operation is recorded with the outcome that the driver
/// reports. At the end, the records are compared with the database. The verdict has four numbers: writes applied twice,
/// acknowledged writes that are lost, writes whose reported outcome or result is wrong, and transactions applied in
/// part. All four must be zero.
///
/// Without --mongod and --uri, three servers run in the memory of this process.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Chaos {
    /// Use three servers in the memory of this process (the default)
    #[arg(long, conflicts_with_all = ["mongod", "uri"])]
    embedded: bool,

    /// Use three real servers, which are downloaded, started and stopped for the run
    #[arg(long, conflicts_with = "uri")]
    mongod: bool,

    /// With --mongod: use a sharded cluster of two mongos and two shards with three members each
    ///
    /// All collections are sharded, chunks move between the shards, and mongos are killed and frozen, too.
    #[arg(long, requires = "mongod")]
    sharded: bool,

    /// Connection string of an existing deployment to use
    ///
    /// Faults are injected between this program and the deployment, and affect this program only. With --faults
    /// step-down, the primary of the deployment steps down. No server is killed, and no other database is touched. The
    /// variable STEADFAST_URI is ignored, to exclude a run on a deployment by accident.
    #[arg(long, value_name = "URI")]
    uri: Option<Uri>,

    /// Kinds of writes, separated by commas
    #[arg(long, value_name = "WRITES", value_delimiter = ',', default_values = Load::ALL.map(Load::name), value_parser = loads())]
    workload: Vec<Load>,

    /// Faults, separated by commas; by default all, or cuts,slow,overload,drops with --uri
    #[arg(long, value_name = "FAULTS", value_delimiter = ',', value_parser = choices())]
    faults: Option<Vec<FaultChoice>>,

    /// Reaction of the application to an error; with always-retry and retry-once, writes are applied twice
    #[arg(long, value_name = "STRATEGY", default_value_t = Strategy::RetryableWrites, value_parser = strategies())]
    strategy: Strategy,

    /// Number of tasks that write in parallel: 1 to 256
    #[arg(long, value_name = "NUMBER", default_value_t = TASKS, value_parser = clap::value_parser!(u32).range(1..=256))]
    tasks: u32,

    /// Operations started per second, if the tasks keep up: 1 to 5000
    #[arg(long, value_name = "NUMBER", default_value_t = RATE, value_parser = clap::value_parser!(u32).range(1..=5000))]
    rate: u32,

    /// Duration of the load: 1s to 1d
    ///
    /// Rate times duration must not exceed 2,000,000 operations, or 300,000 on servers in memory.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = load_duration)]
    duration: Duration,

    /// Time-out of an operation with all its attempts: 100ms to 1h
    ///
    /// With a time-out shorter than a failover, operations fail that would otherwise only take longer. Their errors must
    /// still report the outcome correctly.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = operation_timeout)]
    timeout: Duration,

    /// Seed: the same seed gives the same operations, and the same faults at the same times
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// With --uri: the database of the run, steadfast_chaos by default; it must not exist
    #[arg(long, value_name = "NAME", value_parser = database)]
    database: Option<String>,

    /// With --uri: keep the database of the run
    #[arg(long)]
    keep: bool,

    /// Write a report to this file: a self-contained HTML page
    ///
    /// An existing file is replaced when the new one is complete.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  A minute on servers in memory, with a report:
  $ steadfast chaos --report chaos.html

  Five minutes on real servers, some of which are killed:
  $ steadfast chaos --mongod --duration 5m --report chaos.html

  On a sharded cluster of real servers, while chunks move:
  $ steadfast chaos --mongod --sharded --duration 5m --report chaos.html

  An application that retries after any error:
  $ steadfast chaos --strategy always-retry --faults cuts

  On an existing deployment:
  $ steadfast chaos --uri mongodb://localhost:27017 --duration 30s

  For a script:
  $ steadfast chaos --quiet --json --duration 10s | jq .verdict

How it is counted: each write stores a unique number, its mark, once for each time that the write is
applied. A write that was acknowledged must have one mark. A write that failed as not applied must
have none. A write in doubt, or dropped by the caller, may have none or one. A transaction must have
all of its marks or none. Details: docs/chaos.md.

Ctrl-C (or SIGTERM) ends the load and the faults; the operations until then are counted. A second one
ends the program at once.

Exit status: 0 if all four numbers are zero. 1 if one of them is not, after an error or an interruption.
2 if the arguments are wrong.";

/// Runs the command.
pub(crate) fn run(chaos: Chaos) -> Result<(), Box<dyn Error>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(chaos.run());
    // Dropped operations may still wait for a server.
    runtime.shutdown_background();
    done
}

impl Chaos {
    async fn run(self) -> Result<(), Box<dyn Error>> {
        let mut signals = ShutdownSignals::install()?;
        let plan = self.plan()?;
        if let Some(path) = &self.report {
            save::check("--report", path)?;
        }
        if let Some(uri) = &self.uri {
            // The library would connect, too; errors of the connection string are explained here.
            let (at, notes) = (UriArg::new(uri.as_str())?, self.output.notes("chaos"));
            tokio::select! {
                reached = at.connect(&notes) => drop(reached?),
                () = signals.received() => {
                    return Err("interrupted before the load began; nothing was done".into());
                }
            }
        }
        let view = Arc::new(ProgressView::new(self.output));
        let lasting = plan.lasting;
        let report = run_observed(plan, view, async || signals.received().await).await;
        let report = report.map_err(|error| match error.downcast::<InvalidPlan>() {
            Ok(invalid) => Box::new(WrongArguments(invalid.to_string())),
            Err(other) => other,
        })?;
        let saved = self.report.as_ref().map(|path| save::write_file(path, &report.page()));
        let page = self.report.as_deref().filter(|_| matches!(saved, Some(Ok(()))));
        let saved = saved.and_then(Result::err);
        let saved = saved.map(|error| format!("the report could not be written to {error}"));
        let ended = self.end(&report, lasting, saved);
        let styles = self.output.paint(&std::io::stdout()).styles();
        let text = report.summary(styles, page);
        self.output.conclude(text.trim_end(), report.json(page), ended)
    }

    /// Prints warnings, and returns the last problem as the error.
    fn end(
        &self,
        report: &Report,
        lasting: Duration,
        saved: Option<String>,
    ) -> Result<(), Box<dyn Error>> {
        let interrupted = report.interrupted_after().map(|after| {
            let (after, of) = (rough(after), duration::show(lasting));
            format!("interrupted after {after} of {of}; the operations until then are counted")
        });
        let mut all: Vec<String> =
            saved.into_iter().chain(report.left_behind.clone()).chain(interrupted).collect();
        all.extend(report.verdict.problems());
        let Some(last) = all.pop() else { return Ok(()) };
        let notes = self.output.notes("chaos");
        all.iter().for_each(|what| notes.warn(what));
        Err(last.into())
    }

    /// Converts the arguments to a plan, and checks it.
    fn plan(&self) -> Result<Plan, WrongArguments> {
        let servers = match &self.uri {
            Some(uri) => Servers::Foreign(steadfast_chaos::Uri::new(uri.as_str())),
            None if self.sharded => Servers::Sharded,
            None if self.mongod => Servers::Mongod,
            None => Servers::Embedded,
        };
        if self.uri.is_none() {
            let own = "requires --uri: the other servers exist for the run only";
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

    /// Returns the selected faults, each once, in the order of [`Fault::ALL`].
    fn faults(&self, servers: &Servers) -> Result<Vec<Fault>, WrongArguments> {
        let Some(choices) = &self.faults else { return Ok(servers.default_faults()) };
        if choices.len() > 1 && choices.contains(&FaultChoice::None) {
            return Err(WrongArguments(
                "--faults: none cannot be combined with another".to_owned(),
            ));
        }
        let mut faults = Vec::new();
        for fault in Fault::ALL {
            match servers.unsupported(fault) {
                Some(why) if choices.contains(&FaultChoice::One(fault)) => {
                    return Err(WrongArguments(format!("--faults: {why}")));
                }
                Some(_) => {}
                None if choices.contains(&FaultChoice::All) => faults.push(fault),
                None if choices.contains(&FaultChoice::One(fault)) => faults.push(fault),
                None => {}
            }
        }
        Ok(faults)
    }
}

/// Value of `--faults`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultChoice {
    All,
    None,
    One(Fault),
}

fn choices() -> impl TypedValueParser<Value = FaultChoice> {
    let faults = Fault::ALL.map(|it| PossibleValue::new(it.name()).help(it.description()));
    let others = [
        PossibleValue::new("all").help("All faults that the servers support"),
        PossibleValue::new("none").help("No faults"),
    ];
    PossibleValuesParser::new(faults.into_iter().chain(others)).map(|name| match &*name {
        "all" => FaultChoice::All,
        _ => Fault::ALL
            .into_iter()
            .find(|it| it.name() == name)
            .map_or(FaultChoice::None, FaultChoice::One),
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
            Strategy::DontRetry => "Raises the error",
            Strategy::AlwaysRetry { .. } => {
                "Retries after any error: an executed write is applied twice"
            }
            Strategy::RetryNetworkErrorsOnce => {
                "Retries once after a network error: applied twice as well"
            }
            Strategy::RetryIdempotent => "Uses idempotent writes, and retries them",
            Strategy::RetryableWrites => "Uses retryable writes: the server recognises the retry",
            _ => "",
        })
    });
    PossibleValuesParser::new(all).try_map(|name| name.parse::<Strategy>())
}

fn load_duration(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_secs(1), Duration::from_secs(24 * 3600))
}

fn operation_timeout(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_millis(100), Duration::from_secs(3600))
}

fn within(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let given = duration::parse(text)?;
    if (least..=most).contains(&given) {
        return Ok(given);
    }
    Err(format!("expected {} to {}", duration::show(least), duration::show(most)))
}

/// Checks the name of a database, which must not be one of the server.
fn database(name: &str) -> Result<String, String> {
    const RESERVED: [&str; 3] = ["admin", "config", "local"];
    let is_possible = |c: char| !c.is_control() && !" /\\.\"$*<>:|?".contains(c);
    if name.is_empty() || name.len() > 63 || !name.chars().all(is_possible) {
        return Err(
            "a database name has 1 to 63 bytes, without spaces and without / \\ . \" $ * < > : | ?"
                .to_owned(),
        );
    }
    if RESERVED.iter().any(|other| name.eq_ignore_ascii_case(other)) {
        return Err("this database belongs to the server".to_owned());
    }
    Ok(name.to_owned())
}
