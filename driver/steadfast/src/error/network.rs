//! Network failures, classified where they happen.

use std::{fmt, io};

use super::{Error, ErrorKind};

/// Failure of a connection, or reason for having none. It decides whether the command is retried
/// and what is reported to the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkFailure {
    /// The server closed or reset the connection.
    ClosedByServer,
    /// This side closed the connection, or found no route to the server.
    ClosedByClient,
    /// A time-out of the connection passed before the reply arrived.
    TimedOut,
    /// The deadline of the call passed. Not a failure of the network.
    DeadlineExceeded,
    /// `waitQueueTimeoutMS` passed. Not a failure of the network.
    WaitQueueTimeout,
    /// The host name could not be resolved.
    HostNotFound,
    /// One side rejected the certificate or the TLS protocol of the other.
    TlsRejected,
}

impl NetworkFailure {
    /// Classifies an error of a socket. Only this function goes by the kind of an I/O error.
    pub(crate) fn of_socket(error: &io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, InvalidData, TimedOut, UnexpectedEof};
        match error.kind() {
            BrokenPipe | ConnectionReset | UnexpectedEof => Self::ClosedByServer,
            TimedOut => Self::TimedOut,
            // `rustls` reports rejected peers with this kind.
            InvalidData => Self::TlsRejected,
            _ => Self::ClosedByClient,
        }
    }

    /// Returns `true` if the server may still execute a request that was sent. It does not if it
    /// closed the connection itself.
    pub(crate) fn may_execute_later(self) -> bool {
        self != Self::ClosedByServer
    }

    /// Returns `true` if a time-out passed.
    pub(super) fn is_timeout(self) -> bool {
        matches!(self, Self::TimedOut | Self::DeadlineExceeded | Self::WaitQueueTimeout)
    }

    /// Returns `true` if it is not a failure of the network, as long as nothing was sent.
    pub(crate) fn is_local_timeout(self) -> bool {
        matches!(self, Self::DeadlineExceeded | Self::WaitQueueTimeout)
    }

    /// Returns `true` if an overloaded server may be the reason that no connection could be
    /// established.
    pub(crate) fn may_be_overload(self) -> bool {
        !matches!(self, Self::HostNotFound | Self::TlsRejected)
    }

    fn io_kind(self) -> io::ErrorKind {
        match self {
            Self::ClosedByServer => io::ErrorKind::UnexpectedEof,
            Self::ClosedByClient => io::ErrorKind::ConnectionAborted,
            Self::TimedOut | Self::DeadlineExceeded | Self::WaitQueueTimeout => {
                io::ErrorKind::TimedOut
            }
            Self::HostNotFound => io::ErrorKind::NotFound,
            Self::TlsRejected => io::ErrorKind::InvalidData,
        }
    }
}

impl Error {
    /// Creates the error of a failed connection.
    pub(crate) fn network(failure: NetworkFailure, text: impl fmt::Display) -> Self {
        Self::network_io(failure, io::Error::new(failure.io_kind(), text.to_string()))
    }

    /// Creates the error of a failed connection from an I/O error.
    pub(crate) fn network_io(failure: NetworkFailure, error: io::Error) -> Self {
        let mut error = Self::new(ErrorKind::from(error));
        error.details_mut().network_failure = Some(failure);
        error
    }

    /// Creates the error of a socket.
    pub(crate) fn of_socket(error: io::Error) -> Self {
        Self::network_io(NetworkFailure::of_socket(&error), error)
    }

    /// Creates the error of a time-out of the connection.
    pub(crate) fn timed_out(what: impl fmt::Display) -> Self {
        Self::network(NetworkFailure::TimedOut, what)
    }

    /// Creates the error of a passed deadline, with the interrupted step.
    pub(crate) fn deadline_exceeded(what: &'static str) -> Self {
        Self::network(NetworkFailure::DeadlineExceeded, what)
    }

    /// Returns the failure of the connection, for network errors.
    pub(crate) fn network_failure(&self) -> Option<NetworkFailure> {
        self.details.as_ref()?.network_failure
    }

    /// Returns `true` if the deadline of the call passed.
    pub(crate) fn is_deadline_exceeded(&self) -> bool {
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
    fn timeouts_keep_their_text() {
        use NetworkFailure::{ClosedByClient, ClosedByServer, TlsRejected, WaitQueueTimeout};
        for error in [
            Error::timed_out("no reply"),
            Error::deadline_exceeded("no reply"),
            Error::network(WaitQueueTimeout, "no reply"),
        ] {
            assert!(error.is_network_error() && error.is_network_timeout(), "{error:?}");
            assert_eq!(error.to_string(), "I/O error: no reply");
        }
        for failure in [ClosedByServer, ClosedByClient, TlsRejected] {
            let error = Error::network(failure, "gone");
            assert!(error.is_network_error() && !error.is_network_timeout(), "{error:?}");
        }
    }
}
