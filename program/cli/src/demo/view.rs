//! Progress of the demo: bars on a terminal, lines elsewhere.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{
    plan::{DemoFault, Event, Plan},
    table::{colored_miscount, in_color},
    tally::{Tallies, Tally},
};
use crate::{
    notes::Notes,
    output::Output,
    paint::{Paint, is_able},
};

/// Shows the progress on standard error.
pub(super) struct DemoProgress {
    display: DemoDisplay,
    fault: Option<DemoFault>,
}

enum DemoDisplay {
    Nothing,
    Lines(Notes, [(u64, u64); DemoFault::ALL.len()]),
    Terminal(Box<DemoTerminal>),
}

impl DemoProgress {
    pub(super) fn new(notes: Notes, output: Output, plan: &Plan) -> Self {
        let display = if output.quiet {
            DemoDisplay::Nothing
        } else if io::stderr().is_terminal() && is_able() {
            DemoDisplay::Terminal(Box::new(DemoTerminal::new(output.paint(&io::stderr()), plan)))
        } else {
            let events = plan.events().count();
            notes.info(format_args!(
                "five applications count {events} events each, on three servers"
            ));
            DemoDisplay::Lines(notes, DemoFault::ALL.map(|fault| plan.of(fault)))
        };
        Self { display, fault: None }
    }

    /// Shows the fault of an event, if it differs from that of the previous one.
    pub(super) fn show_fault(&mut self, event: &Event) {
        if self.fault == Some(event.fault) {
            return;
        }
        self.fault = Some(event.fault);
        let (number, now) = (event.fault.index() + 1, event.fault.description());
        match &self.display {
            DemoDisplay::Nothing => {}
            DemoDisplay::Lines(notes, plan) => {
                let (events, hits) = plan[event.fault.index()];
                notes.info(format_args!("{number}/4 {now} ({hits} of {events} events)"));
            }
            DemoDisplay::Terminal(terminal) => {
                terminal.now.set_message(format!("{number}/4 {now}"));
            }
        }
    }

    /// Shows the results so far.
    pub(super) fn update(&self, tallies: &Tallies) {
        if let DemoDisplay::Terminal(terminal) = &self.display {
            terminal.update(tallies);
        }
    }

    /// Removes the bars before the result is printed.
    pub(super) fn end(self) {
        if let DemoDisplay::Terminal(terminal) = self.display {
            // If the terminal is gone, there is nothing to clear.
            let _ = terminal.all.clear();
            terminal.stop();
        }
    }

    /// Leaves the bars after an interruption: their position is unknown once the terminal has shown the `^C`.
    pub(super) fn leave(self) {
        if let DemoDisplay::Terminal(terminal) = self.display {
            terminal.stop();
            let _ = writeln!(io::stderr());
        }
    }
}

/// A line for the current fault, and one for each application.
struct DemoTerminal {
    all: MultiProgress,
    paint: Paint,
    events: u64,
    title: ProgressBar,
    now: ProgressBar,
    /// Lines that do not change. Dropping them would remove them from the screen.
    _heading: [ProgressBar; 2],
    rows: Vec<ProgressBar>,
}

/// Cells of a full bar.
const CELLS: u64 = 22;
/// Further cells for events that were counted too often.
const BEYOND: u64 = 2;

impl DemoTerminal {
    fn new(paint: Paint, plan: &Plan) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let events = plan.events().count() as u64;
        let line = |template: &str, text: String| {
            let style = ProgressStyle::with_template(template);
            let bar = all.add(ProgressBar::new_spinner());
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.set_message(text);
            bar
        };
        let title = line("{wide_msg}", title(paint, 0, events));
        let now = line(
            "{spinner} {wide_msg}",
            "starting three servers and a proxy in front of them".to_owned(),
        );
        let wide = usize::try_from(CELLS + BEYOND).unwrap_or_default();
        let columns = format!("{:18}{:wide$}{:>8}{:>6}{:>7}", "", "", "counted", "sent", "errors");
        let heading =
            [line("{wide_msg}", " ".to_owned()), line("{wide_msg}", paint.faint(columns))];
        let tallies = Tallies::new();
        let row = |tally| line("{wide_msg}", row(paint, events, tally));
        let rows = tallies.iter().map(row).collect();
        now.enable_steady_tick(Duration::from_millis(120));
        Self { all, paint, events, title, now, _heading: heading, rows }
    }

    fn update(&self, tallies: &Tallies) {
        self.title.set_message(title(self.paint, tallies.done(), self.events));
        for (line, tally) in self.rows.iter().zip(tallies.iter()) {
            line.set_message(row(self.paint, self.events, tally));
        }
    }

    /// Stops drawing. Dropped lines would be drawn again otherwise.
    fn stop(&self) {
        self.now.disable_steady_tick();
        self.all.set_draw_target(ProgressDrawTarget::hidden());
    }
}

fn title(paint: Paint, done: u64, events: u64) -> String {
    let title = paint.strong("Five applications count the same events, on three servers.");
    format!("{title} {}", paint.faint(format_args!("{done} of {events}")))
}

fn row(paint: Paint, events: u64, tally: &Tally) -> String {
    let miscount = tally.miscount();
    let (full, empty, beyond) = cells(tally.counted(), events);
    let bar = in_color(paint, miscount, "━".repeat(full));
    let (rest, margin) = (paint.faint("─".repeat(empty)), " ".repeat(beyond));
    let counted = in_color(paint, miscount, format!("{:>8}", tally.counted()));
    let miscount = colored_miscount(paint, miscount);
    let (sent, errors) = (tally.sent, tally.errors);
    format!("{:<16}  {bar}{rest}{margin}{counted}{sent:>6}{errors:>7}  {miscount}", tally.strategy)
}

/// Returns the number of full cells, of empty ones, and of free ones beyond a full bar.
fn cells(counted: u64, events: u64) -> (usize, usize, usize) {
    let most = CELLS + BEYOND;
    let part = counted * CELLS;
    let full = if counted > events { part.div_ceil(events) } else { part / events };
    let full = full.min(most);
    let empty = CELLS.saturating_sub(full);
    let size = |cells: u64| usize::try_from(cells).unwrap_or_default();
    (size(full), size(empty), size(most - full - empty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_is_full_if_all_events_are_counted_and_longer_with_more() {
        assert_eq!(cells(0, 200), (0, 22, 2));
        assert_eq!(cells(199, 200), (21, 1, 2));
        assert_eq!(cells(200, 200), (22, 0, 2));
        assert_eq!(cells(201, 200), (23, 0, 1));
        assert_eq!(cells(400, 200), (24, 0, 0));
    }
}
