//! `steadfast doctor`: what there is behind a connection string, and what to mind.

mod ask;
mod facts;
mod findings;
mod gather;
mod json;
mod report;

use std::{convert::Infallible, error::Error, fmt, str::FromStr, time::Duration};

use clap::Args;
use steadfast::options::ConnectionString;

use self::findings::Level;
use crate::{
    duration,
    ending::Ending,
    notes::{self, Notes, WrongArguments},
};

/// Say what is behind a connection string, what works there, and what to change
///
/// It connects as an application would, looks at all servers, and explains what it finds: who can be
/// reached, how far away they are, whether writes are retried and why not, which options do nothing or do
/// harm. It changes nothing.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Doctor {
    /// The deployment: a connection string, such as mongodb://localhost:27017
    ///
    /// It may also be in the environment, where other users of the machine do not see its password.
    #[arg(value_name = "URI", env = "STEADFAST_URI", hide_env_values = true)]
    uri: Uri,

    /// How long it may take in all
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    timeout: Duration,

    /// Print the diagnosis as JSON
    #[arg(long)]
    json: bool,

    /// Print no notes, only the diagnosis
    #[arg(long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  Before an application goes live:
  $ steadfast doctor 'mongodb://db1,db2,db3/?replicaSet=rs0&w=majority&timeoutMS=10000'

  With a password, which is not shown to others, nor printed:
  $ export STEADFAST_URI='mongodb://app:secret@db1,db2,db3/?replicaSet=rs0'
  $ steadfast doctor

  In a script, the problems only:
  $ steadfast doctor --json | jq -r '.findings[] | select(.level == \"problem\") | .what'

Findings are ok, note (good to know), warning (it will hurt some day) or problem (it does not work).

Exit status: 0 if there is no problem, 1 if there is one or nothing can be reached, 2 if the arguments are
wrong.";

/// What was given for a connection string. It is not shown: there may be a password in it.
#[derive(Clone)]
struct Uri(String);

impl FromStr for Uri {
    type Err = Infallible;

    /// Anything: a value that is refused here would be repeated in the message.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Uri")
    }
}

/// Looks, and says what it sees.
pub(crate) fn run(doctor: Doctor) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(doctor.run())
}

impl Doctor {
    async fn run(self) -> Result<(), Box<dyn Error>> {
        let wrong = |why: String| WrongArguments(format!("URI: {why}"));
        if self.timeout.is_zero() {
            return Err(WrongArguments("--timeout: it needs some time, such as 10s".into()).into());
        }
        let parsed =
            ConnectionString::parse(&self.uri.0).map_err(|error| wrong(error.to_string()))?;
        if parsed.socks5_proxy.is_some() {
            return Err(wrong("proxyHost: this driver does not speak SOCKS5".to_owned()).into());
        }
        let notes = Notes::of("doctor", self.quiet);
        let mut ending = Ending::awaited()?;
        let facts = tokio::select! {
            facts = gather::facts(&self.uri.0, parsed, self.timeout, &notes) => facts,
            () = ending.comes() => return Err("interrupted while connecting".into()),
        };
        let findings = findings::diagnose(&facts);
        if self.json {
            notes::print_json(&json::document(&facts, &findings))?;
        } else {
            notes::print(report::text(&facts, &findings))?;
        }
        match findings.iter().filter(|finding| finding.level == Level::Problem).count() {
            0 => Ok(()),
            1 => Err("1 problem was found".into()),
            problems => Err(format!("{problems} problems were found").into()),
        }
    }
}
