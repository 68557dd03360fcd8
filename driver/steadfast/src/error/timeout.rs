//! Time limits that ran out: of a call, of a connection's reply, of the wait for a connection.

use std::{fmt, time::Duration};

/// The server's code for having run out of the time that it was given.
pub(crate) const MAX_TIME_EXPIRED: i32 = 50;

/// A call was not done when its time was over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeout {
    /// How long the call had.
    pub timeout: Duration,
    /// Where the time went.
    pub spent: TimeSpent,
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "timed out after {:?} (timeoutMS)", self.timeout)?;
        match self.spent.to_string().as_str() {
            "" => Ok(()),
            spent => write!(f, ", of which {spent}"),
        }
    }
}

/// Where the time of a call went, over all its attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeSpent {
    /// Looking for a suitable server.
    pub selecting: Duration,
    /// Waiting for one of the connections to come free.
    pub checking_out: Duration,
    /// Waiting for a connection to be opened.
    pub connecting: Duration,
    /// Sending, and waiting for the server's reply.
    pub waiting: Duration,
    /// Giving an overloaded server time.
    pub backing_off: Duration,
}

impl fmt::Display for TimeSpent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// What would show as 0.0 ms says nothing.
        const LEAST: Duration = Duration::from_micros(50);
        let parts = [
            (self.selecting, "looking for a server"),
            (self.checking_out, "waiting for a free connection"),
            (self.connecting, "opening a connection"),
            (self.waiting, "waiting for the server"),
            (self.backing_off, "backing off"),
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
