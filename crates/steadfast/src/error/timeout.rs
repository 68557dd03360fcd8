//! Time limits that ran out: of a call, of a connection's reply, of the wait for a connection.

use std::{fmt, io, time::Duration};

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

/// Marks an I/O error as the end of a call's time, which says nothing of the network.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct OutOfTime(pub(crate) &'static str);

/// No connection came free in time. A kind of its own, since it says nothing of the network.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WaitQueueTimeout(pub(crate) String);

/// Marks an I/O error as the driver's own: it stopped waiting for a reply that may still come.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct StoppedWaiting(pub(crate) String);

/// Returns true if the server may still execute the request: the driver stopped waiting, or this
/// machine gave the connection up (no route, a keepalive time-out). Only a connection that the server
/// closed or reset says otherwise; an unknown error counts as ended by us, which promises less.
pub(crate) fn is_ended_by_us(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    let is_marked = error
        .get_ref()
        .is_some_and(|inner| inner.is::<StoppedWaiting>() || inner.is::<OutOfTime>());
    is_marked || !matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_server_closing_the_connection_ends_the_request() {
        use io::ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionReset, HostUnreachable, InvalidData,
            NetworkUnreachable, TimedOut, UnexpectedEof,
        };
        for kind in [BrokenPipe, ConnectionReset, UnexpectedEof] {
            assert!(!is_ended_by_us(&kind.into()), "{kind}");
            let own = io::Error::new(kind, StoppedWaiting("interrupted".to_owned()));
            assert!(is_ended_by_us(&own), "{kind}");
            assert!(is_ended_by_us(&io::Error::new(kind, OutOfTime("no reply came"))), "{kind}");
        }
        let others =
            [ConnectionAborted, HostUnreachable, InvalidData, NetworkUnreachable, TimedOut];
        for kind in others {
            assert!(is_ended_by_us(&kind.into()), "{kind}");
        }
    }
}
