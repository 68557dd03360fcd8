//! Messages of a command on standard error, each with the name of the command.
//!
//! Results go to standard output: text, or documents with `--json`.

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

/// Prints messages of a command on standard error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notes {
    command: &'static str,
    quiet: bool,
    paint: Paint,
}

impl Notes {
    /// Returns the notes of `steadfast <command>`. `quiet` suppresses [`info`](Self::info).
    pub(crate) fn of(command: &'static str, quiet: bool) -> Self {
        Self { command, quiet, paint: Paint::default() }
    }

    /// Sets the colours.
    pub(crate) fn painted(self, paint: Paint) -> Self {
        Self { paint, ..self }
    }

    pub(crate) fn command(&self) -> &'static str {
        self.command
    }

    /// Prints a message, unless `--quiet` is set.
    pub(crate) fn info(&self, what: impl Display) {
        if !self.quiet {
            self.write(self.paint.faint(self.name()), what);
        }
    }

    /// Prints a warning, also with `--quiet`.
    pub(crate) fn warn(&self, what: impl Display) {
        self.write(self.paint.doubtful(self.name()), what);
    }

    /// Prints the error of the command.
    pub(crate) fn error(&self, why: impl Display) {
        self.write(self.paint.bad(self.name()), why);
    }

    fn name(&self) -> String {
        format!("steadfast {}:", self.command)
    }

    fn write(&self, name: String, what: impl Display) {
        // There is no other place to report a failure of standard error.
        let _ = writeln!(io::stderr(), "{name} {what}");
    }

    /// Returns a progress bar, which is visible if standard error is a terminal. While it is visible, messages are
    /// printed within [`ProgressBar::suspend`].
    pub(crate) fn progress(&self, what: &str) -> ProgressBar {
        let target =
            if self.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target).with_message(what.to_owned());
        bar.set_style(style("{spinner} steadfast {prefix}: {msg} {human_pos} ({elapsed})"));
        bar.set_prefix(self.command);
        bar
    }

    /// Returns a progress bar of known length, with the remaining time.
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

/// Error for invalid or contradictory arguments, or invalid input files: exit status 2. Other errors are exit status 1.
#[derive(Debug)]
pub(crate) struct WrongArguments(pub(crate) String);

impl Display for WrongArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for WrongArguments {}

/// Prints a result as text.
pub(crate) fn print(text: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return io::Error::new(error.kind(), BrokenPipe);
        }
        io::Error::new(error.kind(), format!("the result could not be printed: {error}"))
    })
}

/// Prints text on standard error.
pub(crate) fn print_to_stderr(text: impl Display) {
    // There is no other place to report a failure of standard error.
    let _ = write!(io::stderr(), "{text}");
}

/// Prints a result as a JSON document on one line.
pub(crate) fn print_json(document: &serde_json::Value) -> io::Result<()> {
    JSON_PRINTED.store(true, Ordering::Relaxed);
    print(document)
}

/// `true` after a JSON document was printed.
static JSON_PRINTED: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_json_printed() -> bool {
    JSON_PRINTED.load(Ordering::Relaxed)
}

/// The reader of standard output has closed the pipe, as `head` does. This is not reported.
#[derive(Debug)]
pub(crate) struct BrokenPipe;

impl Display for BrokenPipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output was closed")
    }
}

impl Error for BrokenPipe {}

/// Returns `true` if a command failed because its reader closed standard output.
pub(crate) fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    error.is_some_and(|it| it.is::<BrokenPipe>())
}
