//! Server error codes: names, and the labels that servers add.

/// Facts about a failed command that decide its error labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorContext {
    /// Retryable write with a `txnNumber`, commit or abort.
    pub is_retryable_write: bool,
    /// Command of a transaction; commit and abort as well.
    pub is_in_transaction: bool,
    /// `aggregate` or `getMore` of a change stream.
    pub is_change_stream: bool,
    /// Reply of a mongos. It passes on the label `RetryableWriteError` of shards and never adds it.
    pub is_mongos: bool,
}

/// Error codes: number, name, and `true` if the retryable writes specification lists the code.
const ERROR_CODES: [(i32, &str, bool); 39] = [
    (1, "InternalError", false),
    (6, "HostUnreachable", true),
    (7, "HostNotFound", true),
    (8, "UnknownError", false),
    (11, "UserNotFound", false),
    (13, "Unauthorized", false),
    (18, "AuthenticationFailed", false),
    (20, "IllegalOperation", false),
    (24, "LockTimeout", false),
    (26, "NamespaceNotFound", false),
    (43, "CursorNotFound", false),
    (50, "MaxTimeMSExpired", false),
    (59, "CommandNotFound", false),
    (64, "WriteConcernTimeout", false),
    (79, "UnknownReplWriteConcern", false),
    (89, "NetworkTimeout", true),
    (91, "ShutdownInProgress", true),
    (100, "UnsatisfiableWriteConcern", false),
    (112, "WriteConflict", false),
    (134, "ReadConcernMajorityNotAvailableYet", false),
    (189, "PrimarySteppedDown", true),
    (217, "IncompleteTransactionHistory", false),
    (225, "TransactionTooOld", false),
    (244, "TransactionAborted", false),
    (246, "SnapshotUnavailable", false),
    (251, "NoSuchTransaction", false),
    (262, "ExceededTimeLimit", true),
    (267, "PreparedTransactionInProgress", false),
    (286, "ChangeStreamHistoryLost", false),
    (391, "ReauthenticationRequired", false),
    (449, "RateLimitExceeded", false),
    (462, "IngressRequestRateLimitExceeded", false),
    (9001, "SocketException", true),
    (10107, "NotWritablePrimary", true),
    (11000, "DuplicateKey", false),
    (11600, "InterruptedAtShutdown", true),
    (11602, "InterruptedDueToReplStateChange", true),
    (13435, "NotPrimaryNoSecondaryOk", true),
    (13436, "NotPrimaryOrSecondary", true),
];

/// Returns the name of an error code.
#[must_use]
pub fn name_of(code: i32) -> Option<&'static str> {
    ERROR_CODES.iter().find(|(known, ..)| *known == code).map(|(_, name, _)| *name)
}

/// Returns `true` for "not primary" errors. Servers add their `topologyVersion` to them.
#[must_use]
pub fn is_not_primary(code: i32) -> bool {
    matches!(code, 189 | 10058 | 10107 | 11602 | 13435 | 13436)
}

/// Returns `true` for state change errors: "not primary" errors of current servers, and those of a server that
/// shuts down.
#[must_use]
pub fn is_state_change(code: i32) -> bool {
    // Current servers do not send 10058.
    matches!(code, 91 | 11600) || is_not_primary(code) && code != 10058
}

/// Returns `true` if the retryable writes specification lists the code. A retryable write, commit
/// or abort that fails with it gets the label `RetryableWriteError`.
///
/// The specification of retryable reads also lists `ReadConcernMajorityNotAvailableYet` (134);
/// reads do not get the label.
#[must_use]
pub fn is_retryable_write(code: i32) -> bool {
    ERROR_CODES.iter().any(|(known, _, retryable)| *known == code && *retryable)
}

/// Returns `true` if a change stream can resume after the error. The list is that of the change
/// streams specification.
#[must_use]
pub fn is_resumable(code: i32) -> bool {
    is_retryable_write(code) || matches!(code, 63 | 133 | 150 | 234 | 13388)
}

