//! What the driver's loop is told to do.

use std::time::Duration;

use super::Outcome;

/// What to make of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Verdict {
    /// Whether the driver puts [`RETRYABLE_WRITE_ERROR`](super::RETRYABLE_WRITE_ERROR) on this error.
    pub add_retryable_write_label: bool,
    /// Whether it is for want of a token that the command is not tried again.
    pub refused_by_budget: bool,
    /// How to go on.
    pub next: Next,
}

/// How to go on after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// Select a server again, and send the command again with the same transaction id.
    Retry {
        /// How long to wait before; zero unless a server sheds load.
        wait: Duration,
    },
    /// Raise an error.
    GiveUp(GiveUp),
}

/// The end of a command that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct GiveUp {
    /// Which error a caller gets.
    pub raise: Raise,
    /// What became of the write, over all attempts.
    pub outcome: Outcome,
    /// What the error is to say instead of the server's words.
    pub message: Option<&'static str>,
}

/// Which error a caller gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raise {
    /// That no server could be selected: there was no attempt.
    Selection,
    /// That of the attempt with this index; the first failure told to
    /// [`on_failure`](super::Retry::on_failure) is 0.
    Attempt(usize),
}

/// By what the server is to recognise the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum TransactionId {
    /// By nothing that is added here: send no `txnNumber` of the driver's own.
    None,
    /// By a number that the session has not used: advance it. This is the first sending.
    New,
    /// By the very number of the sendings before.
    Same,
}
