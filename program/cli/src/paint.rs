//! Colours of the output.

use std::{env, ffi::OsString, fmt::Display, io::IsTerminal};

use anstyle::{AnsiColor, Style};
use clap::{ColorChoice, ValueEnum};
use steadfast_chaos::Styles;

/// Value of `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colors {
    Auto,
    Always,
    Never,
}

impl Colors {
    /// Finds `--color` before the arguments are parsed: help and argument errors have colours, too.
    pub(crate) fn find_in(arguments: impl IntoIterator<Item = OsString>) -> Self {
        let mut found = Self::Auto;
        let mut arguments = arguments.into_iter().map_while(|it| it.into_string().ok());
        while let Some(argument) = arguments.next() {
            let when = match argument.split_once('=') {
                _ if argument == "--" => break,
                Some(("--color", when)) => Some(when.to_owned()),
                None if argument == "--color" => arguments.next(),
                Some(_) | None => None,
            };
            found = when.and_then(|it| Self::from_str(&it, false).ok()).unwrap_or(found);
        }
        found
    }
}

impl From<Colors> for ColorChoice {
    fn from(colors: Colors) -> Self {
        match colors {
            // By default, clap uses colours on any terminal if the variable CI is set.
            Colors::Auto if !is_able() => Self::Never,
            Colors::Auto => Self::Auto,
            Colors::Always => Self::Always,
            Colors::Never => Self::Never,
        }
    }
}

/// Styles of text, or plain text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paint {
    good: Style,
    bad: Style,
    doubtful: Style,
    strong: Style,
    faint: Style,
}

impl Paint {
    /// Returns the styles for a stream.
    pub(crate) fn new(colors: Colors, to: &impl IsTerminal) -> Self {
        let is_on = match colors {
            Colors::Always => true,
            Colors::Never => false,
            Colors::Auto => to.is_terminal() && is_able() && !is_set("NO_COLOR"),
        };
        if !is_on {
            return Self::default();
        }
        Self {
            good: AnsiColor::Green.on_default(),
            bad: AnsiColor::Red.on_default(),
            doubtful: AnsiColor::Yellow.on_default(),
            strong: Style::new().bold(),
            faint: Style::new().dimmed(),
        }
    }

    pub(crate) fn good(self, text: impl Display) -> String {
        styled(self.good, text)
    }

    pub(crate) fn bad(self, text: impl Display) -> String {
        styled(self.bad, text)
    }

    pub(crate) fn doubtful(self, text: impl Display) -> String {
        styled(self.doubtful, text)
    }

    pub(crate) fn strong(self, text: impl Display) -> String {
        styled(self.strong, text)
    }

    pub(crate) fn faint(self, text: impl Display) -> String {
        styled(self.faint, text)
    }

    /// Returns the styles of the summary of a chaos run.
    pub(crate) fn styles(self) -> Styles {
        let mut styles = Styles::default();
        (styles.good, styles.bad, styles.strong) = (self.good, self.bad, self.strong);
        styles
    }
}

fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Returns `true` if terminals support more than plain lines.
pub(crate) fn is_able() -> bool {
    env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn is_set(variable: &str) -> bool {
    env::var_os(variable).is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn color_option_is_found_before_a_double_dash() {
        for (line, expected) in [
            ("", Colors::Auto),
            ("--color never sweep", Colors::Never),
            ("sweep --color=always --help", Colors::Always),
            ("sweep --color", Colors::Auto),
            ("sweep --color sometimes", Colors::Auto),
            ("ingest -- --color=always", Colors::Auto),
        ] {
            let arguments = line.split_whitespace().map(OsString::from);
            assert_eq!(Colors::find_in(arguments), expected, "{line}");
        }
    }
}
