//! `steadfast dedupe`: lists and deletes duplicate documents of local writes.

mod filter;
mod report;

use std::{
    error::Error,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use clap::{Args, ValueEnum};
use steadfast::{Client, Collection, Namespace, bson::Document};
use steadfast_patterns::duplicates::{Duplicates, Keep, TrimReport};

use self::report::{DedupeOutcome, listed};
use crate::{
    context::{self, CommandContext, CommandResult},
    database::{self, UriArgs},
    duration,
    output::Output,
};

/// Show and delete duplicate documents of local writes
///
/// An application that writes to another datacenter after a time-out can store a document twice. This command finds
/// events with several copies, by a key that all copies of an event share, and reports the surplus copies. With
/// --delete it deletes them. One copy of each event always remains, also after an interruption and with parallel runs.
/// Copies that differ in more than _id and datacenter are reported and kept.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES, mut_arg("json", |it| it.help(JSON)))]
pub(crate) struct Dedupe {
    #[command(flatten)]
    deployment: UriArgs,

    /// Collection with the copies
    #[arg(long, value_name = "DATABASE.COLLECTION", value_parser = database::namespace)]
    collection: Namespace,

    /// Fields that identify an event, separated by commas
    #[arg(long, required = true, value_name = "FIELD", value_delimiter = ',')]
    key: Vec<String>,

    /// Copy to keep, by the time in its ObjectId
    #[arg(long, value_enum, default_value_t = KeptCopy::First)]
    keep: KeptCopy,

    /// Filter for the documents, as Extended JSON; it must not contain the datacenter field
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = filter::parse)]
    filter: Document,

    /// Field that routes documents to their datacenter
    #[arg(long, value_name = "FIELD", default_value = "datacenter")]
    datacenter_field: String,

    /// Skip events with a younger copy
    ///
    /// A writer may still be waiting for the acknowledgement of its copy. Use a duration longer than the time-out of
    /// writers and the difference between clocks.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration::parse)]
    older_than: Duration,

    /// Delete surplus copies; without this option, nothing is changed
    #[arg(long)]
    delete: bool,

    /// Only report what would be deleted (the default without --delete)
    #[arg(long, conflicts_with = "delete")]
    dry_run: bool,

    /// Print each surplus copy, together with the copy to keep
    #[arg(long)]
    list: bool,

    #[command(flatten)]
    output: Output,
}

const JSON: &str =
    "Print the result as JSON: one document, preceded by one for each copy with --list";

const EXAMPLES: &str = "\
Examples:
  Show duplicates:
  $ export STEADFAST_URI=mongodb://localhost:27017
  $ steadfast dedupe --collection app.messages --key message_id --list
  {\"message_id\":329620}: 56f08c457fe58b2e96f595fb in \"bravo\" is surplus to 56f08c447fe58b2e96f595fa in \"alfa\"
  app.messages: 1 event of 2 documents has several copies; 1 copy would be deleted

  Delete them:
  $ steadfast dedupe --collection app.messages --key message_id --delete

  One deployment per datacenter, and a key of two fields:
  $ steadfast dedupe --uri mongodb://alfa --uri mongodb://bravo \\
      --collection app.readings --key device.id,sequence \\
      --filter '{\"day\": {\"$lt\": {\"$date\": \"2026-01-01T00:00:00Z\"}}}'

With an index on the key and _id, such as `{ message_id: 1, _id: 1 }`, the servers need no sort. The cause of \
duplicates: docs/local-writes.md.

Exit status: 0 on success, 1 after an error or an interruption, 2 if the arguments are wrong. Ctrl-C (or \
SIGTERM) ends the command, which then prints what it has done.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KeptCopy {
    /// The oldest copy
    First,
    /// The newest copy
    Last,
}

/// Runs the command.
pub(crate) fn run(dedupe: Dedupe) -> CommandResult {
    context::run("dedupe", dedupe.output, async |context| dedupe.run(context).await)
}

impl Dedupe {
    async fn run(&self, context: &mut CommandContext) -> CommandResult {
        let notes = context.notes;
        let clients = context.connect(self.deployment.connect(&notes)).await?;
        let outcome = self.trim(&clients, context).await?;
        let verdict = outcome.verdict();
        context.output.print(&outcome, outcome.to_json(), &verdict)?;
        if !outcome.wrong_arguments {
            outcome.explain(&notes);
        }
        verdict
    }

    fn duplicates(&self, clients: &[Client]) -> Duplicates<Document> {
        let Namespace { db, coll } = &self.collection;
        let collections: Vec<Collection<Document>> =
            clients.iter().map(|client| client.database(db).collection(coll)).collect();
        let keep = match self.keep {
            KeptCopy::First => Keep::First,
            KeptCopy::Last => Keep::Last,
        };
        Duplicates::over(&collections)
            .key(&self.key)
            .keep(keep)
            .datacenter_field(&self.datacenter_field)
    }

    /// Trims the collections. After an error or interruption, the outcome has the work done until then.
    async fn trim(
        &self,
        clients: &[Client],
        context: &mut CommandContext,
    ) -> Result<DedupeOutcome, Box<dyn Error>> {
        let duplicates = self.duplicates(clients);
        let tracker = context.track::<TrimReport>("documents");
        let printed = Mutex::new(Ok(()));
        let trim = duplicates
            .trim(self.filter.clone())
            .older_than(self.older_than)
            .dry_run(!self.delete)
            .progress(|report| tracker.update(report.examined, report))
            .each(|copy| {
                let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
                if self.list && printed.is_ok() {
                    let print = || listed(copy, clients.len() > 1, self.output.json);
                    *printed = tracker.bar.suspend(print);
                }
            });
        let mut outcome = DedupeOutcome::of(self);
        tokio::select! {
            done = trim => match done {
                Ok(report) => outcome.report = report,
                Err(error) => outcome.fail(error),
            },
            () = context.signals.received() => outcome.interrupted = true,
        }
        let so_far = tracker.finish();
        if outcome.interrupted {
            outcome.report = so_far;
        }
        printed.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        Ok(outcome)
    }
}
