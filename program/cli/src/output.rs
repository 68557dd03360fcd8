//! Output of a command: text or JSON, with or without colours and notes.

use std::{
    fmt::Display,
    io::{self, IsTerminal},
};

use clap::Args;
use serde_json::Value;

use crate::{
    context::{CommandResult, error_value},
    notes::{self, Notes, WrongArguments},
    paint::{Colors, Paint},
};

/// Options of all commands that have a result.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Print no notes, only the result and errors
    #[arg(long)]
    pub(crate) quiet: bool,

    // The program has the same option for help and errors without a command; clap passes its value to this one.
    /// Use colours; `auto`: on a terminal, unless the variable NO_COLOR is set
    #[arg(long, value_name = "WHEN", default_value = "auto", value_enum)]
    pub(crate) color: Colors,
}

impl Output {
    /// Returns the notes of a command.
    pub(crate) fn notes(&self, command: &'static str) -> Notes {
        Notes::of(command, self.quiet).painted(self.paint(&io::stderr()))
    }

    /// Returns the colours for a stream.
    pub(crate) fn paint(&self, to: &impl IsTerminal) -> Paint {
        Paint::new(self.color, to)
    }

    /// Prints a result and returns its verdict.
    pub(crate) fn conclude(
        &self,
        text: impl Display,
        document: Value,
        verdict: CommandResult,
    ) -> CommandResult {
        self.print(text, document, &verdict)?;
        verdict
    }

    /// Prints a result as text, or as a document with the error of the verdict in `error`. Prints nothing for
    /// [`WrongArguments`].
    pub(crate) fn print(
        &self,
        text: impl Display,
        mut document: Value,
        verdict: &CommandResult,
    ) -> io::Result<()> {
        let error = verdict.as_ref().err();
        if error.is_some_and(|error| error.is::<WrongArguments>()) {
            return Ok(());
        }
        if !self.json {
            return notes::print(text);
        }
        document["error"] = error.map_or(Value::Null, |error| error_value(&**error));
        notes::print_json(&document)
    }
}
