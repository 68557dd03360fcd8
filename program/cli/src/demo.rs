//! `steadfast demo`: the counters of five applications while servers and network fail.

mod deployment;
mod plan;
mod table;
mod tally;
mod view;

use std::{error::Error, time::Duration};

use clap::Args;
use tokio::time::{Instant, error::Elapsed, sleep_until, timeout};

use self::{
    deployment::DemoDeployment,
    plan::{DemoFault, Plan},
    tally::Tallies,
    view::DemoProgress,
};
use crate::{
    context::{self, CommandContext, CommandResult},
    duration,
    notes::WrongArguments,
    output::Output,
};

/// Show what happens to a counter when replies are lost, the primary steps down and servers shed load
///
/// Five applications count the same events, each with a different reaction to errors. Between them and three servers,
/// replies and requests are lost; the primary steps down; the servers reject requests. No database and no arguments
/// are needed: the servers run in the memory of this process.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Demo {
    /// Number of events that each application counts: 20 to 1000
    #[arg(long, value_name = "NUMBER", default_value_t = 200, value_parser = clap::value_parser!(u64).range(20..=1_000))]
    events: u64,

    /// Approximate duration; 0 is as short as possible
    #[arg(long, value_name = "DURATION", default_value = "18s", value_parser = duration::parse)]
    duration: Duration,

    /// Seed: the same seed applies faults to the same events
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  $ steadfast demo

  More events, and faults on other events:
  $ steadfast demo --seed 7 --events 1000

  In a script:
  $ steadfast demo --duration 0 --quiet --json

The strategies, and the reasons for their results: docs/resilience.md.

Exit status: 0 if all results are as expected: exact for the strategies of Steadfast, and wrong for the others. 1 \
after another result, an error or an interruption. 2 if the arguments are wrong.";

/// Maximum of `--duration`.
const LONGEST: Duration = Duration::from_secs(600);

/// Time-out of one event and of the start. All events together may take longer on a busy machine.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

/// Runs the command.
pub(crate) fn run(demo: Demo) -> CommandResult {
    context::run("demo", demo.output, async |context| demo.run(context).await)
}

impl Demo {
    async fn run(&self, context: &mut CommandContext) -> CommandResult {
        if self.duration > LONGEST {
            return Err(WrongArguments("--duration: at most 10m".to_owned()).into());
        }
        let plan = Plan::new(self.events, self.seed);
        let mut tallies = Tallies::new();
        let mut view = DemoProgress::new(context.notes, self.output, &plan);
        let ended = tokio::select! {
            ran = self.run_events(&plan, &mut tallies, &mut view) => Some(ran),
            () = context.signals.received() => None,
        };
        let (done, events) = (tallies.done(), self.events);
        let why = match ended {
            Some(Err(error)) if error.is::<Elapsed>() => "timed out",
            Some(ran) => {
                view.end();
                ran?;
                return self.conclude(&plan, &tallies, context);
            }
            None => "interrupted",
        };
        view.leave();
        Err(format!("{why} after {done} of {events} events; the servers were stopped").into())
    }

    /// Runs all events, one after the other. The applications count each event concurrently.
    async fn run_events(
        &self,
        plan: &Plan,
        tallies: &mut Tallies,
        view: &mut DemoProgress,
    ) -> Result<(), Box<dyn Error>> {
        let whole = self.duration;
        // A tenth of the duration is without a primary.
        let (_, step_downs) = plan.of(DemoFault::StepDown);
        let without_primary = whole.div_f64(as_f64(10 * step_downs));
        let deployment =
            timeout(STEP_TIMEOUT, DemoDeployment::start(self.seed, without_primary)).await??;
        let began = Instant::now();
        for (number, event) in plan.events().enumerate() {
            let number = u64::try_from(number)?;
            view.show_fault(event);
            let due = whole.mul_f64(as_f64(number) / as_f64(self.events));
            sleep_until(began + due).await;
            let counted =
                timeout(without_primary + STEP_TIMEOUT, deployment.event(event)).await??;
            tallies.add(event, &counted);
            tallies.set_counters(timeout(STEP_TIMEOUT, deployment.counters()).await??);
            view.update(tallies);
        }
        Ok(())
    }

    fn conclude(&self, plan: &Plan, tallies: &Tallies, context: &CommandContext) -> CommandResult {
        let unexpected = tallies.unexpected(plan);
        let paint = self.output.paint(&std::io::stdout());
        let text = table::text(paint, plan, tallies);
        let document = table::json(self.seed, plan, tallies, &unexpected);
        let verdict =
            if unexpected.is_empty() { Ok(()) } else { Err(unexpected.join("; ").into()) };
        context.output.conclude(text.trim_end(), document, verdict)
    }
}

/// Converts a number of events, which are at most some thousands.
fn as_f64(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
