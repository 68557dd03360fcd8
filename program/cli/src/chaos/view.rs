//! What is to be seen meanwhile, on standard error: on a terminal a picture that moves, elsewhere a line now and
//! then.

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
pub(super) struct Screen {
    output: Output,
    notes: Notes,
    /// From the start of the load to its end.
    view: Mutex<Option<View>>,
}

impl Screen {
    pub(super) fn new(output: Output) -> Self {
        Self { output, notes: output.notes("chaos"), view: Mutex::default() }
    }

    fn view(&self) -> MutexGuard<'_, Option<View>> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Screen {
    fn step(&self, what: &str) {
        self.notes.say(what);
    }

    fn warning(&self, what: &str) {
        self.notes.warn(what);
    }

    fn started(&self, plan: &Plan, server: &str) {
        *self.view() = Some(View::new(self.output, self.notes, plan, server));
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

/// Shows how far it is.
struct View {
    kind: Kind,
    lasting: Duration,
    phase: Phase,
    /// When there was last a line, or a rate.
    looked: Instant,
    ended: u64,
    per_second: u64,
    slowest: Duration,
    has_line: bool,
}

enum Kind {
    Nothing,
    Lines(Notes),
    Picture(Box<Picture>),
}

/// Where there is no picture, a line comes so often.
const BETWEEN_LINES: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

impl View {
    fn new(output: Output, notes: Notes, plan: &Plan, server: &str) -> Self {
        notes.say(opening(plan, server));
        let kind = if output.quiet {
            Kind::Nothing
        } else if io::stderr().is_terminal() && is_able() {
            Kind::Picture(Box::new(Picture::new(output.paint(&io::stderr()))))
        } else {
            Kind::Lines(notes)
        };
        Self {
            kind,
            lasting: plan.lasting,
            phase: Phase::Preparing,
            looked: Instant::now(),
            ended: 0,
            per_second: 0,
            slowest: Duration::ZERO,
            has_line: false,
        }
    }

    /// Shows what there is now.
    fn show(&mut self, phase: Phase, live: &Live) {
        let is_new = discriminant(&phase) != discriminant(&self.phase);
        self.phase = phase;
        let since = self.looked.elapsed();
        let is_due = match self.kind {
            Kind::Nothing => return,
            // The first one comes soon, to show that there is something to see.
            Kind::Lines(_) if self.has_line => since >= BETWEEN_LINES,
            Kind::Lines(_) | Kind::Picture(_) => since >= SECOND,
        };
        if is_due || is_new {
            self.look(since, live);
            self.has_line |= is_due && matches!(phase, Phase::Load(_));
        }
        match &self.kind {
            Kind::Nothing => {}
            Kind::Lines(notes) => self.line(notes, is_new, is_due, live),
            Kind::Picture(picture) => picture.show(self, live),
        }
    }

    fn look(&mut self, since: Duration, live: &Live) {
        let ended = operations(live);
        let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX).max(1);
        self.per_second = (ended - self.ended).saturating_mul(1000) / millis;
        self.ended = ended;
        self.slowest = live.slowest();
        self.looked = Instant::now();
    }

    fn line(&self, notes: &Notes, is_new: bool, is_due: bool, live: &Live) {
        match self.phase {
            Phase::Load(_) if is_new => notes.say("the load begins"),
            Phase::Load(began) if is_due => {
                let (time, of) = (rough(self.elapsed(began)), duration::show(self.lasting));
                let (counts, pace) = (counts(live), self.pace());
                let now = match live.now() {
                    now if now.is_empty() => String::new(),
                    now => format!("; now: {}", now.join("; ")),
                };
                notes.say(format_args!("{time} of {of}: {counts}, {pace}{now}"));
            }
            Phase::Recovering if is_new => {
                notes.say("the load is over; the faults end, and the servers come back");
            }
            Phase::Counting if is_new => notes.say("what is in the database is counted"),
            Phase::Preparing | Phase::Load(_) | Phase::Recovering | Phase::Counting => {}
        }
    }

    /// What is under way when the time is over may take a while.
    fn elapsed(&self, began: Instant) -> Duration {
        began.elapsed().min(self.lasting)
    }

    fn pace(&self) -> String {
        format!("{} a second, the slowest {}", grouped(self.per_second), rough(self.slowest))
    }

    /// From now on there are lines: the place of the picture is unknown once the terminal has shown the `^C`.
    fn interrupted(&mut self, notes: Notes) {
        if let Kind::Picture(_) = self.kind {
            self.leave();
            self.kind = Kind::Lines(notes);
        }
    }

    /// All is over: the picture goes away, before anything else is printed.
    fn end(self) {
        if let Kind::Picture(picture) = self.kind {
            // If the terminal is gone, there is nothing to clear.
            let _ = picture.all.clear();
            picture.stop();
        }
    }

    /// The picture stays.
    fn leave(&self) {
        if let Kind::Picture(picture) = &self.kind {
            picture.stop();
            // If the terminal is gone, nothing is there to be left.
            let _ = writeln!(io::stderr());
        }
    }
}

/// What is about to be done.
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

/// Four lines: how far it is, what became of the operations, how fast they are, and what fails now.
struct Picture {
    all: MultiProgress,
    paint: Paint,
    bar: ProgressBar,
    counts: ProgressBar,
    pace: ProgressBar,
    now: ProgressBar,
}

/// So many cells are all of the time.
const CELLS: usize = 40;

impl Picture {
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

    fn show(&self, view: &View, live: &Live) {
        let paint = self.paint;
        let (part, text) = match view.phase {
            Phase::Preparing => (0.0, view.phase.name().to_owned()),
            Phase::Load(began) => {
                let elapsed = view.elapsed(began);
                let part = elapsed.as_secs_f64() / view.lasting.as_secs_f64();
                (part, format!("{} of {}", rough(elapsed), duration::show(view.lasting)))
            }
            Phase::Recovering | Phase::Counting => (1.0, view.phase.name().to_owned()),
        };
        let full = full_cells(part);
        let (done, rest) = (paint.good("━".repeat(full)), paint.faint("─".repeat(CELLS - full)));
        self.bar.set_message(format!("{done}{rest}  {text}"));
        self.counts.set_message(counts(live));
        self.pace.set_message(view.pace());
        let now = match live.now() {
            now if now.is_empty() => paint.faint("no fault now"),
            now => format!("{} {}", paint.bad("now:"), now.join("; ")),
        };
        let over = live.incidents.load(Relaxed);
        self.now.set_message(format!("{now} {}", paint.faint(format_args!("({over} are over)"))));
    }

    /// Draws nothing any more; not even lines that are dropped, which are else drawn once more.
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
    fn a_bar_is_empty_at_first_and_full_in_the_end() {
        for (part, full) in
            [(0.0, 0), (0.5, CELLS / 2), (0.999, CELLS - 1), (1.0, CELLS), (1.2, CELLS)]
        {
            assert_eq!(full_cells(part), full, "{part}");
        }
    }
}