/// Returns `true` if a command of a transaction that fails with the code gets the label
/// `TransientTransactionError`.
///
/// `is_end` is `true` for a commit or an abort, which is retried alone after a retryable error. The
/// transactions specification leaves the codes to the server.
#[must_use]
pub fn is_transient_in_transaction(code: i32, is_end: bool) -> bool {
    match code {
        24 // LockTimeout
        | 112 // WriteConflict
        | 150 // StaleEpoch
        | 239 // SnapshotTooOld
        | 246 // SnapshotUnavailable
        | 249 // StaleDbVersion
        | 250 // StaleChunkHistory
        | 251 // NoSuchTransaction
        | 267 // PreparedTransactionInProgress
        | 13388 // StaleConfig
        => true,
        134 => !is_end, // ReadConcernMajorityNotAvailableYet
        _ => !is_end && is_retryable_write(code),
    }
}

/// Returns the labels that a current server adds to an error.
#[must_use]
pub fn labels_of(code: i32, context: ErrorContext) -> Vec<String> {
    if context.is_change_stream {
        let label = match code {
            // ChangeStreamFatalError
            280 => "NonResumableChangeStreamError",
            code if is_resumable(code) => "ResumableChangeStreamError",
            _ => return Vec::new(),
        };
        return vec![label.to_owned()];
    }
    let label = match context {
        ErrorContext { is_in_transaction: true, is_retryable_write: is_end, .. }
            if is_transient_in_transaction(code, is_end) =>
        {
            "TransientTransactionError"
        }
        ErrorContext { is_retryable_write: true, is_mongos: false, .. }
            if is_retryable_write(code) =>
        {
            "RetryableWriteError"
        }
        ErrorContext { .. } => return Vec::new(),
    };
    vec![label.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_those_of_servers() {
        let write = ErrorContext { is_retryable_write: true, ..ErrorContext::default() };
        let statement = ErrorContext { is_in_transaction: true, ..ErrorContext::default() };
        assert_eq!(labels_of(10107, write), ["RetryableWriteError"]);
        assert_eq!(labels_of(10107, statement), ["TransientTransactionError"]);
        assert_eq!(labels_of(112, statement), ["TransientTransactionError"]);
        assert!(labels_of(112, write).is_empty());
        assert!(labels_of(10107, ErrorContext::default()).is_empty());
        assert!(labels_of(11000, write).is_empty());
        assert!(labels_of(10107, ErrorContext { is_mongos: true, ..write }).is_empty());
        let end = ErrorContext { is_in_transaction: true, ..write };
        assert_eq!(labels_of(91, end), ["RetryableWriteError"]);
        assert_eq!(labels_of(251, end), ["TransientTransactionError"]);
        assert!(labels_of(50, end).is_empty());
        let stream = ErrorContext { is_change_stream: true, ..ErrorContext::default() };
        assert_eq!(labels_of(10107, stream), ["ResumableChangeStreamError"]);
        assert_eq!(labels_of(234, stream), ["ResumableChangeStreamError"]);
        assert_eq!(labels_of(280, stream), ["NonResumableChangeStreamError"]);
        assert!(labels_of(43, stream).is_empty());
    }

    /// The codes of the retryable writes specification.
    const RETRYABLE_WRITES: [i32; 12] =
        [6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436];

    #[test]
    fn codes_are_those_of_the_specifications() {
        let of =
            |is: &dyn Fn(i32) -> bool| (0..14_000).filter(|code| is(*code)).collect::<Vec<_>>();
        let with = |more: &[i32]| {
            let mut codes = [&RETRYABLE_WRITES, more].concat();
            codes.sort_unstable();
            codes
        };
        assert_eq!(of(&is_retryable_write), RETRYABLE_WRITES);
        assert_eq!(of(&is_state_change), [91, 189, 10107, 11600, 11602, 13435, 13436]);
        assert_eq!(of(&is_resumable), with(&[63, 133, 150, 234, 13388]));
        let of_commits = [24, 112, 150, 239, 246, 249, 250, 251, 267, 13388];
        assert_eq!(of(&|code| is_transient_in_transaction(code, true)), of_commits);
        let of_others = with(&[&of_commits[..], &[134]].concat());
        assert_eq!(of(&|code| is_transient_in_transaction(code, false)), of_others);
    }
}
