//! `steadfast demo`: the counter of five applications, while their servers and their network misbehave.

mod plan;
mod stage;
mod table;
mod tally;
mod view;

use std::{error::Error, time::Duration};

use clap::Args;
use tokio::time::{Instant, error::Elapsed, sleep_until, timeout};

use self::{
    plan::{Plan, Trouble},
    stage::Stage,
    tally::Tallies,
    view::View,
};
use crate::{
    duration,
    errand::{self, Done, Errand},
    notes::WrongArguments,
    output::Output,
};

/// Show what becomes of a counter when replies are lost, the primary steps down, and servers shed load
///
/// Five applications count the same events, each with another answer to errors. Between them and three
/// servers, replies and requests are lost; the primary steps down; the servers turn requests away. It
/// needs no database and no arguments: the servers run inside of this program, and are gone with it.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Demo {
    /// How many events each application counts: 20 to 1000
    #[arg(long, value_name = "NUMBER", default_value_t = 200, value_parser = clap::value_parser!(u64).range(20..=1_000))]
    events: u64,

    /// How long it is to take, more or less; with 0, as little as possible
    #[arg(long, value_name = "DURATION", default_value = "18s", value_parser = duration::parse)]
    duration: Duration,

    /// Which of the events meet with trouble: the same seed, the same events
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  $ steadfast demo

  Other events meet with trouble, and there are more of them:
  $ steadfast demo --seed 7 --events 1000

  In a script:
  $ steadfast demo --duration 0 --quiet --json

What the strategies are, and why they come out as they do: docs/resilience.md.

Exit status: 0 if all came out as it should: exact where Steadfast counts, and wrong where it must be. 1 if \
something else came out, or if it was interrupted. 2 if the arguments are wrong.";

/// The longest that it may take.
const LONGEST: Duration = Duration::from_secs(600);

/// When one event, or the beginning, has taken so long, something is wrong. All of them together may take longer,
/// where a machine has much else to do.
const BOUND: Duration = Duration::from_secs(120);

/// Shows it.
pub(crate) fn run(demo: Demo) -> Done {
    errand::run("demo", demo.output, async |errand| demo.run(errand).await)
}

impl Demo {
    async fn run(&self, errand: &mut Errand) -> Done {
        if self.duration > LONGEST {
            return Err(WrongArguments("--duration: at most 10m".to_owned()).into());
        }
        let plan = Plan::new(self.events, self.seed);
        let mut tallies = Tallies::new();
        let mut view = View::new(errand.notes, self.output, &plan);
        let ended = tokio::select! {
            played = self.play(&plan, &mut tallies, &mut view) => Some(played),
            () = errand.ending.comes() => None,
        };
        let (done, events) = (tallies.done(), self.events);
        let why = match ended {
            Some(Err(error)) if error.is::<Elapsed>() => "out of time",
            Some(played) => {
                view.end();
                played?;
                return self.conclude(&plan, &tallies, errand);
            }
            None => "interrupted",
        };
        view.cut_short();
        Err(format!("{why} after {done} of {events} events; nothing is left behind").into())
    }

    /// All events, one after the other; each application counts an event at the same time as the others.
    async fn play(
        &self,
        plan: &Plan,
        tallies: &mut Tallies,
        view: &mut View,
    ) -> Result<(), Box<dyn Error>> {
        let whole = self.duration;
        // A tenth of the time is without a primary.
        let (_, step_downs) = plan.of(Trouble::StepDown);
        let vacancy = whole.div_f64(as_f64(10 * step_downs));
        let stage = timeout(BOUND, Stage::set(self.seed, vacancy)).await??;
        let began = Instant::now();
        for (number, event) in plan.events().enumerate() {
            let number = u64::try_from(number)?;
            view.begins(event);
            let due = whole.mul_f64(as_f64(number) / as_f64(self.events));
            sleep_until(began + due).await;
            let counted = timeout(vacancy + BOUND, stage.event(event)).await??;
            tallies.add(event, counted);
            tallies.set_counters(timeout(BOUND, stage.counters()).await??);
            view.follow(tallies);
        }
        Ok(())
    }

    fn conclude(&self, plan: &Plan, tallies: &Tallies, errand: &Errand) -> Done {
        let surprises = tallies.surprises(plan);
        let paint = self.output.paint(&std::io::stdout());
        let text = table::text(paint, plan, tallies);
        let document = table::json(self.seed, plan, tallies, &surprises);
        let verdict = if surprises.is_empty() { Ok(()) } else { Err(surprises.join("; ").into()) };
        errand.output.conclude(text.trim_end(), document, verdict)
    }
}

/// For proportions; there are at most some thousands of events.
fn as_f64(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
