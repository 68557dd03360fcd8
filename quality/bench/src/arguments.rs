//! What the command line asks for.

use std::path::PathBuf;

use serde::de::DeserializeOwned;

use crate::{single::Single, trial::idle::Holder};

pub(crate) const USAGE: &str = "\
The driver beside a raw socket (floor) and the official driver, measured in one run.

  cargo run --release -p bench --all-features -- [options]

Measures how fast they are: about 25 minutes for all cases, or 8 with --quick.

  --quick        short turns, three rounds instead of five
  --only NAME    only the cases whose name contains NAME, such as find-one, 64 tasks or canned;
                 can be given several times
  --list         names the cases and ends
  --json FILE    writes all samples to FILE, too
  --help         shows this

What a user notices when something is wrong; ours and the official driver's, in turn:

  -- failover    step-downs and kill -9 on three members while one loop writes: gaps, errors, and how
                 soon after the new primary takes writes the first one succeeds   (about 3 minutes)
  -- churn       operations that are given up after 1 to 5 ms: connections made; an operation after
                 5,000 were dropped; how long minPoolSize=100 takes to fill           (2 minutes)
  -- shed        a server that turns away half of all inserts: how many fail, and how many attempts
                 the server sees                                                       (3 minutes)
  -- idle        memory for each connection that nobody uses                           (1 minute)
  -- overload    a real MongoDB 8.2 server whose request rate limiter rejects: goodput, attempts, errors and
                 latencies of no retries, retries at once, the official driver and ours, with and without its
                 budget, beside the simulation; and the server's processor time for a rejected and for a
                 served request                                                       (21 minutes)
    --seconds N  duration of each load; 20 unless given
    --rate N     requests that the limiter admits in a second; 300 unless given
    --clients N  number of clients; 10 unless given
    --loads LIST loads as multiples of the rate; 0.5,1,2,3,5 unless given

What a change costs, counted rather than timed, so that it can be told on a busy machine:

  cargo run --release -p bench -- count [--save] [--everyone]

                 instructions (by valgrind), allocations and system calls (by strace) of our driver.
                 Fails if they are more than 5 % above those stored in quality/bench/counts.json. If
                 another compiler made those, or there is no valgrind, it says so and ends well.
  --save         stores the counts instead of comparing them
  --everyone     counts those of the floor and the official driver, too

What --json has stored, for people:

  -- table SAMPLES.json                  as a Markdown table, on standard output
  -- picture SAMPLES.json PICTURE.svg    as bars

Build it with --release: without, the figures mean nothing. Close what else keeps the machine busy;
what is left of noise hits all contenders alike, since they take turns.

Features: `official` has the official driver in it; `mongod` has cases on real servers, failover and overload.
Without them it is built in a minute, and has what is left.";

/// What the program is to do.
#[derive(Debug)]
pub(crate) enum Task {
    Help,
    Compare(Wishes),
    /// Count instructions.
    Count(CountWishes),
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
    /// Be the server with canned replies.
    Serve,
    /// Be a measuring process.
    Single(Box<Single>),
    /// Be a process that holds connections.
    Hold(Holder),
}

/// How a comparison is to go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) quick: bool,
    pub(crate) list: bool,
    pub(crate) only: Vec<String>,
    pub(crate) json: Option<PathBuf>,
}

/// How counting is to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountWishes {
    pub(crate) save: bool,
    pub(crate) everyone: bool,
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
        let asks_for_help = |argument: &String| matches!(argument.as_str(), "--help" | "-h");
        if arguments.iter().any(asks_for_help) || arguments == ["help"] {
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
            Some("count") => return CountWishes::from_command_line(rest).map(Self::Count),
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
            Some("single") => Self::Single(told(&mut rest)?),
            Some("hold") => Self::Hold(told(&mut rest)?),
            Some(_) | None => {
                let rest = arguments.iter().map(String::as_str);
                return Wishes::from_command_line(rest).map(Self::Compare);
            }
        };
        rest.next().map_or(Ok(task), |surplus| Err(unknown(surplus)))
    }
}

fn unknown(argument: &str) -> String {
    format!("{argument} means nothing here")
}

fn file<'a>(rest: &mut impl Iterator<Item = &'a str>, task: &str) -> Result<PathBuf, String> {
    rest.next().map(PathBuf::from).ok_or(format!("{task} lacks the name of a file"))
}

/// What the program tells a process of its own.
fn told<'a, T: DeserializeOwned>(rest: &mut impl Iterator<Item = &'a str>) -> Result<T, String> {
    serde_json::from_str(rest.next().unwrap_or_default()).map_err(|error| error.to_string())
}

impl Wishes {
    fn from_command_line<'a>(mut arguments: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut wishes = Self::default();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} lacks its value"));
            match argument {
                "--quick" => wishes.quick = true,
                "--list" => wishes.list = true,
                "--only" => wishes.only.push(value()?.to_owned()),
                "--json" => wishes.json = Some(value()?.into()),
                other => return Err(unknown(other)),
            }
        }
        Ok(wishes)
    }
}

#[cfg(feature = "mongod")]
impl OverloadOptions {
    fn from_command_line<'a>(mut arguments: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            let value = arguments.next().ok_or(format!("{argument} lacks its value"))?;
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

impl CountWishes {
    fn from_command_line<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut wishes = Self::default();
        for argument in arguments {
            match argument {
                "--save" => wishes.save = true,
                "--everyone" => wishes.everyone = true,
                other => return Err(unknown(other)),
            }
        }
        Ok(wishes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Task, String> {
        Task::from_command_line(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_of_a_comparison_are_understood() {
        let Ok(Task::Compare(wishes)) = parse("--quick --only ping --only canned --json out.json")
        else {
            panic!("a comparison")
        };
        assert!(wishes.quick && !wishes.list);
        assert_eq!(wishes.only, ["ping", "canned"]);
        assert_eq!(wishes.json, Some(PathBuf::from("out.json")));
    }

    #[cfg(feature = "mongod")]
    #[test]
    fn options_of_overload_are_understood() {
        let Ok(Task::Overload(options)) = parse("overload --seconds 5 --loads 1,2.5") else {
            panic!("overload")
        };
        let expected =
            OverloadOptions { seconds: 5, loads: vec![1.0, 2.5], ..OverloadOptions::default() };
        assert_eq!(options, expected);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
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
    fn help_is_given_wherever_it_is_asked_for() {
        for line in ["--help", "-h", "help", "count --help", "--only ping -h"] {
            assert!(matches!(parse(line), Ok(Task::Help)), "{line}");
        }
    }
}
