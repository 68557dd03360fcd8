//! How a command speaks: for people or for programs, with colours or without, much or little.

use std::{
    fmt::Display,
    io::{self, IsTerminal},
};

use clap::Args;
use serde_json::Value;

use crate::{
    errand::{Done, failure},
    notes::{self, Notes, WrongArguments},
    paint::{Colors, Paint},
};

/// The options that all commands with a result have.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Print no notes, only the result and what went wrong
    #[arg(long)]
    pub(crate) quiet: bool,

    // The program has it as well, for help and for errors before there is a command; clap hands it on to this one.
    /// Whether to use colours; `auto`: on a terminal, unless the variable NO_COLOR is set
    #[arg(long, value_name = "WHEN", default_value = "auto", value_enum)]
    pub(crate) color: Colors,
}

impl Output {
    /// The notes of a command.
    pub(crate) fn notes(&self, command: &'static str) -> Notes {
        Notes::of(command, self.quiet).painted(self.paint(&io::stderr()))
    }

    /// Colours for what is written there.
    pub(crate) fn paint(&self, to: &impl IsTerminal) -> Paint {
        Paint::new(self.color, to)
    }

    /// Prints a result, and ends with the verdict on it.
    pub(crate) fn conclude(&self, text: impl Display, document: Value, verdict: Done) -> Done {
        self.print(text, document, &verdict)?;
        verdict
    }

    /// Prints a result, as text or as a document whose `error` says what is wrong with it, if something is. Where
    /// the arguments were wrong there is no result.
    pub(crate) fn print(
        &self,
        text: impl Display,
        mut document: Value,
        verdict: &Done,
    ) -> io::Result<()> {
        let error = verdict.as_ref().err();
        if error.is_some_and(|error| error.is::<WrongArguments>()) {
            return Ok(());
        }
        if !self.json {
            return notes::print(text);
        }
        document["error"] = error.map_or(Value::Null, |error| failure(&**error));
        notes::print_json(&document)
    }
}
