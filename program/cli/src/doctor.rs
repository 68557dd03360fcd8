//! `steadfast doctor`: checks of a deployment and its connection string.

mod discovery;
mod facts;
mod findings;
mod json;
mod queries;
mod report;
mod shards;

use std::{io, time::Duration};

use clap::Args;
use steadfast::options::ConnectionString;

use self::findings::Level;
use crate::{
    context::{self, CommandContext, CommandResult},
    database::Uri,
    duration,
    notes::{WrongArguments, plural},
    output::Output,
};

/// Check a deployment and its connection string: what works, what does not, and what to change
///
/// Connects like an application, examines all servers and explains its findings: which servers can be reached, their
/// round-trip times, whether writes are retried, and which options have no effect or a harmful one. It changes nothing.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Doctor {
    /// Connection string of the deployment, such as mongodb://localhost:27017
    #[arg(value_name = "URI", required_unless_present = "uri")]
    positional: Option<Uri>,

    /// Connection string as an option
    ///
    /// The variable hides its password from other users of the machine.
    #[arg(long, value_name = "URI", env = "STEADFAST_URI", hide_env_values = true)]
    uri: Option<Uri>,

    /// Time-out of the whole check
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    timeout: Duration,

    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  Before an application goes into production:
  $ steadfast doctor 'mongodb://db1,db2,db3/?replicaSet=rs0&w=majority&timeoutMS=10000'

  With a password, which is neither visible to other users nor printed:
  $ export STEADFAST_URI='mongodb://app:secret@db1,db2,db3/?replicaSet=rs0'
  $ steadfast doctor

  In a script, problems only:
  $ steadfast doctor --json | jq -r '.findings[] | select(.level == \"problem\") | .what'

Levels of findings: ok, note (information), warning (it works, with a risk) and problem (it does not work).

Exit status: 0 if there is no problem, 1 if there is one or no server can be reached, 2 if the arguments are wrong.";

/// Runs the command.
pub(crate) fn run(doctor: Doctor) -> CommandResult {
    context::run("doctor", doctor.output, async |context| doctor.run(context).await)
}

impl Doctor {
    async fn run(&self, context: &mut CommandContext) -> CommandResult {
        let wrong = |why: String| WrongArguments(format!("URI: {why}"));
        if self.timeout.is_zero() {
            return Err(
                WrongArguments("--timeout: must be longer than 0, such as 10s".into()).into()
            );
        }
        let uri = self.uri()?.as_str();
        let parsed = ConnectionString::parse(uri).map_err(|error| wrong(error.to_string()))?;
        if parsed.socks5_proxy.is_some() {
            return Err(wrong("proxyHost: SOCKS5 proxies are not supported".to_owned()).into());
        }
        let notes = context.notes;
        let facts = tokio::select! {
            facts = discovery::facts(uri, parsed, self.timeout, &notes) => facts,
            () = context.signals.received() => return Err("interrupted while connecting".into()),
        };
        let findings = findings::diagnose(&facts);
        let paint = self.output.paint(&io::stdout());
        let problems = findings.iter().filter(|finding| finding.level == Level::Problem).count();
        let verdict = match problems as u64 {
            0 => Ok(()),
            some => Err(format!("{} found", plural(some, "problem was", "problems were")).into()),
        };
        let text = report::text(&facts, &findings, paint);
        context.output.conclude(text, json::document(&facts, &findings), verdict)
    }

    /// Returns the connection string: the argument, the option, or that of the environment.
    fn uri(&self) -> Result<&Uri, WrongArguments> {
        match (&self.positional, &self.uri) {
            (Some(_), Some(uri)) if !uri.is_from_environment() => Err(WrongArguments(
                "the connection string is given twice; use the argument or --uri, not both"
                    .to_owned(),
            )),
            (Some(uri), _) | (None, Some(uri)) => Ok(uri),
            (None, None) => Err(WrongArguments("URI: a connection string is required".to_owned())),
        }
    }
}
