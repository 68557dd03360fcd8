//! Parser of the command line.

use std::path::PathBuf;

use serde::de::DeserializeOwned;

use crate::{measurement::Measurement, trial::idle::PoolHolder};

pub(crate) const USAGE: &str = "\
Compares the driver with a raw socket (floor) and with the official driver in one run.

  cargo run --release -p bench --all-features -- [options]

Measures throughput and latency: about 25 minutes for all cases, or 8 with --quick.

  --quick        shorter turns; three rounds instead of five
  --only NAME    runs only the cases whose name contains NAME, such as find-one, 64 tasks or canned;
                 may be repeated
  --list         lists the cases
  --json FILE    also writes all samples to FILE
  --help         prints this text

Behaviour under failures, of this driver and of the official driver in turn:

  -- failover    step-downs and kill -9 on three members while one loop writes: gaps, errors, and the
                 time from the election to the first successful write            (about 3 minutes)
  -- churn       operations that are cancelled after 1 to 5 ms: connections created; latency after 5,000
                 cancelled operations; time to fill minPoolSize=100                   (2 minutes)
  -- shed        a server that rejects half of all inserts: failed operations, and attempts that the
                 server receives                                                       (3 minutes)
  -- idle        memory per idle connection                                            (1 minute)
  -- overload    a real MongoDB 8.2 server whose request rate limiter rejects: goodput, attempts, errors and
                 latencies of no retries, immediate retries, the official driver and this driver with and
                 without its budget, next to the simulation; and the server's processor time for a rejected and for a
                 served request                                                       (21 minutes)
    --seconds N  duration of each load; 20 unless given
    --rate N     requests that the limiter admits in a second; 300 unless given
    --clients N  number of clients; 10 unless given
    --loads LIST loads as multiples of the rate; 0.5,1,2,3,5 unless given

The cost of a change, counted rather than timed, so that a busy machine does not affect it:

  cargo run --release -p bench -- count [--save] [--everyone]

                 instructions (by valgrind), allocations and system calls (by strace) of this driver.
                 Fails if a count is more than 5 % above quality/bench/counts.json. If the stored counts
                 are of another compiler, or valgrind is not installed, it prints that and succeeds.
  --save         stores the counts instead of comparing them
  --everyone     also counts those of the floor and the official driver

Presentation of the samples that --json stored:

  -- table SAMPLES.json                  as a Markdown table, on standard output
  -- picture SAMPLES.json PICTURE.svg    as bars

Build it with --release; figures of other builds are meaningless. Stop other programs that use the processor. The
contenders take turns, so that the remaining noise affects all of them equally.

Features: `official` adds the official driver; `mongod` adds the cases on real servers, failover and overload.
Without them the build takes a minute.";

/// Task of the program.
#[derive(Debug)]
pub(crate) enum Task {
    Help,
    Compare(ComparisonOptions),
    /// Count instructions.
    Count(CountOptions),
    Failover,
    Churn,
    Shed,
    Idle,
    /// Measure overload of a real server.
    #[cfg(feature = "mongod")]
    Overload(OverloadOptions),
    /// Show the samples of a comparison as Markdown.
    Table {
        samples: PathBuf,
    },
    /// Draw the samples of a comparison.
    Picture {
        samples: PathBuf,
        picture: PathBuf,
    },
    /// Serve canned replies.
    Serve,
    /// Measure, as a child process.
    Measurement(Box<Measurement>),
    /// Hold a connection pool, as a child process.
    Hold(PoolHolder),
}

/// Options of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ComparisonOptions {
    pub(crate) quick: bool,
    pub(crate) list: bool,
    pub(crate) only: Vec<String>,
    pub(crate) json: Option<PathBuf>,
}

/// Options of `count`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountOptions {
    pub(crate) save: bool,
    pub(crate) all_contenders: bool,
}

/// Options of `overload`.
#[derive(Clone, Debug, PartialEq)]
#[cfg(feature = "mongod")]
pub(crate) struct OverloadOptions {
    pub(crate) seconds: u32,
    pub(crate) rate: u32,
    pub(crate) clients: u32,
    pub(crate) loads: Vec<f64>,
}

#[cfg(feature = "mongod")]
impl Default for OverloadOptions {
    fn default() -> Self {
        Self { seconds: 20, rate: 300, clients: 10, loads: vec![0.5, 1.0, 2.0, 3.0, 5.0] }
    }
}

