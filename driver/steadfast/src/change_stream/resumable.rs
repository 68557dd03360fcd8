//! After which errors of `getMore` a change stream is resumed. Pure.

use steadfast_core::retry::is_resumable as is_resumable_code;

use crate::error::{Error, ErrorKind, RESUMABLE_CHANGE_STREAM_ERROR};

/// The first wire version (of servers 4.4) whose servers say themselves what is resumable.
const LABELS: i32 = 9;

/// CursorNotFound. The server that sends it does not know that the cursor was a change stream's, and
/// so never labels it.
const CURSOR_NOT_FOUND: i32 = 43;

/// Whether a stream whose `getMore` failed so is to be resumed: "Resumable Error" in the
/// specification.
pub(super) fn is_resumable(error: &Error) -> bool {
    match &*error.kind {
        ErrorKind::Command(refusal) => {
            refusal.code == CURSOR_NOT_FOUND
                || match error.wire_version() {
                    Some(LABELS..) => error.contains_label(RESUMABLE_CHANGE_STREAM_ERROR),
                    // What was refused without one is a handshake.
                    Some(_) | None => is_resumable_code(refusal.code),
                }
        }
        // No server raised these, and another, or the same a little later, may answer.
        ErrorKind::Io(_)
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::DnsResolve { .. }
        | ErrorKind::ServerSelection { .. }
        | ErrorKind::InvalidResponse { .. }
        | ErrorKind::IncompatibleServer { .. } => true,
        // A server's no, or one that would be the same again.
        ErrorKind::Authentication { .. }
        | ErrorKind::InvalidArgument { .. }
        | ErrorKind::Bson(_)
        | ErrorKind::InsertMany(_)
        | ErrorKind::BulkWrite(_)
        | ErrorKind::Write(_)
        | ErrorKind::GridFs(_)
        | ErrorKind::Internal { .. }
        | ErrorKind::MissingResumeToken
        | ErrorKind::SessionsNotSupported
        | ErrorKind::InvalidTlsConfig { .. }
        | ErrorKind::Transaction { .. }
        // The time of one step is over; the next takes the stream up again.
        | ErrorKind::Timeout(_)
        | ErrorKind::Shutdown
        | ErrorKind::Custom(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;
    use crate::{error::command_error::refusal, operation::fixture::raw};

    const BEFORE_LABELS: [i32; 17] =
        [6, 7, 63, 89, 91, 133, 150, 189, 234, 262, 9001, 10107, 11600, 11602, 13388, 13435, 13436];

    fn refused(code: i32, labels: &[&str], wire_version: i32) -> Error {
        let labels: Vec<_> = labels.iter().map(|label| (*label).to_owned()).collect();
        let reply: Document = doc! { "ok": 0, "code": code, "errmsg": "no", "errorLabels": labels };
        refusal(&raw(reply)).expect("a refusal").with_wire_version(wire_version)
    }

    #[test]
    fn newer_servers_say_themselves_what_is_resumable() {
        for version in [9, 17, 29] {
            assert!(is_resumable(&refused(1, &[RESUMABLE_CHANGE_STREAM_ERROR], version)));
            for code in BEFORE_LABELS {
                assert!(!is_resumable(&refused(code, &[], version)), "{code}");
            }
        }
    }

    #[test]
    fn older_servers_are_judged_by_their_codes() {
        for code in BEFORE_LABELS {
            assert!(is_resumable(&refused(code, &[], 8)), "{code}");
        }
        assert!(!is_resumable(&refused(1, &[RESUMABLE_CHANGE_STREAM_ERROR], 8)));
        // CappedPositionLost, CursorKilled, Interrupted.
        for code in [136, 237, 11601] {
            assert!(!is_resumable(&refused(code, &[], 8)), "{code}");
        }
    }

    #[test]
    fn a_cursor_that_the_server_has_not_got_is_always_replaced() {
        for version in [8, 9, 17] {
            assert!(is_resumable(&refused(43, &[], version)));
        }
    }

    #[test]
    fn what_no_server_raised_is_resumable_unless_it_would_be_the_same_again() {
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
