//! Decisions returned to the driver's retry loop.

use std::time::Duration;

use super::Outcome;

/// Decision after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct RetryVerdict {
    /// The driver adds the label [`RETRYABLE_WRITE_ERROR`](super::RETRYABLE_WRITE_ERROR) to this
    /// error.
    pub add_retryable_write_label: bool,
    /// There is no retry because the [`RetryBudget`](super::RetryBudget) has no token.
    pub budget_exhausted: bool,
    /// The next step.
    pub next: NextStep,
}

/// Next step after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum NextStep {
    /// Select a server and send the command again, with the same `txnNumber`.
    Retry {
        /// Backoff before the retry. Zero for an immediate retry.
        wait: Duration,
    },
    /// Raise an error.
    GiveUp(GiveUp),
}

/// End of a command that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct GiveUp {
    /// The error to raise.
    pub raise: RaisedError,
    /// Outcome of the write over all attempts.
    pub outcome: Outcome,
    /// Message that replaces the server's.
    pub message: Option<&'static str>,
}

/// The error to raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaisedError {
    /// The error of server selection: there was no attempt.
    Selection,
    /// The error of the attempt with this index. The first failure given to
    /// [`on_failure`](super::Retry::on_failure) is 0.
    Attempt(usize),
}

/// The `txnNumber` of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum TxnNumber {
    /// Add no `txnNumber`.
    Omit,
    /// Increment the session's `txnNumber` and add it: this is the first attempt that is sent.
    Assign,
    /// Add the `txnNumber` of the earlier attempts.
    Reuse,
}
