//! Progress of a chaos run on standard error: bars on a terminal, otherwise a line every ten seconds.

use std::{
    io::{self, IsTerminal, Write},
    mem::discriminant,
    sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use steadfast_chaos::{Fault, Live, Observer, Phase, Plan};
use steadfast_report::{
    duration,
    words::{grouped, plural, rough},
};

use crate::{
    database,
    notes::Notes,
    output::Output,
    paint::{Paint, is_able},
};

/// Shows a run on standard error.
pub(super) struct ProgressView {
    output: Output,
    notes: Notes,
    /// Set from the start of the load to its end.
    view: Mutex<Option<RunProgress>>,
}

impl ProgressView {
    pub(super) fn new(output: Output) -> Self {
        Self { output, notes: output.notes("chaos"), view: Mutex::default() }
    }

    fn view(&self) -> MutexGuard<'_, Option<RunProgress>> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for ProgressView {
    fn step(&self, what: &str) {
        self.notes.info(what);
    }

    fn warning(&self, what: &str) {
        self.notes.warn(what);
    }

    fn started(&self, plan: &Plan, server: &str) {
        *self.view() = Some(RunProgress::new(self.output, self.notes, plan, server));
    }

    fn progress(&self, phase: Phase, live: &Live) {
        if let Some(view) = &mut *self.view() {
            view.show(phase, live);
        }
    }

    fn interrupted(&self, reaction: &str) {
        if let Some(view) = &mut *self.view() {
            view.interrupted(self.notes);
        }
        self.notes.warn(reaction);
    }

    fn finished(&self, has_verdict: bool) {
        match self.view().take() {
            Some(view) if has_verdict => view.end(),
            Some(view) => view.leave(),
            None => {}
        }
    }

    fn explain(&self, error: &steadfast::error::Error) -> String {
        database::explain(error)
    }
}

/// Progress of the load.
struct RunProgress {
    display: ChaosDisplay,
    lasting: Duration,
    phase: Phase,
    /// Time of the last line or rate.
    measured: Instant,
    ended: u64,
    per_second: u64,
    slowest: Duration,
    has_line: bool,
}

enum ChaosDisplay {
    Nothing,
    Lines(Notes),
    Terminal(Box<ChaosTerminal>),
}

/// Interval between lines without a terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

impl RunProgress {
    fn new(output: Output, notes: Notes, plan: &Plan, server: &str) -> Self {
        notes.info(opening(plan, server));
        let display = if output.quiet {
            ChaosDisplay::Nothing
        } else if io::stderr().is_terminal() && is_able() {
            ChaosDisplay::Terminal(Box::new(ChaosTerminal::new(output.paint(&io::stderr()))))
        } else {
            ChaosDisplay::Lines(notes)
        };
        Self {
            display,
            lasting: plan.lasting,
            phase: Phase::Preparing,
            measured: Instant::now(),
            ended: 0,
            per_second: 0,
            slowest: Duration::ZERO,
            has_line: false,
        }
    }

    /// Shows the current state.
    fn show(&mut self, phase: Phase, live: &Live) {
        let is_new = discriminant(&phase) != discriminant(&self.phase);
        self.phase = phase;
        let since = self.measured.elapsed();
        let is_due = match self.display {
            ChaosDisplay::Nothing => return,
            // The first line comes after a second.
            ChaosDisplay::Lines(_) if self.has_line => since >= BETWEEN_LINES,
            ChaosDisplay::Lines(_) | ChaosDisplay::Terminal(_) => since >= SECOND,
        };
        if is_due || is_new {
            self.measure(since, live);
            self.has_line |= is_due && matches!(phase, Phase::Load(_));
        }
        match &self.display {
            ChaosDisplay::Nothing => {}
            ChaosDisplay::Lines(notes) => self.line(notes, is_new, is_due, live),
            ChaosDisplay::Terminal(terminal) => terminal.show(self, live),
        }
    }

    fn measure(&mut self, since: Duration, live: &Live) {
        let ended = operations(live);
        let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX).max(1);
        self.per_second = (ended - self.ended).saturating_mul(1000) / millis;
        self.ended = ended;
        self.slowest = live.slowest();
        self.measured = Instant::now();
    }

    fn line(&self, notes: &Notes, is_new: bool, is_due: bool, live: &Live) {
        match self.phase {
            Phase::Load(_) if is_new => notes.info("the load begins"),
            Phase::Load(began) if is_due => {
                let (time, of) = (rough(self.elapsed(began)), duration::show(self.lasting));
                let (counts, pace) = (counts(live), self.pace());
                let now = match live.now() {
                    now if now.is_empty() => String::new(),
                    now => format!("; now: {}", now.join("; ")),
                };
                notes.info(format_args!("{time} of {of}: {counts}, {pace}{now}"));
            }
            Phase::Recovering if is_new => {
                notes.info("the load has ended; the faults end, and the servers recover");
            }
            Phase::Counting if is_new => notes.info("counting the marks in the database"),
            Phase::Preparing | Phase::Load(_) | Phase::Recovering | Phase::Counting => {}
        }
    }

    /// Returns the elapsed time of the load. Operations in progress at its end may take longer.
    fn elapsed(&self, began: Instant) -> Duration {
        began.elapsed().min(self.lasting)
    }

    fn pace(&self) -> String {
        format!("{} operations/s, slowest {}", grouped(self.per_second), rough(self.slowest))
    }

    /// Changes from bars to lines: the position of the bars is unknown once the terminal has shown the `^C`.
    fn interrupted(&mut self, notes: Notes) {
        if let ChaosDisplay::Terminal(_) = self.display {
            self.leave();
            self.display = ChaosDisplay::Lines(notes);
        }
    }

    /// Removes the bars before the result is printed.
    fn end(self) {
        if let ChaosDisplay::Terminal(terminal) = self.display {
            // If the terminal is gone, there is nothing to clear.
            let _ = terminal.all.clear();
            terminal.stop();
        }
    }

    /// Stops drawing, and leaves the bars on the terminal.
    fn leave(&self) {
        if let ChaosDisplay::Terminal(terminal) = &self.display {
            terminal.stop();
            // If the terminal is gone, there is nothing to leave.
            let _ = writeln!(io::stderr());
        }
    }
}