impl Task {
    pub(crate) fn from_command_line(
        arguments: impl Iterator<Item = String>,
    ) -> Result<Self, String> {
        let arguments: Vec<String> = arguments.collect();
        let is_help = |argument: &String| matches!(argument.as_str(), "--help" | "-h");
        if arguments.iter().any(is_help) || arguments == ["help"] {
            return Ok(Self::Help);
        }
        let mut rest = arguments.iter().map(String::as_str);
        let task = match rest.next() {
            #[cfg(feature = "mongod")]
            Some("overload") => {
                return OverloadOptions::from_command_line(rest).map(Self::Overload);
            }
            #[cfg(not(feature = "mongod"))]
            Some("overload") => return Err(crate::servers::NO_MONGOD.to_owned()),
            Some("count") => return CountOptions::from_command_line(rest).map(Self::Count),
            Some("failover") => Self::Failover,
            Some("churn") => Self::Churn,
            Some("shed") => Self::Shed,
            Some("idle") => Self::Idle,
            Some("table") => Self::Table { samples: file(&mut rest, "table")? },
            Some("picture") => Self::Picture {
                samples: file(&mut rest, "picture")?,
                picture: file(&mut rest, "picture")?,
            },
            Some("serve") => Self::Serve,
            Some("single") => Self::Measurement(json_argument(&mut rest)?),
            Some("hold") => Self::Hold(json_argument(&mut rest)?),
            Some(_) | None => {
                let rest = arguments.iter().map(String::as_str);
                return ComparisonOptions::from_command_line(rest).map(Self::Compare);
            }
        };
        rest.next().map_or(Ok(task), |surplus| Err(unknown(surplus)))
    }
}

fn unknown(argument: &str) -> String {
    format!("unknown argument {argument}")
}

fn file<'a>(rest: &mut impl Iterator<Item = &'a str>, task: &str) -> Result<PathBuf, String> {
    rest.next().map(PathBuf::from).ok_or(format!("{task} needs the name of a file"))
}

/// Parses the JSON argument that the program passes to its child processes.
fn json_argument<'a, T: DeserializeOwned>(
    rest: &mut impl Iterator<Item = &'a str>,
) -> Result<T, String> {
    serde_json::from_str(rest.next().unwrap_or_default()).map_err(|error| error.to_string())
}

impl ComparisonOptions {
    fn from_command_line<'a>(mut arguments: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument {
                "--quick" => options.quick = true,
                "--list" => options.list = true,
                "--only" => options.only.push(value()?.to_owned()),
                "--json" => options.json = Some(value()?.into()),
                other => return Err(unknown(other)),
            }
        }
        Ok(options)
    }
}

#[cfg(feature = "mongod")]
impl OverloadOptions {
    fn from_command_line<'a>(mut arguments: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            let value = arguments.next().ok_or(format!("{argument} needs a value"))?;
            let wrong = || format!("{argument} {value}: a number greater than 0 is expected");
            let number = || value.parse().ok().filter(|&number| number > 0).ok_or_else(wrong);
            match argument {
                "--seconds" => options.seconds = number()?,
                "--rate" => options.rate = number()?,
                "--clients" => options.clients = number()?,
                "--loads" => {
                    let load = |text: &str| {
                        let load = text.parse().ok();
                        load.filter(|load: &f64| load.is_finite() && *load > 0.0)
                    };
                    let loads: Option<Vec<f64>> = value.split(',').map(load).collect();
                    options.loads = loads.ok_or_else(wrong)?;
                }
                other => return Err(unknown(other)),
            }
        }
        Ok(options)
    }
}

impl CountOptions {
    fn from_command_line<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut options = Self::default();
        for argument in arguments {
            match argument {
                "--save" => options.save = true,
                "--everyone" => options.all_contenders = true,
                other => return Err(unknown(other)),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Task, String> {
        Task::from_command_line(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn comparison_options_are_parsed() {
        let Ok(Task::Compare(options)) = parse("--quick --only ping --only canned --json out.json")
        else {
            panic!("a comparison")
        };
        assert!(options.quick && !options.list);
        assert_eq!(options.only, ["ping", "canned"]);
        assert_eq!(options.json, Some(PathBuf::from("out.json")));
    }

    #[cfg(feature = "mongod")]
    #[test]
    fn overload_options_are_parsed() {
        let Ok(Task::Overload(options)) = parse("overload --seconds 5 --loads 1,2.5") else {
            panic!("overload")
        };
        let expected =
            OverloadOptions { seconds: 5, loads: vec![1.0, 2.5], ..OverloadOptions::default() };
        assert_eq!(options, expected);
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        for line in [
            "--fast",
            "--only",
            "single {}",
            "single",
            "churn --quick",
            "count --fast",
            "table",
            "picture samples.json",
            "picture samples.json picture.svg more",
            "overload --rate",
            "overload --rate 0",
            "overload --loads 1,,2",
            "overload --loads -1",
            "overload --fast 1",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn help_is_recognised_at_any_position() {
        for line in ["--help", "-h", "help", "count --help", "--only ping -h"] {
            assert!(matches!(parse(line), Ok(Task::Help)), "{line}");
        }
    }
}
