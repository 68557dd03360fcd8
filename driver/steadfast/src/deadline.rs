//! Deadlines of calls, and the time spent in each phase.
//!
//! A call with a time-out (`timeoutMS`) has one deadline for server selection, connection
//! check-out, the reply, backoff and retries. Other limits (`socketTimeoutMS`,
//! `waitQueueTimeoutMS`, `maxTimeMS`, `wtimeoutMS`) are ignored then.

use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, MAX_TIME_EXPIRED, TimeSpent, Timeout};

/// Returns the time of the runtime's clock, which tests can pause.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Time-out of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeLimit {
    /// Zero means no time-out: retryable errors are retried without an end.
    pub(crate) timeout: Duration,
    /// `true` if the call itself sets the time-out, not the object that it is called on.
    pub(crate) own: bool,
}

impl TimeLimit {
    /// Returns the time-out of the call, else the inherited one.
    pub(crate) fn of(own: Option<Duration>, inherited: Option<Duration>) -> Option<Self> {
        match own {
            Some(timeout) => Some(Self { timeout, own: true }),
            None => inherited.map(|timeout| Self { timeout, own: false }),
        }
    }
}

/// Time-out that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    began: Instant,
    timeout: Duration,
}

impl Deadline {
    /// Starts a deadline now.
    pub(crate) fn begin(timeout: Duration) -> Self {
        Self { began: now(), timeout }
    }

    /// Returns the time-out that the deadline was made from.
    pub(crate) fn timeout(self) -> Duration {
        self.timeout
    }

    /// Returns a deadline with the same time-out that starts now.
    pub(crate) fn renewed(self) -> Self {
        Self::begin(self.timeout)
    }

    /// Returns the time of the deadline, or `None` without a limit.
    pub(crate) fn at(self) -> Option<Instant> {
        // On overflow there is no deadline either.
        (!self.timeout.is_zero()).then(|| self.began.checked_add(self.timeout)).flatten()
    }

    pub(crate) fn has_passed(self) -> bool {
        self.at().is_some_and(|at| now() >= at)
    }

    /// Returns the remaining time, or `None` without a limit.
    pub(crate) fn remaining(self) -> Option<Duration> {
        self.at().map(|at| at.saturating_duration_since(now()))
    }

    /// Wraps the error in a time-out error if its cause is the deadline: it has passed on the
    /// client, or the server reported `MaxTimeMSExpired`.
    pub(crate) fn or_exceeded(self, error: Error, spent: TimeSpent) -> Error {
        let ran_out = error.code() == Some(MAX_TIME_EXPIRED)
            || error.is_deadline_exceeded()
            || (self.has_passed() && !error.is_invalid_argument());
        if ran_out { self.exceeded(error, spent) } else { error }
    }

    /// Wraps the error in a time-out error with the time spent in each phase.
    pub(crate) fn exceeded(self, error: Error, spent: TimeSpent) -> Error {
        exceeded(self.timeout, error, spent)
    }
}

/// Wraps the error in a time-out error with the time spent in each phase.
pub(crate) fn exceeded(timeout: Duration, error: Error, spent: TimeSpent) -> Error {
    if error.is_timeout() {
        return error;
    }
    Error::wrapping(ErrorKind::Timeout(Timeout { timeout, spent }), error)
}

/// Deadline of a call, and the time spent in each phase so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) deadline: Deadline,
    pub(crate) spent: TimeSpent,
}

/// Source of the `maxTimeMS` of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MaxTime {
    /// Remaining time before the deadline, if there is one.
    #[default]
    Remaining,
    /// This duration, or the remaining time if that is shorter: `maxTimeMS` of a tailable cursor's
    /// `getMore`.
    AtMost(Duration),
    /// No `maxTimeMS`: the server would apply it to the lifetime of the cursor.
    Omit,
}

impl MaxTime {
    /// Returns `maxTimeMS` for a server with this round-trip time. The error means that the
    /// remaining time is shorter than a round trip.
    pub(crate) fn millis(
        self,
        deadline: Option<Deadline>,
        round_trip: Option<Duration>,
    ) -> Result<Option<i64>, NoTimeLeft> {
        let left = match deadline.and_then(Deadline::remaining) {
            None => None,
            Some(remaining) => {
                let round_trip = round_trip.unwrap_or_default();
                let left = remaining.checked_sub(round_trip).ok_or(NoTimeLeft)?;
                // Less than a millisecond would be sent as 0, which means no limit.
                Some(left).filter(|left| left.as_millis() > 0).ok_or(NoTimeLeft).map(Some)?
            }
        };
        let limit = match self {
            Self::Omit => None,
            Self::Remaining => left,
            Self::AtMost(most) => Some(left.map_or(most, |left| left.min(most))),
        };
        // Servers accept at most an `i32`.
        Ok(limit.map(|limit| i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).into()))
    }
}

/// Error: the remaining time is shorter than a round trip to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoTimeLeft;

impl From<NoTimeLeft> for Error {
    fn from(_: NoTimeLeft) -> Self {
        Self::deadline_exceeded("the remaining time is shorter than a round trip to the server")
    }
}

#[cfg(test)]
mod tests;
