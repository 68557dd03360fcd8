//! Failures of a connection, named where they happen.

use std::{fmt, io};

use super::{Error, ErrorKind};

/// Way in which a connection failed, or no connection could be had. It decides whether the command is
/// retried and what the topology is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkFailure {
    /// The server closed or reset the connection.
    ClosedByServer,
    /// This side closed the connection, or found no way to the server.
    ClosedByUs,
    /// A limit of the connection passed before the reply came.
    TimedOut,
    /// The deadline of the call passed. This says nothing of the network.
    DeadlineExceeded,
    /// No connection of the pool came free in time. This says nothing of the network.
    WaitQueueTimeout,
    /// The name of the host could not be resolved.
    HostNotFound,
    /// The certificate or the TLS protocol of one side was not accepted by the other.
    TlsRejected,
}

impl NetworkFailure {
    /// Determines the failure of a read from a socket or a write to one. This is the only place that
    /// goes by the kind of an I/O error.
    pub(crate) fn of_socket(error: &io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, InvalidData, TimedOut, UnexpectedEof};
        match error.kind() {
            BrokenPipe | ConnectionReset | UnexpectedEof => Self::ClosedByServer,
            TimedOut => Self::TimedOut,
            // TLS reports so what it does not accept.
            InvalidData => Self::TlsRejected,
            _ => Self::ClosedByUs,
        }
    }

    /// Returns true if the server may still execute a request that was sent. It does not if it closed the
    /// connection itself.
    pub(crate) fn may_execute_later(self) -> bool {
        self != Self::ClosedByServer
    }

    /// Returns true if a limit passed.
    pub(super) fn is_timeout(self) -> bool {
        matches!(self, Self::TimedOut | Self::DeadlineExceeded | Self::WaitQueueTimeout)
    }

    /// Returns true if it says nothing of the network, as long as nothing was sent.
    pub(crate) fn is_wait(self) -> bool {
        matches!(self, Self::DeadlineExceeded | Self::WaitQueueTimeout)
    }

    /// Returns true if an overloaded server may be the reason that no connection could be established.
    pub(crate) fn may_be_overload(self) -> bool {
        !matches!(self, Self::HostNotFound | Self::TlsRejected)
    }

    fn io_kind(self) -> io::ErrorKind {
        match self {
            Self::ClosedByServer => io::ErrorKind::UnexpectedEof,
            Self::ClosedByUs => io::ErrorKind::ConnectionAborted,
            Self::TimedOut | Self::DeadlineExceeded | Self::WaitQueueTimeout => {
                io::ErrorKind::TimedOut
            }
            Self::HostNotFound => io::ErrorKind::NotFound,
            Self::TlsRejected => io::ErrorKind::InvalidData,
        }
    }
}

impl Error {
    /// Returns the error of a connection that failed in this way.
    pub(crate) fn network(failure: NetworkFailure, text: impl fmt::Display) -> Self {
        Self::network_io(failure, io::Error::new(failure.io_kind(), text.to_string()))
    }

    /// Returns the same for an I/O error.
    pub(crate) fn network_io(failure: NetworkFailure, error: io::Error) -> Self {
        let mut error = Self::new(ErrorKind::from(error));
        error.details_mut().network_failure = Some(failure);
        error
    }

    /// Returns the error of a socket.
    pub(crate) fn of_socket(error: io::Error) -> Self {
        Self::network_io(NetworkFailure::of_socket(&error), error)
    }

    /// Returns the error of a limit of the connection that passed.
    pub(crate) fn timed_out(what: impl fmt::Display) -> Self {
        Self::network(NetworkFailure::TimedOut, what)
    }

    /// Returns the error of a call whose deadline passed, with what it was at.
    pub(crate) fn out_of_time(what: &'static str) -> Self {
        Self::network(NetworkFailure::DeadlineExceeded, what)
    }

    /// Returns the failure of the connection, if that is what this error is about.
    pub(crate) fn network_failure(&self) -> Option<NetworkFailure> {
        self.details.as_ref()?.network_failure
    }

    /// Returns true if the deadline of the call passed.
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.network_failure() == Some(NetworkFailure::DeadlineExceeded)
    }
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
        let may_execute_later =
            |kind: io::ErrorKind| NetworkFailure::of_socket(&kind.into()).may_execute_later();
        for kind in [BrokenPipe, ConnectionReset, UnexpectedEof] {
            assert!(!may_execute_later(kind), "{kind}");
        }
        let others =
            [ConnectionAborted, HostUnreachable, InvalidData, NetworkUnreachable, TimedOut];
        for kind in others {
            assert!(may_execute_later(kind), "{kind}");
        }
    }

    #[test]
    fn limits_are_timeouts_and_keep_their_text() {
        use NetworkFailure::{ClosedByServer, ClosedByUs, TlsRejected, WaitQueueTimeout};
        for error in [
            Error::timed_out("no reply"),
            Error::out_of_time("no reply"),
            Error::network(WaitQueueTimeout, "no reply"),
        ] {
            assert!(error.is_network_error() && error.is_network_timeout(), "{error:?}");
            assert_eq!(error.to_string(), "I/O: no reply");
        }
        for failure in [ClosedByServer, ClosedByUs, TlsRejected] {
            let error = Error::network(failure, "gone");
            assert!(error.is_network_error() && !error.is_network_timeout(), "{error:?}");
        }
    }
}
