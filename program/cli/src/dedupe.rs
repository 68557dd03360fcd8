//! `steadfast dedupe`: copies that local writes left behind are shown, and deleted if that is asked for.

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

use self::report::{Outcome, listed};
use crate::{
    database::{self, Places},
    duration,
    errand::{self, Done, Errand},
    output::Output,
};

/// Show and delete the copies that local writes left behind
///
/// An application that writes to another datacenter when one does not answer in time can leave a document
/// behind twice. This finds the events of which there are several copies, by a key that all copies of an
/// event share, and says which copies are too many. With --delete it deletes them; one copy of each event
/// always stays, also if this is cut short or runs several times at once. Copies that differ in more than _id
/// and datacenter are shown and left alone.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES, mut_arg("json", |it| it.help(JSON)))]
pub(crate) struct Dedupe {
    #[command(flatten)]
    on: Places,

    /// The collection in which there are copies
    #[arg(long, value_name = "DATABASE.COLLECTION", value_parser = database::namespace)]
    collection: Namespace,

    /// The fields that name an event, with commas between them
    #[arg(long, required = true, value_name = "FIELD", value_delimiter = ',')]
    key: Vec<String>,

    /// Which copy is kept, by the time in its ObjectId
    #[arg(long, value_enum, default_value_t = Which::First)]
    keep: Which,

    /// Only documents that match, as Extended JSON; it must not name the datacenter
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = filter::parse)]
    filter: Document,

    /// The field that routes documents to their datacenter
    #[arg(long, value_name = "FIELD", default_value = "datacenter")]
    datacenter_field: String,

    /// Leave events alone of which a copy is younger
    ///
    /// A writer may still be waiting to hear of its copy. Longer than writers try, and than clocks differ.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration::parse)]
    older_than: Duration,

    /// Delete the copies that are too many; without it, nothing is changed
    #[arg(long)]
    delete: bool,

    /// Only say what would be done; so it is without --delete
    #[arg(long, conflicts_with = "delete")]
    dry_run: bool,

    /// Print every copy beside the one that is kept
    #[arg(long)]
    list: bool,

    #[command(flatten)]
    output: Output,
}

const JSON: &str =
    "Print the result as JSON: a document, and with --list one for each copy before it";

const EXAMPLES: &str = "\
Examples:
  What is there twice?
  $ export STEADFAST_URI=mongodb://localhost:27017
  $ steadfast dedupe --collection app.messages --key message_id --list
  {\"message_id\":329620}: 56f08c457fe58b2e96f595fb in \"bravo\" is surplus to 56f08c447fe58b2e96f595fa in \"alfa\"
  app.messages: 1 event of 2 documents has several copies; 1 copy would be deleted

  Delete it:
  $ steadfast dedupe --collection app.messages --key message_id --delete

  A deployment for each datacenter, and a key of two fields:
  $ steadfast dedupe --uri mongodb://alfa --uri mongodb://bravo \\
      --collection app.readings --key device.id,sequence \\
      --filter '{\"day\": {\"$lt\": {\"$date\": \"2026-01-01T00:00:00Z\"}}}'

With an index on the key and _id, such as `{ message_id: 1, _id: 1 }`, the servers have nothing to sort. Where \
copies come from: docs/local-writes.md.

Exit status: 0 if all went well, 1 if something failed or was cut short, 2 if the arguments are wrong. Ctrl-C \
(or SIGTERM) ends it; it then says what was done.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// The one that was made first
    First,
    /// The one that was made last
    Last,
}

/// Looks for copies, and deletes them if asked to.
pub(crate) fn run(dedupe: Dedupe) -> Done {
    errand::run("dedupe", dedupe.output, async |errand| dedupe.run(errand).await)
}

impl Dedupe {
    async fn run(&self, errand: &mut Errand) -> Done {
        let notes = errand.notes;
        let clients = errand.reached(self.on.connect(&notes)).await?;
        let outcome = self.trim(&clients, errand).await?;
        let verdict = outcome.verdict();
        errand.output.print(&outcome, outcome.to_json(), &verdict)?;
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
            Which::First => Keep::First,
            Which::Last => Keep::Last,
        };
        Duplicates::over(&collections)
            .key(&self.key)
            .keep(keep)
            .datacenter_field(&self.datacenter_field)
    }

    /// The trim, with what it did before it failed or was interrupted.
    async fn trim(
        &self,
        clients: &[Client],
        errand: &mut Errand,
    ) -> Result<Outcome, Box<dyn Error>> {
        let duplicates = self.duplicates(clients);
        let watch = errand.watch::<TrimReport>("documents");
        let printed = Mutex::new(Ok(()));
        let trim = duplicates
            .trim(self.filter.clone())
            .older_than(self.older_than)
            .dry_run(!self.delete)
            .progress(|report| watch.heard(report.examined, report))
            .each(|copy| {
                let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
                if self.list && printed.is_ok() {
                    let print = || listed(copy, clients.len() > 1, self.output.json);
                    *printed = watch.bar.suspend(print);
                }
            });
        let mut outcome = Outcome::of(self);
        tokio::select! {
            done = trim => match done {
                Ok(report) => outcome.report = report,
                Err(error) => outcome.fail(error),
            },
            () = errand.ending.comes() => outcome.interrupted = true,
        }
        let so_far = watch.end();
        if outcome.interrupted {
            outcome.report = so_far;
        }
        printed.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        Ok(outcome)
    }
}
