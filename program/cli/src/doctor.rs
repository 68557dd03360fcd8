//! `steadfast doctor`: what there is behind a connection string, and what to mind.

mod ask;
mod facts;
mod findings;
mod gather;
mod json;
mod report;
mod shards;

use std::{io, time::Duration};

use clap::Args;
use steadfast::options::ConnectionString;

use self::findings::Level;
use crate::{
    database::Uri,
    duration,
    errand::{self, Done, Errand},
    notes::{WrongArguments, plural},
    output::Output,
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
    #[arg(value_name = "URI", required_unless_present = "uri")]
    place: Option<Uri>,

    /// The same
    ///
    /// It may also be in the environment, where other users of the machine do not see its password.
    #[arg(long, value_name = "URI", env = "STEADFAST_URI", hide_env_values = true)]
    uri: Option<Uri>,

    /// How long it may take in all
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    timeout: Duration,

    #[command(flatten)]
    output: Output,
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

Exit status: 0 if there is no problem, 1 if there is one or nothing can be reached, 2 if the arguments are wrong.";

/// Looks, and says what it sees.
pub(crate) fn run(doctor: Doctor) -> Done {
    errand::run("doctor", doctor.output, async |errand| doctor.run(errand).await)
}

impl Doctor {
    async fn run(&self, errand: &mut Errand) -> Done {
        let wrong = |why: String| WrongArguments(format!("URI: {why}"));
        if self.timeout.is_zero() {
            return Err(WrongArguments("--timeout: it needs some time, such as 10s".into()).into());
        }
        let uri = self.asked()?.as_str();
        let parsed = ConnectionString::parse(uri).map_err(|error| wrong(error.to_string()))?;
        if parsed.socks5_proxy.is_some() {
            return Err(wrong("proxyHost: SOCKS5 proxies are not supported".to_owned()).into());
        }
        let notes = errand.notes;
        let facts = tokio::select! {
            facts = gather::facts(uri, parsed, self.timeout, &notes) => facts,
            () = errand.ending.comes() => return Err("interrupted while connecting".into()),
        };
        let findings = findings::diagnose(&facts);
        let paint = self.output.paint(&io::stdout());
        let problems = findings.iter().filter(|finding| finding.level == Level::Problem).count();
        let verdict = match problems as u64 {
            0 => Ok(()),
            some => Err(format!("{} found", plural(some, "problem was", "problems were")).into()),
        };
        let text = report::text(&facts, &findings, paint);
        errand.output.conclude(text, json::document(&facts, &findings), verdict)
    }

    /// The one that was given. The environment has the last word, and not the first.
    fn asked(&self) -> Result<&Uri, WrongArguments> {
        match (&self.place, &self.uri) {
            (Some(_), Some(uri)) if !uri.is_of_environment() => Err(WrongArguments(
                "the deployment is given twice; once is enough, with or without --uri".to_owned(),
            )),
            (Some(place), _) => Ok(place),
            (None, Some(uri)) => Ok(uri),
            (None, None) => Err(WrongArguments("URI: say which deployment".to_owned())),
        }
    }
}
