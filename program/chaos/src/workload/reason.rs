//! Names of the errors of failed attempts. They contain no addresses and times, so that equal errors have equal names.

use std::{error::Error as _, io};

use steadfast::{
    bson::{Bson, Document},
    error::{Error, ErrorKind, SYSTEM_OVERLOADED_ERROR, WriteFailure},
};

pub(super) const TIMED_OUT: &str = "timed out";
pub(super) const DROPPED: &str = "dropped by the caller";
const CONNECTION_REFUSED: &str = "connection refused";
/// The pool was cleared, or the connection was closed before it was used.
const NO_CONNECTION: &str = "no connection";
const NO_SERVER: &str = "no server found";

/// Returns the name of an error.
pub(super) fn of(error: &Error) -> String {
    match &*error.kind {
        ErrorKind::Io(broken) => of_io(broken.kind()).to_owned(),
        ErrorKind::ConnectionPoolCleared { .. } => NO_CONNECTION.to_owned(),
        ErrorKind::ServerSelection { .. } => NO_SERVER.to_owned(),
        ErrorKind::Command(_) if error.contains_label(SYSTEM_OVERLOADED_ERROR) => {
            format!("overloaded ({})", error.code().unwrap_or_default())
        }
        ErrorKind::Command(error) => of_code(error.code, &error.code_name),
        ErrorKind::Write(WriteFailure::WriteError(error)) => {
            of_code(error.code, error.code_name.as_deref().unwrap_or_default())
        }
        ErrorKind::Write(WriteFailure::WriteConcernError(failed)) => {
            not_durable(failed.code, &failed.code_name)
        }
        ErrorKind::Timeout(_) => match wrapped(error) {
            Some(at) if at.is_server_selection_error() => NO_SERVER.to_owned(),
            _ => TIMED_OUT.to_owned(),
        },
        // The error that ended a batch, if it is not an error of a single write.
        _ => match (error.code(), wrapped(error)) {
            (_, Some(end)) => of(end),
            (Some(code), None) => of_code(code, ""),
            (None, None) => "another error".to_owned(),
        },
    }
}

/// Returns the name of an error before a request was sent, from the message of a retry event.
pub(super) fn of_unsent(reason: &str) -> &'static str {
    let has = |words: &str| reason.to_ascii_lowercase().contains(words);
    match () {
        // The message may contain "connection refused" as the error of the other operation.
        () if has("was cleared after another error") => NO_CONNECTION,
        () if has(CONNECTION_REFUSED) => CONNECTION_REFUSED,
        () => NO_CONNECTION,
    }
}

/// Returns the name of the first write error or the write concern error in a reply with `ok: 1`.
pub(super) fn of_reply(reply: &Document) -> Option<String> {
    if let Ok(errors) = reply.get_array("writeErrors")
        && let Some(Bson::Document(first)) = errors.first()
    {
        return Some(of_code(code(first), first.get_str("codeName").unwrap_or_default()));
    }
    let failed = reply.get_document("writeConcernError").ok()?;
    Some(not_durable(code(failed), failed.get_str("codeName").unwrap_or_default()))
}

fn code(error: &Document) -> i32 {
    error.get_i32("code").unwrap_or_default()
}

fn wrapped(error: &Error) -> Option<&Error> {
    error.source()?.downcast_ref()
}

fn of_io(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::ConnectionReset => "connection reset",
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => "connection closed",
        io::ErrorKind::ConnectionRefused => CONNECTION_REFUSED,
        // The driver has interrupted the connection after a failed heartbeat.
        io::ErrorKind::ConnectionAborted => "connection given up",
        io::ErrorKind::TimedOut => TIMED_OUT,
        _ => "network error",
    }
}

fn of_code(code: i32, name: &str) -> String {
    let name = match (code, name) {
        (11000, "") => "DuplicateKey",
        (_, "") => "error",
        (_, name) => name,
    };
    format!("{name} ({code})")
}

fn not_durable(code: i32, name: &str) -> String {
    format!("not durable: {}", of_code(code, name))
}

#[cfg(test)]
mod tests {
    use steadfast::bson::doc;

    use super::*;

    fn broken(kind: io::ErrorKind) -> String {
        of(&Error::from(io::Error::new(kind, "127.0.0.1:40123 after 17 ms")))
    }

    #[test]
    fn names_of_network_errors_have_no_details() {
        let kinds = [
            (io::ErrorKind::ConnectionReset, "connection reset"),
            (io::ErrorKind::UnexpectedEof, "connection closed"),
            (io::ErrorKind::BrokenPipe, "connection closed"),
            (io::ErrorKind::ConnectionRefused, "connection refused"),
            (io::ErrorKind::ConnectionAborted, "connection given up"),
            (io::ErrorKind::TimedOut, "timed out"),
            (io::ErrorKind::Other, "network error"),
        ];
        for (kind, name) in kinds {
            assert_eq!(broken(kind), name);
        }
        assert_eq!(of(&Error::custom("strange")), "another error");
    }

    #[test]
    fn write_errors_and_write_concern_errors_are_failures() {
        assert_eq!(of_reply(&doc! { "ok": 1, "n": 1 }), None);
        let stepped_down = doc! { "code": 189, "codeName": "PrimarySteppedDown", "errmsg": "…" };
        let reply = doc! { "ok": 1, "n": 1, "writeConcernError": stepped_down };
        assert_eq!(of_reply(&reply).unwrap(), "not durable: PrimarySteppedDown (189)");
        let reply = doc! { "ok": 1, "n": 0, "writeErrors": [{ "index": 0, "code": 11000 }] };
        assert_eq!(of_reply(&reply).unwrap(), "DuplicateKey (11000)");
        let reply = doc! { "ok": 1, "n": 0, "writeErrors": [{ "index": 0, "code": 121 }] };
        assert_eq!(of_reply(&reply).unwrap(), "error (121)");
    }

    #[test]
    fn unsent_attempts_have_names() {
        let refused = "I/O error: Connection refused (os error 111) (server 127.0.0.1:40123)";
        assert_eq!(of_unsent(refused), "connection refused");
        let cleared = format!(
            "the connection pool of 127.0.0.1:40123 was cleared after another error: {refused}"
        );
        assert_eq!(of_unsent(&cleared), "no connection");
        assert_eq!(
            of_unsent(
                "the connection pool of 127.0.0.1:40123 is paused until a heartbeat succeeds"
            ),
            "no connection"
        );
    }
}
