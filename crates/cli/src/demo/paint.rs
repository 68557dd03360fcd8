//! Colours, where they are wanted.

use std::{env, fmt::Display, io::IsTerminal};

use clap::ValueEnum;

/// When there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Colors {
    Auto,
    Always,
    Never,
}

/// Paints text, or leaves it as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    is_on: bool,
}

impl Paint {
    /// For what is written there.
    pub(super) fn new(colors: Colors, to: &impl IsTerminal) -> Self {
        let is_on = match colors {
            Colors::Always => true,
            Colors::Never => false,
            Colors::Auto => to.is_terminal() && is_able() && !is_set("NO_COLOR"),
        };
        Self { is_on }
    }

    pub(super) fn good(self, text: impl Display) -> String {
        self.with("32", text)
    }

    pub(super) fn bad(self, text: impl Display) -> String {
        self.with("31", text)
    }

    pub(super) fn strong(self, text: impl Display) -> String {
        self.with("1", text)
    }

    pub(super) fn faint(self, text: impl Display) -> String {
        self.with("2", text)
    }

    fn with(self, code: &str, text: impl Display) -> String {
        if self.is_on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

/// Whether a terminal does more than to print a line after the other.
pub(super) fn is_able() -> bool {
    env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn is_set(variable: &str) -> bool {
    env::var_os(variable).is_some_and(|value| !value.is_empty())
}