/// Describes the planned run.
fn opening(plan: &Plan, server: &str) -> String {
    let faults: Vec<&str> = plan.faults.iter().copied().map(Fault::name).collect();
    let faults = if faults.is_empty() { "none".to_owned() } else { faults.join(", ") };
    let (tasks, rate, lasting) = (plan.tasks, plan.rate, duration::show(plan.lasting));
    let (title, seed) = (plan.servers.title(), plan.seed);
    format!(
        "{title}: {server}; {tasks} tasks, {rate} operations a second for {lasting}; faults: {faults}; seed {seed}"
    )
}

fn operations(live: &Live) -> u64 {
    live.acknowledged.load(Relaxed) + live.not_applied.load(Relaxed) + live.in_doubt.load(Relaxed)
}

fn counts(live: &Live) -> String {
    format!(
        "{} acknowledged, {} not applied, {} in doubt, {}",
        grouped(live.acknowledged.load(Relaxed)),
        grouped(live.not_applied.load(Relaxed)),
        grouped(live.in_doubt.load(Relaxed)),
        plural(live.failed_attempts.load(Relaxed), "failed attempt", "failed attempts"),
    )
}

/// Four lines on a terminal: elapsed time, outcomes, rate, and current faults.
struct ChaosTerminal {
    all: MultiProgress,
    paint: Paint,
    bar: ProgressBar,
    counts: ProgressBar,
    pace: ProgressBar,
    now: ProgressBar,
}

/// Width of the bar in cells.
const CELLS: usize = 40;

impl ChaosTerminal {
    fn new(paint: Paint) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        let line = || {
            let style = ProgressStyle::with_template("{wide_msg}");
            let bar = all.add(ProgressBar::new_spinner());
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar
        };
        let (bar, counts, pace, now) = (line(), line(), line(), line());
        Self { all, paint, bar, counts, pace, now }
    }

    fn show(&self, run: &RunProgress, live: &Live) {
        let paint = self.paint;
        let (part, text) = match run.phase {
            Phase::Preparing => (0.0, run.phase.name().to_owned()),
            Phase::Load(began) => {
                let elapsed = run.elapsed(began);
                let part = elapsed.as_secs_f64() / run.lasting.as_secs_f64();
                (part, format!("{} of {}", rough(elapsed), duration::show(run.lasting)))
            }
            Phase::Recovering | Phase::Counting => (1.0, run.phase.name().to_owned()),
        };
        let full = full_cells(part);
        let (done, rest) = (paint.good("━".repeat(full)), paint.faint("─".repeat(CELLS - full)));
        self.bar.set_message(format!("{done}{rest}  {text}"));
        self.counts.set_message(counts(live));
        self.pace.set_message(run.pace());
        let now = match live.now() {
            now if now.is_empty() => paint.faint("no fault now"),
            now => format!("{} {}", paint.bad("now:"), now.join("; ")),
        };
        let over = live.incidents.load(Relaxed);
        self.now.set_message(format!("{now} {}", paint.faint(format_args!("({over} ended)"))));
    }

    /// Stops drawing. Dropped lines would be drawn again otherwise.
    fn stop(&self) {
        self.all.set_draw_target(ProgressDrawTarget::hidden());
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to CELLS")]
fn full_cells(part: f64) -> usize {
    let most = f64::from(u32::try_from(CELLS).unwrap_or_default());
    ((part * most) as usize).min(CELLS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_is_empty_at_the_beginning_and_full_at_the_end() {
        for (part, full) in
            [(0.0, 0), (0.5, CELLS / 2), (0.999, CELLS - 1), (1.0, CELLS), (1.2, CELLS)]
        {
            assert_eq!(full_cells(part), full, "{part}");
        }
    }
}
