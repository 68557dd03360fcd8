//! The well-known errors of servers: their names, and the labels that servers give them.

use super::answer::Nature;

/// Number, name, and whether a server calls a write that fails with it retryable.
const KNOWN: [(i32, &str, bool); 24] = [
    (1, "InternalError", false),
    (6, "HostUnreachable", true),
    (7, "HostNotFound", true),
    (11, "UserNotFound", false),
    (13, "Unauthorized", false),
    (18, "AuthenticationFailed", false),
    (43, "CursorNotFound", false),
    (50, "MaxTimeMSExpired", false),
    (64, "WriteConcernTimeout", false),
    (89, "NetworkTimeout", true),
    (91, "ShutdownInProgress", true),
    (100, "UnsatisfiableWriteConcern", false),
    (112, "WriteConflict", false),
    (189, "PrimarySteppedDown", true),
    (251, "NoSuchTransaction", false),
    (262, "ExceededTimeLimit", true),
    (462, "IngressRequestRateLimitExceeded", false),
    (9001, "SocketException", true),
    (10107, "NotWritablePrimary", true),
    (11000, "DuplicateKey", false),
    (11600, "InterruptedAtShutdown", true),
    (11602, "InterruptedDueToReplStateChange", true),
    (13435, "NotPrimaryNoSecondaryOk", true),
    (13436, "NotPrimaryOrSecondary", true),
];

/// The name of an error.
pub(crate) fn name_of(code: i32) -> Option<&'static str> {
    KNOWN.iter().find(|(known, ..)| *known == code).map(|(_, name, _)| *name)
}

/// The labels that a server of today would give to an error.
pub(crate) fn labels_of(code: i32, nature: Nature) -> Vec<String> {
    let retryable = KNOWN.iter().any(|(known, _, retryable)| *known == code && *retryable);
    let transient = retryable || matches!(code, 112 | 251);
    let label = match nature {
        Nature { in_transaction: true, .. } if transient => "TransientTransactionError",
        Nature { retryable_write: true, .. } if retryable => "RetryableWriteError",
        Nature { .. } => return Vec::new(),
    };
    vec![label.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_those_of_servers() {
        let write = Nature { retryable_write: true, in_transaction: false };
        let statement = Nature { retryable_write: false, in_transaction: true };
        assert_eq!(labels_of(10107, write), ["RetryableWriteError"]);
        assert_eq!(labels_of(10107, statement), ["TransientTransactionError"]);
        assert_eq!(labels_of(112, statement), ["TransientTransactionError"]);
        assert!(labels_of(112, write).is_empty());
        assert!(labels_of(10107, Nature::default()).is_empty());
        assert!(labels_of(11000, write).is_empty());
    }
}
