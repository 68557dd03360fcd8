//! `steadfast demo`: the counter of five applications, while their servers and their network misbehave.

mod paint;
mod plan;
mod stage;
mod table;
mod tally;
mod view;

use std::{error::Error, time::Duration};

use clap::Args;
use tokio::time::{Instant, sleep_until, timeout};

use self::{
    paint::{Colors, Paint},
    plan::{Plan, Trouble},
    stage::Stage,
    tally::Tallies,
    view::View,
};
use crate::{
    ending::Ending,
    notes::{self, Notes},
};

/// Show what becomes of a counter when replies are lost, the primary steps down, and servers shed load
///
/// Five applications count the same events, each with another answer to errors. Between them and three
/// servers, replies and requests are lost; the primary steps down; the servers turn requests away. It
/// needs no database and no arguments: the servers run inside of this program, and are gone with it.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Demo {
    /// How many events each application counts
    #[arg(long, value_name = "NUMBER", default_value_t = 200, value_parser = clap::value_parser!(u64).range(20..=1_000))]
    events: u64,

    /// How long it is to take, more or less; with 0, as little as possible
    #[arg(long, value_name = "NUMBER", default_value_t = 18, value_parser = clap::value_parser!(u64).range(..=600))]
    seconds: u64,

    /// Which of the events meet with trouble: the same seed, the same events
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,

    /// Whether to use colours; `auto`: on a terminal, unless the variable NO_COLOR is set
    #[arg(long, value_name = "WHEN", default_value = "auto", value_enum)]
    color: Colors,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    /// Show nothing but the result
    #[arg(long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  $ steadfast demo
  $ steadfast demo --seed 7 --events 1000
  $ steadfast demo --seconds 0 --quiet --json

Exit status: 0 if all came out as it should: exact where Steadfast counts, and wrong where it must be. 1 if
something else came out, or if it was interrupted. 2 if the arguments are wrong.";

/// Shows it.
pub(crate) fn run(demo: Demo) -> Result<(), Box<dyn Error>> {
    // One thread, as for `steadfast serve`: the servers, the proxy and the applications do short work each.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(demo.run())
}

impl Demo {
    async fn run(self) -> Result<(), Box<dyn Error>> {
        let mut ending = Ending::awaited()?;
        let plan = Plan::new(self.events, self.seed);
        let mut tallies = Tallies::new();
        let mut view = View::new(Notes::of("demo", self.quiet), self.quiet, self.color, &plan);
        let ended = tokio::select! {
            ended = timeout(self.bound(), self.play(&plan, &mut tallies, &mut view)) => Some(ended),
            () = ending.comes() => None,
        };
        let (done, events) = (tallies.done(), self.events);
        let why = match ended {
            Some(Ok(played)) => {
                view.end();
                played?;
                return self.print(&plan, &tallies);
            }
            Some(Err(_)) => "out of time",
            None => "interrupted",
        };
        view.cut_short();
        Err(format!("{why} after {done} of {events} events; nothing is left behind").into())
    }

    /// When it has taken so long, something is wrong, or the machine is too busy.
    fn bound(&self) -> Duration {
        let for_many_events = self.events.saturating_sub(200) / 20;
        Duration::from_secs((self.seconds + 12).max(30) + for_many_events)
    }

    /// All events, one after the other; each application counts an event at the same time as the others.
    async fn play(
        &self,
        plan: &Plan,
        tallies: &mut Tallies,
        view: &mut View,
    ) -> Result<(), Box<dyn Error>> {
        let whole = Duration::from_secs(self.seconds);
        // A tenth of the time is without a primary.
        let (_, step_downs) = plan.of(Trouble::StepDown);
        let stage = Stage::set(self.seed, whole.div_f64(as_f64(10 * step_downs))).await?;
        let began = Instant::now();
        for (number, event) in plan.events().enumerate() {
            let number = u64::try_from(number)?;
            view.begins(event);
            let due = whole.mul_f64(as_f64(number) / as_f64(self.events));
            sleep_until(began + due).await;
            let counted = stage.event(event).await?;
            tallies.add(event, counted);
            tallies.set_counters(stage.counters().await?);
            view.follow(tallies);
        }
        Ok(())
    }

    fn print(&self, plan: &Plan, tallies: &Tallies) -> Result<(), Box<dyn Error>> {
        let surprises = tallies.surprises(plan);
        if self.json {
            notes::print_json(&table::json(self.seed, plan, tallies, &surprises))?;
        } else {
            let paint = Paint::new(self.color, &std::io::stdout());
            notes::print(table::text(paint, plan, tallies).trim_end())?;
        }
        if surprises.is_empty() { Ok(()) } else { Err(surprises.join("; ").into()) }
    }
}

/// For proportions; there are at most some thousands of events.
fn as_f64(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
