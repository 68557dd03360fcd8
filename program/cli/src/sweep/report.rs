//! Result of `sweep` as text and as JSON.

use std::{
    error::Error,
    fmt, io,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use steadfast_patterns::counter::SweepReport;

use super::Sweep;
use crate::{
    context::{CommandContext, CommandResult},
    notes::{WrongArguments, plural},
};

/// One sweep of one collection, or the sum of several.
pub(super) struct SweepRound {
    collection: String,
    dry_run: bool,
    pub(super) report: SweepReport,
    /// Error that ended the sweep.
    pub(super) error: Option<String>,
    pub(super) wrong_arguments: bool,
    pub(super) interrupted: bool,
    /// `false` if the deployment could not be reached.
    is_begun: bool,
    began: Instant,
    rounds: u64,
}

impl SweepRound {
    pub(super) fn none(sweep: &Sweep) -> Self {
        Self {
            collection: sweep.collection.to_string(),
            dry_run: sweep.dry_run,
            report: SweepReport::default(),
            error: None,
            wrong_arguments: false,
            interrupted: false,
            is_begun: true,
            began: Instant::now(),
            rounds: 0,
        }
    }

    /// Returns the result without a connection: an error, or an interruption.
    pub(super) fn not_begun(sweep: &Sweep, why: Option<Box<dyn Error>>) -> Self {
        Self {
            interrupted: why.is_none(),
            wrong_arguments: why.as_ref().is_some_and(|why| why.is::<WrongArguments>()),
            error: why.map(|why| why.to_string()),
            is_begun: false,
            ..Self::none(sweep)
        }
    }

    pub(super) fn is_cut_short(&self) -> bool {
        self.error.is_some() || self.interrupted
    }

    /// Adds the counts of a sweep. Skipped increments are those of the last sweep.
    pub(super) fn absorb(&mut self, other: &Self) {
        let (sum, more) = (&mut self.report, &other.report);
        sum.finished += more.finished;
        sum.by += more.by;
        sum.already_gone += more.already_gone;
        sum.tombstones_removed += more.tombstones_removed;
        sum.left_alone = more.left_alone;
        self.rounds += u64::from(other.is_begun);
    }

    /// Prints the result, and a warning for each counter that could not be swept.
    pub(super) fn print(&self, context: &CommandContext) -> io::Result<()> {
        context.output.print(self, self.to_json(), &self.verdict())?;
        let notes = &context.notes;
        for failure in &self.report.failures {
            notes.warn(format_args!("the counter {} was not swept: {}", failure.id, failure.error));
        }
        let named = u64::try_from(self.report.failures.len()).unwrap_or(u64::MAX);
        let others = self.report.failed.saturating_sub(named);
        if others > 0 {
            notes.warn(format_args!(
                "{} not swept",
                plural(others, "other counter was", "other counters were")
            ));
        }
        Ok(())
    }

    pub(super) fn verdict(&self) -> CommandResult {
        match &self.error {
            Some(error) if self.wrong_arguments => Err(WrongArguments(error.clone()).into()),
            Some(error) => Err(error.clone().into()),
            None if self.interrupted => {
                Err("interrupted; run the command again to sweep the rest".into())
            }
            None if self.report.failed > 0 => Err(format!(
                "{} could not be swept",
                plural(self.report.failed, "counter", "counters")
            )
            .into()),
            None => Ok(()),
        }
    }

    /// Formats the totals.
    pub(super) fn total(&self) -> String {
        format!(
            "{} in {}: {}",
            plural(self.rounds, "sweep", "sweeps"),
            took(self.began.elapsed()),
            self.done()
        )
    }

    fn done(&self) -> String {
        let SweepReport { finished, by, tombstones_removed, .. } = &self.report;
        let (be, adds) =
            if self.dry_run { ("would be ", "which adds") } else { ("", "which added") };
        let mut text = format!("{} {be}finished", plural(*finished, "increment", "increments"));
        if *finished > 0 {
            text += &format!(", {adds} {by}");
        }
        if *tombstones_removed > 0 {
            text += &format!(
                "; {} {be}removed",
                plural(*tombstones_removed, "tombstone", "tombstones")
            );
        }
        text
    }

    fn to_json(&self) -> Value {
        let SweepReport {
            documents,
            finished,
            by,
            already_gone,
            tombstones_removed,
            left_alone,
            failed,
            ..
        } = &self.report;
        let failures = self.report.failures.iter().map(|failure| {
            json!({ "_id": failure.id.clone().into_relaxed_extjson(), "error": failure.error.to_string() })
        });
        json!({
            "collection": self.collection,
            "dryRun": self.dry_run,
            "counters": documents,
            "finished": finished,
            "added": i64::try_from(*by).map_or_else(|_| json!(by.to_string()), |by| json!(by)),
            "finishedByOthers": already_gone,
            "tombstonesRemoved": tombstones_removed,
            "skipped": left_alone,
            "failed": failed,
            "failures": failures.collect::<Vec<_>>(),
            "interrupted": self.interrupted,
            "seconds": self.began.elapsed().as_secs_f64(),
        })
    }
}

/// Summary in one line.
impl fmt::Display for SweepRound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SweepReport { already_gone, left_alone, .. } = &self.report;
        if !self.is_begun {
            return write!(f, "{}: not swept", self.collection);
        }
        write!(f, "{}: {}", self.collection, self.done())?;
        if *already_gone > 0 {
            write!(f, "; {already_gone} finished by others")?;
        }
        match left_alone {
            0 => {}
            skipped => write!(f, "; {skipped} skipped, not old enough")?,
        }
        if self.is_cut_short() { f.write_str("; ended early") } else { Ok(()) }
    }
}

fn took(time: Duration) -> String {
    crate::duration::show(Duration::from_secs(time.as_secs()))
}
