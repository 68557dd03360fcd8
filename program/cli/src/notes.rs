//! What a command says beside its results: on standard error, each line with the command's name before it.
//!
//! Results go to standard output: text for people, or with `--json` documents for programs.

use std::{
    error::Error,
    fmt::{self, Display},
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

pub(crate) use steadfast_report::words::plural;

use crate::paint::Paint;

/// Says things in the name of a command, or keeps quiet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notes {
    command: &'static str,
    quiet: bool,
    paint: Paint,
}

impl Notes {
    /// Notes of `steadfast <command>`. With `--quiet` there are none but [`warn`](Self::warn)ings.
    pub(crate) fn of(command: &'static str, quiet: bool) -> Self {
        Self { command, quiet, paint: Paint::default() }
    }

    /// The same in colours.
    pub(crate) fn painted(self, paint: Paint) -> Self {
        Self { paint, ..self }
    }

    pub(crate) fn command(&self) -> &'static str {
        self.command
    }

    /// Good to know.
    pub(crate) fn say(&self, what: impl Display) {
        if !self.quiet {
            self.write(self.paint.faint(self.name()), what);
        }
    }

    /// What must be known; `--quiet` does not silence it.
    pub(crate) fn warn(&self, what: impl Display) {
        self.write(self.paint.doubtful(self.name()), what);
    }

    /// Why the command failed.
    pub(crate) fn fail(&self, why: impl Display) {
        self.write(self.paint.bad(self.name()), why);
    }

    fn name(&self) -> String {
        format!("steadfast {}:", self.command)
    }

    fn write(&self, name: String, what: impl Display) {
        // Nothing is left to report to if this fails.
        let _ = writeln!(io::stderr(), "{name} {what}");
    }

    /// Shows how far a long work is, if standard error is a terminal. While it is there, notes are said
    /// through [`ProgressBar::suspend`].
    pub(crate) fn progress(&self, what: &str) -> ProgressBar {
        let target =
            if self.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target).with_message(what.to_owned());
        bar.set_style(style("{spinner} steadfast {prefix}: {msg} {human_pos} ({elapsed})"));
        bar.set_prefix(self.command);
        bar
    }

    /// The same for a work whose length is known: with the time that is left.
    pub(crate) fn progress_of(&self, total: u64, what: &str) -> ProgressBar {
        let bar = self.progress(what);
        bar.set_length(total);
        bar.set_style(style(
            "steadfast {prefix}: [{bar:20}] {human_pos} of {human_len} {msg}, {eta} left",
        ));
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// Arguments that contradict each other or what they are about: exit status 2, as for those that cannot
/// be read at all. All other failures are 1.
#[derive(Debug)]
pub(crate) struct WrongArguments(pub(crate) String);

impl Display for WrongArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for WrongArguments {}

/// Prints a result for people.
pub(crate) fn print(text: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return io::Error::new(error.kind(), NobodyReads);
        }
        io::Error::new(error.kind(), format!("the result could not be printed: {error}"))
    })
}

/// Prints what belongs to no result, on standard error.
pub(crate) fn print_aside(text: impl Display) {
    // Nothing is left to report to if this fails.
    let _ = write!(io::stderr(), "{text}");
}

/// Prints a result for programs: one document on a line.
pub(crate) fn print_json(document: &serde_json::Value) -> io::Result<()> {
    IS_TOLD.store(true, Ordering::Relaxed);
    print(document)
}

/// Whether programs have been told anything. (There is one standard output.)
static IS_TOLD: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_told() -> bool {
    IS_TOLD.load(Ordering::Relaxed)
}

/// Whoever read the results has ended, as `head` does: that is no mistake, and there is nobody to tell.
#[derive(Debug)]
pub(crate) struct NobodyReads;

impl Display for NobodyReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads the result")
    }
}

impl Error for NobodyReads {}

/// Whether a command ended because nobody reads its results.
pub(crate) fn is_unread(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    error.is_some_and(|it| it.is::<NobodyReads>())
}
