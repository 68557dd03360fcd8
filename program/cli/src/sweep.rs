//! `steadfast sweep`: finishes pending increments of counters.

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

/// Finish pending increments of exactly-once counters
///
/// An application that counts with steadfast_patterns::counter first stores a pending increment, and then applies it.
/// If the application ends in between, the increment stays pending, and a sweep finishes it. A sweep is safe at any
/// time: during other sweeps, while applications count, and after an interruption. It skips increments that an
/// application may still apply, and no increment is applied twice.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES, mut_arg("json", |it| it.help(JSON)))]
pub(crate) struct Sweep {
    #[command(flatten)]
    deployment: UriArg,

    /// Collection of the counters
    #[arg(long, value_name = "DATABASE.COLLECTION", value_parser = database::namespace)]
    collection: Namespace,

    /// Maximum difference between the clocks of the servers
    ///
    /// A pending increment has a time until which the application can apply it. A sweep finishes it when this margin
    /// has passed as well.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration::parse)]
    margin: Duration,

    /// Time for which tombstones of applied increments are kept
    ///
    /// Until then, a retry of the increment finds that it was applied. Must not be shorter than the setting of the
    /// applications.
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = duration::parse)]
    keep: Duration,

    /// Minimum age of plain ObjectIds in the array
    ///
    /// Applications without this library, for example in other languages, store plain ObjectIds, which count one. No
    /// application may retry an increment of this age.
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = duration::parse)]
    older_than: Duration,

    /// Field with the count
    #[arg(long, value_name = "FIELD", default_value = "counter")]
    counter: String,

    /// Array field with the pending increments
    #[arg(long, value_name = "FIELD", default_value = "pending")]
    pending: String,

    /// Array field with the tombstones of applied increments
    #[arg(long, value_name = "FIELD", default_value = "done")]
    done: String,

    /// Only report what would be done
    #[arg(long)]
    dry_run: bool,

    /// Sweep repeatedly, with this pause between sweeps, until Ctrl-C
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    every: Option<Duration>,

    #[command(flatten)]
    output: Output,
}

const JSON: &str = "Print the result as JSON: one document for each sweep";

/// Maximum pause between attempts to connect.
const RECONNECT_PAUSE: Duration = Duration::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  Show what a sweep would do:
  $ export STEADFAST_URI=mongodb://localhost:27017
  $ steadfast sweep --collection shop.days --dry-run
  shop.days: 3 increments would be finished, which adds 3; 2 skipped, not old enough

  Once, from cron:
  $ steadfast sweep --collection shop.days --quiet

  As a service, which also retries while the deployment cannot be reached:
  $ steadfast sweep --collection shop.days --every 5m --json

The pattern, and its use in an application: docs/resilience.md.

Exit status: 0 on success, 1 after an error or an interruption, 2 if the arguments are wrong. Ctrl-C \
(or SIGTERM) ends the command, which then prints what it has done.";

/// Runs the command.
pub(crate) fn run(sweep: Sweep) -> CommandResult {
    context::run("sweep", sweep.output, async |context| sweep.run(context).await)
}

impl Sweep {
    async fn run(&self, context: &mut CommandContext) -> CommandResult {
        match self.every {
            Some(pause) if pause.is_zero() => {
                Err(WrongArguments("--every: must be longer than 0, such as 1m".to_owned()).into())
            }
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

    /// Sweeps repeatedly, also after a sweep that failed. The verdict is that of the last sweep.
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
                notes.info(format_args!("ended after {}", all.total()));
                return match round.verdict() {
                    Err(_) if !round.interrupted => Err("the last sweep failed".into()),
                    Ok(()) | Err(_) => Ok(()),
                };
            }
        }
    }

    /// Waits for the next sweep. Returns `true` if a signal arrives first.
    async fn wait_for_next(
        &self,
        pause: Duration,
        is_reached: bool,
        context: &mut CommandContext,
    ) -> bool {
        let pause = if is_reached { pause } else { pause.min(RECONNECT_PAUSE) };
        if !is_reached {
            context.notes.info(format_args!("retrying in {}", duration::show(pause)));
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => false,
            () = context.signals.received() => true,
        }
    }

    /// Connects if necessary, and sweeps.
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
                notes.info(format_args!("sweeping {} every {every} until Ctrl-C", self.collection));
                self.round(client.insert(found), context).await
            }
            Err(error) => SweepRound::not_begun(self, Some(error)),
        }
    }

    /// Sweeps once. After an error or an interruption, the result has the work done until then.
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
