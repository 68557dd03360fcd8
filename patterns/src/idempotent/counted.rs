//! Result of an operation that may have been executed more than once.

use crate::retry::RetryState;

/// Result of an operation that may have been executed more than once.
///
/// `R` is the result of the last attempt. An earlier attempt that may have been applied may have changed some of
/// the documents, or all of them; the last result counts the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted<R> {
    last: R,
    in_doubt: bool,
    attempts: u32,
}

impl<R> Counted<R> {
    pub(crate) fn new(last: R, retry: &RetryState) -> Self {
        Self { last, in_doubt: retry.in_doubt(), attempts: retry.attempts() }
    }

    /// Returns the exact result, if no earlier attempt can have been applied.
    pub fn exact(&self) -> Option<&R> {
        (!self.in_doubt).then_some(&self.last)
    }

    /// Returns the result of the last attempt, a lower bound.
    pub fn at_least(&self) -> &R {
        &self.last
    }

    /// Returns `true` if an earlier attempt may have been applied.
    pub fn in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Returns the number of attempts. (Retries of the driver with the same `txnNumber` belong to one attempt.)
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}
