//! Failures of a connection, by who ended it: the driver or the server.

use std::io;

use crate::deadline::OutOfTime;

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
