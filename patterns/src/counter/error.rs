//! Errors of counters, and the state of the increment.

use std::fmt;

use bson::DateTime;

use super::Intent;
use steadfast::error::{Error, Outcome};

/// Result of an increment.
pub(super) type CounterResult<T> = Result<T, CounterError>;

/// Error of an increment that did not complete.
///
/// The event may still be counted: see [`state`](Self::state). [`Counters::finish`](super::Counters::finish)
/// completes the [`intent`](Self::intent) at any later time; otherwise the sweep completes it if it has begun.
#[derive(Clone, Debug)]
pub struct CounterError {
    pub(super) intent: Box<Intent>,
    pub(super) step: IncrementStep,
    pub(super) state: IncrementState,
    pub(super) cause: Box<CounterErrorCause>,
}

/// Step of an increment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IncrementStep {
    /// Validation of the arguments; nothing was sent.
    Validation,
    /// Step one, which adds the token to `pending`; includes the insertion of the counter's document.
    One,
    /// Step two, which counts the token.
    Two,
    /// Read of the token's state, or giving it up.
    Lookup,
}

/// State of an increment that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncrementState {
    /// The event is not counted, and will not be. Either finish the intent, or make a new increment in its
    /// place; not both.
    NeverBegun,
    /// The token may be pending, or become so. Then [`finish`](super::Counters::finish) or the sweep counts it;
    /// a new increment in its place could count the event twice.
    MaybePending,
    /// The token is pending: [`finish`](super::Counters::finish) or the sweep counts it.
    Pending,
    /// The event is counted, or its token is pending.
    MaybeCounted,
}

/// Cause of a [`CounterError`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CounterErrorCause {
    /// An operation of the driver failed.
    Failed(Error),
    /// The time window had passed by the server's clock: the client's clock is behind by more than the window,
    /// or the increment took longer than that.
    TooLate {
        /// End of the time window: the client's time when the increment was intended, plus the window.
        until: DateTime,
        /// Time of the server.
        server: DateTime,
        /// Time of the client.
        client: DateTime,
    },
    /// The client's clock is ahead of the server's by more than the window.
    TooEarly {
        /// Start of the time window: the client's time when the increment was intended, minus the window.
        since: DateTime,
        /// Time of the server.
        server: DateTime,
        /// Time of the client.
        client: DateTime,
    },
    /// The state of the token changed with each read.
    Contended,
}

impl CounterError {
    /// Returns the intent of the increment, for [`finish`](super::Counters::finish). It has the latest state,
    /// so use it rather than a copy that was stored before.
    pub fn intent(&self) -> &Intent {
        &self.intent
    }

    /// Returns the step that failed.
    pub fn step(&self) -> IncrementStep {
        self.step
    }

    /// Returns the state of the increment.
    pub fn state(&self) -> IncrementState {
        self.state
    }

    /// Returns the cause.
    pub fn cause(&self) -> &CounterErrorCause {
        &self.cause
    }

    /// Returns whether the event was counted, or may be later, by a sweep for example.
    pub fn outcome(&self) -> Outcome {
        match self.state {
            IncrementState::NeverBegun => {
                self.error().map_or(Outcome::NotApplied, Error::outcome).min(Outcome::NotApplied)
            }
            IncrementState::MaybePending
            | IncrementState::Pending
            | IncrementState::MaybeCounted => Outcome::MaybeApplied,
        }
    }

    /// Returns the driver's error, if an operation failed. Its [`outcome`](Error::outcome) is that of the last
    /// request alone; for the increment see [`state`](Self::state) or [`outcome`](Self::outcome).
    pub fn error(&self) -> Option<&Error> {
        match &*self.cause {
            CounterErrorCause::Failed(error) => Some(error),
            CounterErrorCause::TooLate { .. }
            | CounterErrorCause::TooEarly { .. }
            | CounterErrorCause::Contended => None,
        }
    }

    /// Converts to the driver's error, if an operation failed; otherwise to one that holds this error
    /// ([`Error::get_custom`]). Its [`outcome`](Error::outcome) is that of the [increment](Self::outcome).
    pub fn into_error(self) -> Error {
        let outcome = self.outcome();
        let error = match *self.cause {
            CounterErrorCause::Failed(error) => error,
            CounterErrorCause::TooLate { .. }
            | CounterErrorCause::TooEarly { .. }
            | CounterErrorCause::Contended => Error::custom(self),
        };
        error.with_outcome(outcome)
    }
}

impl fmt::Display for CounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { intent, step, state, cause } = self;
        write!(
            f,
            "increment of counter {} by {} failed in {step}: {cause}; {state}",
            intent.id, intent.by
        )
    }
}

impl std::error::Error for CounterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error().map(|error| error as _)
    }
}

impl fmt::Display for IncrementStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Validation => "validation",
            Self::One => "step one",
            Self::Two => "step two",
            Self::Lookup => "reading the state of its token",
        })
    }
}

impl fmt::Display for IncrementState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NeverBegun => "it is not counted, and will not be unless it is finished",
            Self::MaybePending => "it may be pending and will then be counted",
            Self::Pending => "it is pending and will be counted",
            Self::MaybeCounted => "it is counted, or pending and will be counted",
        })
    }
}

impl fmt::Display for CounterErrorCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "{error}"),
            Self::TooLate { until, server, client } => write!(
                f,
                "it could begin until {until}, and the server's clock shows {server} (the client's {client}): \
                 the client's clock is behind by more than the window, or the increment took too long"
            ),
            Self::TooEarly { since, server, client } => write!(
                f,
                "it can begin from {since} on, and the server's clock shows {server} (the client's {client}): \
                 the client's clock is ahead by more than the window"
            ),
            Self::Contended => f.write_str("the state of the token changed at each read"),
        }
    }
}
