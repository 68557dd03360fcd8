//! `steadfast sweep`: increments that were begun and left behind are finished.

mod report;

use std::time::Duration;

use clap::Args;
use steadfast::{Client, Namespace, bson::Document};
use steadfast_patterns::counter::{Counters, Fields, SweepReport};

use self::report::SweepRound;
use crate::{
    context::{self, CommandContext, CommandResult},
    database::{self, UriArg},
    duration,
    notes::WrongArguments,
    output::Output,
};

/// Finish increments of exactly-once counters that were begun and left behind
///
/// An application that counts with steadfast_patterns::counter writes down that it is about to count,
/// and then counts, in two steps. If it ends in between, the increment stays pending. A sweep finishes it. It
/// is safe at any time, beside applications that count and beside other sweeps, and when it is cut short:
/// what may still be worked on is left alone, and nothing is counted twice.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES, mut_arg("json", |it| it.help(JSON)))]
pub(crate) struct Sweep {
    #[command(flatten)]
    deployment: UriArg,

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

    #[command(flatten)]
    output: Output,
}

const JSON: &str = "Print the result as JSON, a document for each sweep";

/// While nothing answers at the start, it is tried again after so long at most.
const RECONNECT_PAUSE: Duration = Duration::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  What would a sweep do?
  $ export STEADFAST_URI=mongodb://localhost:27017
  $ steadfast sweep --collection shop.days --dry-run
  shop.days: 3 increments would be finished, which adds 3; 2 are left alone, they are not old enough

  Once, from cron:
  $ steadfast sweep --collection shop.days --quiet

  As a service, which goes on when the deployment does not answer, also at the start:
  $ steadfast sweep --collection shop.days --every 5m --json

The pattern, and what an application does: docs/resilience.md.

Exit status: 0 if all went well, 1 if something failed or was cut short, 2 if the arguments are wrong. Ctrl-C \
(or SIGTERM) ends it; it then says what was done.";

/// Sweeps once, or until it is told to end.
pub(crate) fn run(sweep: Sweep) -> CommandResult {
    context::run("sweep", sweep.output, async |context| sweep.run(context).await)
}

impl Sweep {
    async fn run(&self, context: &mut CommandContext) -> CommandResult {
        match self.every {
            Some(pause) if pause.is_zero() => Err(WrongArguments(
                "--every: a sweep after the other needs some time between, such as 1m".to_owned(),
            )
            .into()),
            Some(pause) => self.repeat(pause, context).await,
            None => {
                let notes = context.notes;
                let client = context.connect(self.deployment.connect(&notes)).await?;
                let round = self.round(&client, context).await;
                round.print(context)?;
                round.verdict()
            }
        }
    }

    fn counters(&self, client: &Client) -> Counters {
        let Namespace { db, coll } = &self.collection;
        let mut fields = Fields::default();
        fields.counter.clone_from(&self.counter);
        fields.pending.clone_from(&self.pending);
        fields.done.clone_from(&self.done);
        let collection = client.database(db).collection::<Document>(coll);
        Counters::new(&collection).fields(fields).margin(self.margin).keep(self.keep)
    }

    /// A sweep that fails is followed by the next like any other; the verdict is that of the last.
    async fn repeat(&self, pause: Duration, context: &mut CommandContext) -> CommandResult {
        let notes = context.notes;
        let (mut client, mut all) = (None, SweepRound::none(self));
        loop {
            let round = self.next_round(&mut client, context).await;
            if round.wrong_arguments {
                return round.verdict();
            }
            round.print(context)?;
            if let Some(error) = &round.error {
                notes.warn(error);
            }
            all.absorb(&round);
            if round.interrupted || self.wait_for_next(pause, client.is_some(), context).await {
                notes.info(format_args!("ended, after {}", all.total()));
                return match round.verdict() {
                    Err(_) if !round.interrupted => Err("the last sweep failed".into()),
                    Ok(()) | Err(_) => Ok(()),
                };
            }
        }
    }

    /// Waits for the next sweep, or for the end.
    async fn wait_for_next(
        &self,
        pause: Duration,
        is_reached: bool,
        context: &mut CommandContext,
    ) -> bool {
        let pause = if is_reached { pause } else { pause.min(RECONNECT_PAUSE) };
        if !is_reached {
            context.notes.info(format_args!("it is tried again in {}", duration::show(pause)));
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => false,
            () = context.signals.received() => true,
        }
    }

    /// A sweep, once the deployment is found: a service goes on until it is.
    async fn next_round(
        &self,
        client: &mut Option<Client>,
        context: &mut CommandContext,
    ) -> SweepRound {
        if let Some(client) = client {
            return self.round(client, context).await;
        }
        let notes = context.notes;
        let connected = tokio::select! {
            connected = self.deployment.connect(&notes) => connected,
            () = context.signals.received() => return SweepRound::not_begun(self, None),
        };
        match connected {
            Ok(found) => {
                let every = duration::show(self.every.unwrap_or_default());
                notes.info(format_args!("sweeps {} every {every}, until Ctrl-C", self.collection));
                self.round(client.insert(found), context).await
            }
            Err(error) => SweepRound::not_begun(self, Some(error)),
        }
    }

    /// One sweep, with what it did before it failed or was interrupted.
    async fn round(&self, client: &Client, context: &mut CommandContext) -> SweepRound {
        let counters = self.counters(client);
        let tracker = context.track::<SweepReport>("sweeps");
        let sweep = counters.sweep().older_than(self.older_than).dry_run(self.dry_run);
        let sweep = sweep.progress(|report| tracker.update(report.documents, report));
        let mut round = SweepRound::none(self);
        tokio::select! {
            done = sweep => match done {
                Ok(report) => round.report = report,
                Err(error) => {
                    round.error = Some(database::explain(&error));
                    round.wrong_arguments = database::is_wrong_argument(&error);
                }
            },
            () = context.signals.received() => round.interrupted = true,
        }
        let so_far = tracker.finish();
        if round.is_cut_short() {
            round.report = so_far;
        }
        round
    }
}
