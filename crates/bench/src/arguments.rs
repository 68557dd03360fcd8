//! What the command line asks for.

use std::path::PathBuf;

use crate::single::Single;

pub(crate) const USAGE: &str = "\
The driver beside a raw socket and the official driver, measured in one run.

  cargo run --release -p bench -- [options]

  --quick        short runs, three rounds: about five minutes
  --only NAME    only the cases whose name contains NAME, such as find-one, 64 tasks or canned;
                 can be given several times
  --list         names the cases and ends
  --json FILE    writes all samples to FILE, too
  --help         shows this

  cargo run --release -p bench -- count [--save] [--everyone]

Counts instructions (by valgrind), allocations and system calls (by strace) of the client, and fails if
they are more than 5 % above those that are stored in crates/bench/counts.json.

  --save         stores the counts instead of comparing them
  --everyone     counts those of the floor and the official driver, too

  cargo run --release -p bench -- failover

Step-downs and kill -9 on three members while one loop writes: gaps, errors, and how soon after the new
primary takes writes the first succeeds. Ours and the official driver, in turn.

  cargo run --release -p bench -- churn

Operations that are given up after 1 to 5 ms: connections made per thousand of them; how long an
operation takes after 5,000 were dropped; how long minPoolSize=100 takes to fill.

  cargo run --release -p bench -- picture SAMPLES.json PICTURE.svg

Draws what --json has stored.

Build it with --release: without, the figures mean nothing. Close what else keeps the machine busy;
what is left of noise hits all contenders alike, since they take turns.";

/// What the program is to do.
#[derive(Debug)]
pub(crate) enum Task {
    Help,
    Compare(Wishes),
    /// Count instructions.
    Count(CountWishes),
    Failover,
    Churn,
    /// Draw the samples of a comparison.
    Picture {
        samples: PathBuf,
        picture: PathBuf,
    },
    /// Be the server with canned replies.
    Serve,
    /// Be a measuring process.
    Single(Box<Single>),
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

impl Task {
    pub(crate) fn from_command_line(
        mut arguments: impl Iterator<Item = String>,
    ) -> Result<Self, String> {
        let mut wishes = Wishes::default();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} lacks its value"));
            match argument.as_str() {
                "--help" | "-h" => return Ok(Self::Help),
                "--quick" => wishes.quick = true,
                "--list" => wishes.list = true,
                "--only" => wishes.only.push(value()?),
                "--json" => wishes.json = Some(value()?.into()),
                "count" => return CountWishes::from_command_line(arguments).map(Self::Count),
                "failover" => return Ok(Self::Failover),
                "churn" => return Ok(Self::Churn),
                "picture" => {
                    let (samples, picture) = (value()?.into(), value()?.into());
                    return Ok(Self::Picture { samples, picture });
                }
                "serve" => return Ok(Self::Serve),
                "single" => {
                    let single = serde_json::from_str(&value()?);
                    return single.map(Self::Single).map_err(|error| error.to_string());
                }
                other => return Err(format!("{other} means nothing here")),
            }
        }
        Ok(Self::Compare(wishes))
    }
}

impl CountWishes {
    fn from_command_line(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut wishes = Self::default();
        for argument in arguments {
            match argument.as_str() {
                "--save" => wishes.save = true,
                "--everyone" => wishes.everyone = true,
                other => return Err(format!("{other} means nothing here")),
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

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["--fast", "--only", "single {}"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
