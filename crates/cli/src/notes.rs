//! What a command says beside its results: on standard error, each line with the command's name before it.
//!
//! Results go to standard output: text for people, or with `--json` documents for programs.

use std::{
    error::Error,
    fmt::{self, Display},
    io::{self, Write},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Says things in the name of a command, or keeps quiet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notes {
    command: &'static str,
    quiet: bool,
}

impl Notes {
    /// Notes of `steadfast <command>`. With `--quiet` there are none but [`warn`](Self::warn)ings.
    pub(crate) fn of(command: &'static str, quiet: bool) -> Self {
        Self { command, quiet }
    }

    pub(crate) fn command(&self) -> &'static str {
        self.command
    }

    /// Good to know.
    pub(crate) fn say(&self, what: impl Display) {
        if !self.quiet {
            self.warn(what);
        }
    }

    /// What must be known; `--quiet` does not silence it.
    pub(crate) fn warn(&self, what: impl Display) {
        // Nothing is left to report to if this fails.
        let _ = writeln!(io::stderr(), "steadfast {}: {what}", self.command);
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

    /// The same for a work whose length is known, in bytes: with the time that is left.
    pub(crate) fn progress_of_bytes(&self, total: u64) -> ProgressBar {
        let bar = self.progress("");
        bar.set_length(total);
        bar.set_style(style(
            "steadfast {prefix}: [{bar:30}] {percent}%  {msg}, {binary_bytes_per_sec}, {eta} left",
        ));
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

/// So many of something, in words.
pub(crate) fn plural(number: u64, one: &str, several: &str) -> String {
    match number {
        0 => format!("no {several}"),
        1 => format!("1 {one}"),
        more => format!("{more} {several}"),
    }
}

/// Prints a result for people.
pub(crate) fn print(text: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Prints a result for programs: one document on a line.
pub(crate) fn print_json(document: &serde_json::Value) -> io::Result<()> {
    print(document)
}
