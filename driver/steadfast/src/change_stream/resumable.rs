//! Resumable errors of a `getMore`.

use steadfast_core::retry::is_resumable as is_resumable_code;

use crate::error::{Error, ErrorKind, RESUMABLE_CHANGE_STREAM_ERROR};

/// First wire version whose servers label resumable errors: that of MongoDB 4.4.
const LABELS: i32 = 9;

/// `CursorNotFound`. It has no label, because the server does not know the kind of a missing
/// cursor.
const CURSOR_NOT_FOUND: i32 = 43;

/// Returns `true` if the error of a `getMore` is resumable: "Resumable Error" in the specification.
pub(super) fn is_resumable(error: &Error) -> bool {
    match &*error.kind {
        ErrorKind::Command(error_reply) => {
            error_reply.code == CURSOR_NOT_FOUND
                || match error.wire_version() {
                    Some(LABELS..) => error.contains_label(RESUMABLE_CHANGE_STREAM_ERROR),
                    // Without a wire version, the error is that of a handshake.
                    Some(_) | None => is_resumable_code(error_reply.code),
                }
        }
        // Not server errors: another server, or a later attempt, may succeed.
        ErrorKind::Io(_)
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::DnsResolve { .. }
        | ErrorKind::ProxyConnect { .. }
        | ErrorKind::ServerSelection { .. }
        | ErrorKind::InvalidResponse { .. }
        | ErrorKind::IncompatibleServer { .. } => true,
        // Server errors, and errors that would repeat.
        ErrorKind::Authentication { .. }
        | ErrorKind::InvalidArgument { .. }
        | ErrorKind::Bson(_)
        | ErrorKind::BsonDeserialization(_)
        | ErrorKind::BsonSerialization(_)
        | ErrorKind::InsertMany(_)
        | ErrorKind::BulkWrite(_)
        | ErrorKind::Write(_)
        | ErrorKind::GridFs(_)
        | ErrorKind::Internal { .. }
        | ErrorKind::MissingResumeToken
        | ErrorKind::SessionsNotSupported
        | ErrorKind::InvalidTlsConfig { .. }
        | ErrorKind::Transaction { .. }
        // The time-out of one iteration: the next one resumes the stream.
        | ErrorKind::Timeout(_)
        | ErrorKind::Shutdown
        | ErrorKind::Custom(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;
    use crate::{error::CommandError, operation::fixture::raw};

    const BEFORE_LABELS: [i32; 17] =
        [6, 7, 63, 89, 91, 133, 150, 189, 234, 262, 9001, 10107, 11600, 11602, 13388, 13435, 13436];

    fn command_error(code: i32, labels: &[&str], wire_version: i32) -> Error {
        let labels: Vec<_> = labels.iter().map(|label| (*label).to_owned()).collect();
        let reply: Document = doc! { "ok": 0, "code": code, "errmsg": "no", "errorLabels": labels };
        CommandError::from_reply(&raw(reply))
            .expect("an error reply")
            .with_wire_version(wire_version)
    }

    #[test]
    fn labels_decide_since_wire_version_9() {
        for version in [9, 17, 29] {
            assert!(is_resumable(&command_error(1, &[RESUMABLE_CHANGE_STREAM_ERROR], version)));
            for code in BEFORE_LABELS {
                assert!(!is_resumable(&command_error(code, &[], version)), "{code}");
            }
        }
    }

    #[test]
    fn codes_decide_before_wire_version_9() {
        for code in BEFORE_LABELS {
            assert!(is_resumable(&command_error(code, &[], 8)), "{code}");
        }
        assert!(!is_resumable(&command_error(1, &[RESUMABLE_CHANGE_STREAM_ERROR], 8)));
        // CappedPositionLost, CursorKilled, Interrupted.
        for code in [136, 237, 11601] {
            assert!(!is_resumable(&command_error(code, &[], 8)), "{code}");
        }
    }

    #[test]
    fn cursor_not_found_is_always_resumable() {
        for version in [8, 9, 17] {
            assert!(is_resumable(&command_error(43, &[], version)));
        }
    }

    #[test]
    fn network_errors_are_resumable() {
        let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        assert!(is_resumable(&Error::from(broken)));
        assert!(is_resumable(&Error::timed_out("a reply")));
        let cleared = ErrorKind::ConnectionPoolCleared { message: String::new() };
        assert!(is_resumable(&Error::new(cleared)));
        let selection = ErrorKind::ServerSelection { message: String::new() };
        assert!(is_resumable(&Error::new(selection)));

        assert!(!is_resumable(&Error::new(ErrorKind::MissingResumeToken)));
        assert!(!is_resumable(&Error::new(ErrorKind::Shutdown)));
        assert!(!is_resumable(&Error::invalid_argument("")));
        assert!(!is_resumable(&Error::authentication("")));
    }
}
