//! What came of an operation that was done by a strategy.

use crate::{
    error::{Error, Outcome},
    patterns::counter::CounterError,
};

/// What came of an operation, and how often it was tried.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct Tried<T, E = Error> {
    /// What came of the last attempt. The [`outcome`](Error::outcome) of an error is that of all attempts
    /// together.
    pub result: Result<T, E>,
    /// How often the strategy called the operation. What the driver, or
    /// [`Counters`](crate::patterns::counter::Counters), repeated inside of one call is not counted; of a
    /// failure it is in [`Error::attempts`].
    pub attempts: u32,
}

/// Why an event is not known to be counted.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IncrementError {
    /// The update failed.
    #[error(transparent)]
    Update(Error),
    /// The counter failed, in one of its two steps.
    #[error(transparent)]
    Counter(CounterError),
}

impl IncrementError {
    /// Whether the event was counted, or may yet be: by a sweep, for instance.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Update(error) => error.outcome(),
            Self::Counter(error) => error.outcome(),
        }
    }
}
