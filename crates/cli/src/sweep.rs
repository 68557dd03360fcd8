//! `steadfast sweep`: increments that were begun and left behind are finished.

mod report;

use std::{
    error::Error,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use clap::Args;
use steadfast::{
    Client, Namespace,
    bson::Document,
    patterns::counter::{Counters, Fields, SweepReport},
};

use self::report::Round;
use crate::{
    database::{self, Where},
    duration,
    ending::Ending,
    notes::{Notes, WrongArguments},
};

/// Finish increments of exactly-once counters that were begun and left behind
///
/// An application that counts with steadfast::patterns::counter writes down that it is about to count,
/// and then counts, in two steps. If it ends in between, the increment stays pending. A sweep finishes it. It
/// is safe at any time, beside applications that count and beside other sweeps, and when it is cut short:
/// what may still be worked on is left alone, and nothing is counted twice.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Sweep {
    #[command(flatten)]
    on: Where,

    /// The collection whose documents are counters
    #[arg(long, value_name = "DATABASE.COLLECTION", value_parser = database::namespace)]
    collection: Namespace,

    /// How much the clocks of the servers may differ
    ///
    /// A pending increment says until when it can begin; so much later, it is finished.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration::parse)]
    margin: Duration,

    /// How long it is kept that an increment was counted
    ///
    /// So long after its time an application can be told so that finishes it once more. No shorter than
    /// what the applications say.
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = duration::parse)]
    keep: Duration,

    /// How old plain ObjectIds in the array must be
    ///
    /// Applications in other languages, or without this library, put these there. They count one. No
    /// application must begin an increment anew that is so old.
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = duration::parse)]
    older_than: Duration,

    /// The field that counts
    #[arg(long, value_name = "FIELD", default_value = "counter")]
    counter: String,

    /// The field with the increments that are pending
    #[arg(long, value_name = "FIELD", default_value = "pending")]
    pending: String,

    /// The field in which it is kept what was counted
    #[arg(long, value_name = "FIELD", default_value = "done")]
    done: String,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    /// Sweep again and again, so long after the end of the sweep before, until told to end
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    every: Option<Duration>,

    /// Print the result as JSON, a document for each sweep
    #[arg(long)]
    json: bool,

    /// Print no notes, only the result and what went wrong
    #[arg(long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  What would a sweep do?
  $ steadfast sweep --uri mongodb://localhost:27017 --collection shop.days --dry-run
  shop.days: 3 increments would be finished, which adds 3; 2 are left alone, they are not old enough

  Once, from cron:
  $ steadfast sweep --uri mongodb://localhost:27017 --collection shop.days --quiet

  As a service:
  $ export STEADFAST_URI=mongodb://sweeper:secret@db1,db2,db3/?replicaSet=rs0
  $ steadfast sweep --collection shop.days --every 5m --json

Exit status: 0 if all went well, 1 if something failed or was cut short, 2 if the arguments are wrong. Ctrl-C
(or SIGTERM) ends it; it then says what was done.";

/// Sweeps once, or until it is told to end.
pub(crate) fn run(sweep: Sweep) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(sweep.run())
}

impl Sweep {
    async fn run(self) -> Result<(), Box<dyn Error>> {
        if self.every.is_some_and(|every| every.is_zero()) {
            return Err(WrongArguments(
                "--every: a sweep after the other needs some time between, such as 1m".to_owned(),
            )
            .into());
        }
        let notes = Notes::of("sweep", self.quiet);
        let mut ending = Ending::awaited()?;
        let client = tokio::select! {
            client = self.on.connect(&notes) => client?,
            () = ending.comes() => return Err("interrupted while connecting; nothing was done".into()),
        };
        let broom = self.broom(&client);
        let Some(pause) = self.every else {
            return self.once(&broom, &notes, &mut ending).await;
        };
        self.again_and_again(&broom, pause, &notes, &mut ending).await
    }

    fn broom(&self, client: &Client) -> Counters {
        let Namespace { db, coll } = &self.collection;
        let mut fields = Fields::default();
        fields.counter.clone_from(&self.counter);
        fields.pending.clone_from(&self.pending);
        fields.done.clone_from(&self.done);
        let collection = client.database(db).collection::<Document>(coll);
        Counters::new(&collection).fields(fields).margin(self.margin).keep(self.keep)
    }

    async fn once(
        &self,
        broom: &Counters,
        notes: &Notes,
        ending: &mut Ending,
    ) -> Result<(), Box<dyn Error>> {
        let round = self.round(broom, notes, ending).await;
        if !round.wrong_arguments {
            round.print(self.json)?;
        }
        round.warn(notes);
        round.verdict()
    }

    /// A sweep that fails is followed by the next like any other; the verdict is that of the last.
    async fn again_and_again(
        &self,
        broom: &Counters,
        pause: Duration,
        notes: &Notes,
        ending: &mut Ending,
    ) -> Result<(), Box<dyn Error>> {
        let every = duration::show(pause);
        notes.say(format_args!("sweeps {} every {every}, until Ctrl-C", self.collection));
        let mut all = Round::none(self);
        loop {
            let round = self.round(broom, notes, ending).await;
            if round.wrong_arguments {
                return round.verdict();
            }
            round.print(self.json)?;
            round.warn(notes);
            if let Some(error) = &round.error {
                notes.warn(error);
            }
            all.absorb(&round);
            let told_to_end = round.interrupted
                || tokio::select! {
                    () = tokio::time::sleep(pause) => false,
                    () = ending.comes() => true,
                };
            if told_to_end {
                notes.say(format_args!("ended, after {}", all.in_all()));
                return match round.verdict() {
                    Err(_) if !round.interrupted => Err("the last sweep failed".into()),
                    Ok(()) | Err(_) => Ok(()),
                };
            }
        }
    }

    /// One sweep, with what it did before it failed or was interrupted.
    async fn round(&self, broom: &Counters, notes: &Notes, ending: &mut Ending) -> Round {
        let bar = notes.progress("sweeps");
        let so_far = Mutex::new(SweepReport::default());
        let sweep = broom.sweep().older_than(self.older_than).dry_run(self.dry_run);
        let sweep = sweep.progress(|report| {
            bar.set_position(report.documents);
            *so_far.lock().unwrap_or_else(PoisonError::into_inner) = report.clone();
        });
        let mut round = Round::none(self);
        bar.enable_steady_tick(Duration::from_millis(200));
        tokio::select! {
            done = sweep => match done {
                Ok(report) => round.report = report,
                Err(error) => {
                    round.error = Some(database::explain(&error));
                    round.wrong_arguments = database::is_wrong_argument(&error);
                }
            },
            () = ending.comes() => round.interrupted = true,
        }
        bar.finish_and_clear();
        if round.is_cut_short() {
            round.report = so_far.into_inner().unwrap_or_else(PoisonError::into_inner);
        }
        round
    }
}
