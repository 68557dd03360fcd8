//! What can go wrong with a counter, and what is known then.

use std::fmt;

use bson::DateTime;

use super::Intent;
use crate::error::{Error, History, Outcome};

/// What an increment comes to.
pub(super) type CounterResult<T> = Result<T, CounterError>;

/// An increment that was not seen through to its end.
///
/// It may well be counted yet: [`known`](Self::known) says. With the [`intent`](Self::intent) it can
/// be finished at any later time; if nobody does, the sweep finishes what has begun.
#[derive(Clone, Debug)]
pub struct CounterError {
    pub(super) intent: Box<Intent>,
    pub(super) step: Step,
    pub(super) known: Known,
    pub(super) cause: Box<Cause>,
}

/// At what it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The call was at fault; nothing was sent.
    Asking,
    /// Making the token pending; the making of the counter's document included.
    One,
    /// Counting the token.
    Two,
    /// Finding out what had become of it, or giving it up.
    Settling,
}

/// What is known of an increment that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is not counted, and by itself never will be. Its intent can be finished, or a new increment
    /// made in its place; not both.
    NeverBegun,
    /// It may be pending, or become so. Then it will be counted, by
    /// [`finish`](super::Counters::finish) or by the sweep; a new increment in its place could count
    /// the same event twice.
    MaybePending,
    /// It is pending: it will be counted, by [`finish`](super::Counters::finish) or by the sweep.
    Pending,
    /// It is counted, or pending.
    MaybeCounted,
}

/// Why an increment failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// An operation failed.
    Failed(Error),
    /// It was too late by the server's clock: the client's is behind by more than the window, or the
    /// increment took longer than that.
    TooLate {
        /// Until when it could have begun: the client's time when it was intended, and the window.
        until: DateTime,
        /// The server's time.
        server: DateTime,
        /// The client's time.
        client: DateTime,
    },
    /// The client's clock is ahead of the server's by more than the window.
    TooEarly {
        /// From when on it can begin: the client's time when it was intended, less the window.
        since: DateTime,
        /// The server's time.
        server: DateTime,
        /// The client's time.
        client: DateTime,
    },
    /// The counter's document changed its state each time it was looked at.
    Unsettled,
}

impl CounterError {
    /// The increment; [`finish`](super::Counters::finish) takes it up where it was left. This one knows
    /// more than one that was stored before.
    pub fn intent(&self) -> &Intent {
        &self.intent
    }

    /// At what it failed.
    pub fn step(&self) -> Step {
        self.step
    }

    /// What is known of it.
    pub fn known(&self) -> Known {
        self.known
    }

    /// Why it failed.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// Whether it was counted, or may yet be: by a sweep, for instance.
    pub fn outcome(&self) -> Outcome {
        match self.known {
            Known::NeverBegun => {
                self.error().map_or(Outcome::NotApplied, Error::outcome).min(Outcome::NotApplied)
            }
            Known::MaybePending | Known::Pending | Known::MaybeCounted => Outcome::MaybeApplied,
        }
    }

    /// The driver's error, if an operation failed. Its [`outcome`](Error::outcome) is that of the last
    /// request alone; for the increment ask [`known`](Self::known) or [`outcome`](Self::outcome).
    pub fn error(&self) -> Option<&Error> {
        match &*self.cause {
            Cause::Failed(error) => Some(error),
            Cause::TooLate { .. } | Cause::TooEarly { .. } | Cause::Unsettled => None,
        }
    }

    /// The driver's error, if an operation failed; else one that carries this
    /// ([`Error::get_custom`]). Its [`outcome`](Error::outcome) is that of the [increment](Self::outcome).
    pub fn into_error(self) -> Error {
        let outcome = self.outcome();
        let error = match *self.cause {
            Cause::Failed(error) => error,
            Cause::TooLate { .. } | Cause::TooEarly { .. } | Cause::Unsettled => {
                Error::custom(self)
            }
        };
        let history = History { outcome, ..History::of(&error) };
        error.with_history(history)
    }
}

impl fmt::Display for CounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { intent, step, known, cause } = self;
        write!(f, "counting {} at {} failed in {step}: {cause}; {known}", intent.by, intent.id)
    }
}

impl std::error::Error for CounterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error().map(|error| error as _)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asking => "asking for it",
            Self::One => "step one",
            Self::Two => "step two",
            Self::Settling => "finding out what had become of it",
        })
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NeverBegun => "it is not counted and, by itself, never will be",
            Self::MaybePending => "it may be pending and will then be counted",
            Self::Pending => "it is pending and will be counted",
            Self::MaybeCounted => "it is counted, or pending and will be counted",
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "{error}"),
            Self::TooLate { until, server, client } => write!(
                f,
                "it could begin until {until} and it is {server} at the server ({client} here): \
                 this clock is behind by more than the window, or it took too long"
            ),
            Self::TooEarly { since, server, client } => write!(
                f,
                "it can begin from {since} on and it is {server} at the server ({client} here): \
                 this clock is ahead by more than the window"
            ),
            Self::Unsettled => f.write_str("the counter changed each time it was looked at"),
        }
    }
}
