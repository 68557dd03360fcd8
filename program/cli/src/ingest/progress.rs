//! Progress of a run: a bar on a terminal, otherwise a line every 30 seconds.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

use indicatif::{HumanBytes, HumanCount, HumanFloatCount, ProgressBar, ProgressStyle};

use super::report::IngestOutcome;
use crate::{duration, notes::Notes, paint::Paint};

/// Interval between lines without a terminal.
const EVERY: Duration = Duration::from_secs(30);

/// Moves the cursor left from the end of the line, where a terminal writes `^C`. Without this, `^C` would begin
/// another line, and the bar would stay.
const STEP_BACK: &str = "\x1b[4D";

/// Shows the progress on standard error.
pub(super) struct Progress {
    bar: ProgressBar,
    notes: Notes,
    paint: Paint,
    /// Bytes of all sources, if known.
    total: Option<u64>,
    began: Instant,
    /// Bytes ingested before this run.
    before: u64,
    last_line: Instant,
}

impl Progress {
    /// Starts the display. `total` is the number of bytes if known, and `before` those of earlier runs.
    pub(super) fn begin(notes: Notes, paint: Paint, total: Option<u64>, before: u64) -> Self {
        let bar = notes.progress("");
        let (template, drawn) = match total {
            Some(_) => ("{percent:>3}% {wide_bar} {msg}", "━╸ "),
            // The length of a stream is unknown.
            None => ("{spinner} {msg}{wide_bar}", "   "),
        };
        let style = ProgressStyle::with_template(&format!("{template}{STEP_BACK}"));
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars(drawn));
        if let Some(total) = total {
            bar.set_length(total);
        }
        bar.set_position(before);
        bar.reset_eta();
        bar.enable_steady_tick(Duration::from_millis(200));
        let now = Instant::now();
        Self { bar, notes, paint, total, began: now, before, last_line: now }
    }

    /// Adds ingested bytes.
    pub(super) fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// Updates the display.
    pub(super) fn show(&mut self, outcome: &IngestOutcome) {
        let state = self.state(outcome);
        if self.bar.is_hidden() {
            if self.last_line.elapsed() >= EVERY {
                self.last_line = Instant::now();
                self.notes.info(state.line());
            }
            return;
        }
        let mut text = state.to_string();
        if state.rejected > 0 {
            text.push_str(", ");
            text.push_str(&self.paint.bad(state.rejections()));
        }
        self.bar.set_message(text);
    }

    fn state(&self, outcome: &IngestOutcome) -> ProgressState {
        let done = self.bar.position();
        let here = done.saturating_sub(self.before);
        // The bar measures the recent rate, and nothing without a terminal.
        let bytes_per_second = if self.bar.is_hidden() {
            here as f64 / self.began.elapsed().as_secs_f64().max(0.001)
        } else {
            self.bar.per_sec()
        };
        ProgressState {
            done,
            total: self.total,
            records: outcome.records,
            rejected: outcome.rejected,
            per_second: bytes_per_second * outcome.records as f64 / (here.max(1) as f64),
            bytes_per_second,
        }
    }

    /// Prints a warning while the bar is hidden.
    pub(super) fn warn(&self, what: impl Display) {
        self.bar.suspend(|| self.notes.warn(what));
    }

    pub(super) fn info(&self, what: impl Display) {
        self.bar.suspend(|| self.notes.info(what));
    }

    /// Returns the bar, which is hidden while other messages are printed.
    pub(super) fn bar(&self) -> &ProgressBar {
        &self.bar
    }

    /// Removes the bar.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// State of a run.
#[derive(Clone, Copy, Debug)]
struct ProgressState {
    /// Bytes ingested.
    done: u64,
    total: Option<u64>,
    records: u64,
    rejected: u64,
    /// Records per second.
    per_second: f64,
    bytes_per_second: f64,
}

impl ProgressState {
    /// Returns the remaining time, or `None` if it is unknown or there is no progress.
    fn left(&self) -> Option<Duration> {
        let left = self.total?.saturating_sub(self.done) as f64 / self.bytes_per_second;
        Duration::try_from_secs_f64(left.ceil()).ok().filter(|left| *left < MOST)
    }

    fn rejections(&self) -> String {
        format!("{} rejected", HumanCount(self.rejected))
    }

    /// Formats the state as a line of a log.
    fn line(&self) -> String {
        let percent = self.total.map(|total| self.done.saturating_mul(100) / total.max(1));
        let percent = percent.map(|percent| format!("{percent}%, ")).unwrap_or_default();
        format!("{percent}{self}, {}", self.rejections())
    }
}

/// Longest remaining time that is shown: a hundred days.
const MOST: Duration = Duration::from_secs(8_640_000);

impl Display for ProgressState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let per_second = HumanFloatCount(self.per_second.round());
        write!(f, "{} records, {per_second:.0}/s", HumanCount(self.records))?;
        match (self.total, self.left()) {
            (Some(_), Some(left)) => write!(f, ", {} left", duration::show(left)),
            (Some(_), None) => Ok(()),
            (None, _) => write!(f, ", {}", HumanBytes(self.done)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: ProgressState = ProgressState {
        done: 25_000,
        total: Some(100_000),
        records: 1_250,
        rejected: 3,
        per_second: 500.0,
        bytes_per_second: 1_000.0,
    };

    #[test]
    fn line_has_rate_remaining_time_and_rejects() {
        assert_eq!(STATE.line(), "25%, 1,250 records, 500/s, 1m15s left, 3 rejected");
    }

    #[test]
    fn stream_has_no_remaining_time() {
        let stream = ProgressState { total: None, rejected: 0, ..STATE };
        assert_eq!(stream.line(), "1,250 records, 500/s, 24.41 KiB, 0 rejected");
    }

    #[test]
    fn stalled_run_has_no_remaining_time() {
        let stalled = ProgressState { per_second: 0.0, bytes_per_second: 0.0, ..STATE };
        assert_eq!(stalled.to_string(), "1,250 records, 0/s");
        let over = ProgressState { done: 100_001, ..STATE };
        assert_eq!(over.to_string(), "1,250 records, 500/s, 0s left");
    }
}
