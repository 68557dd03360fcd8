//! Time-outs: the error of a passed deadline.

use std::{fmt, time::Duration};

/// Server error code `MaxTimeMSExpired`.
pub(crate) const MAX_TIME_EXPIRED: i32 = 50;

/// Passed deadline of a call (`timeoutMS`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeout {
    /// Time-out of the call.
    pub timeout: Duration,
    /// Time spent in each phase.
    pub spent: TimeSpent,
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "timed out after {:?} (timeoutMS)", self.timeout)?;
        match self.spent.to_string().as_str() {
            "" => Ok(()),
            spent => write!(f, ": {spent}"),
        }
    }
}

/// Time that a call spent in each phase, over all its attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeSpent {
    /// Server selection.
    pub selecting: Duration,
    /// Connection checkout, while all connections of the pool were in use.
    pub checking_out: Duration,
    /// Establishment of a connection.
    pub connecting: Duration,
    /// Sending the command and awaiting the reply.
    pub waiting: Duration,
    /// Backoff before retries.
    pub backing_off: Duration,
}

impl fmt::Display for TimeSpent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Shortest duration that is not printed as 0.0 ms.
        const LEAST: Duration = Duration::from_micros(50);
        let parts = [
            (self.selecting, "server selection"),
            (self.checking_out, "connection checkout"),
            (self.connecting, "connection establishment"),
            (self.waiting, "awaiting the reply"),
            (self.backing_off, "backoff"),
        ];
        let mut first = true;
        for (time, what) in parts.into_iter().filter(|(time, _)| *time >= LEAST) {
            let millis = time.as_secs_f64() * 1000.0;
            write!(f, "{}{millis:.1} ms {what}", if first { "" } else { ", " })?;
            first = false;
        }
        Ok(())
    }
}
