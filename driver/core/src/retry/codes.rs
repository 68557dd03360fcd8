//! The server's error codes, by what they mean for sending again and for what was written.

const HOST_UNREACHABLE: i32 = 6;
const HOST_NOT_FOUND: i32 = 7;
const NETWORK_TIMEOUT: i32 = 89;
pub(crate) const SHUTDOWN_IN_PROGRESS: i32 = 91;
const DOCUMENT_VALIDATION_FAILURE: i32 = 121;
const READ_CONCERN_MAJORITY_NOT_AVAILABLE_YET: i32 = 134;
pub(crate) const PRIMARY_STEPPED_DOWN: i32 = 189;
const EXCEEDED_TIME_LIMIT: i32 = 262;
const SOCKET_EXCEPTION: i32 = 9001;
pub(crate) const LEGACY_NOT_PRIMARY: i32 = 10058;
pub(crate) const NOT_WRITABLE_PRIMARY: i32 = 10107;
pub(crate) const INTERRUPTED_AT_SHUTDOWN: i32 = 11600;
pub(crate) const INTERRUPTED_DUE_TO_REPL_STATE_CHANGE: i32 = 11602;
pub(crate) const NOT_PRIMARY_NO_SECONDARY_OK: i32 = 13435;
pub(crate) const NOT_PRIMARY_OR_SECONDARY: i32 = 13436;

/// `IllegalOperation`.
pub(super) const ILLEGAL_OPERATION: i32 = 20;

/// The codes of the retryable writes specification.
pub(super) fn is_retryable_write(code: i32) -> bool {
    matches!(
        code,
        HOST_UNREACHABLE
            | HOST_NOT_FOUND
            | NETWORK_TIMEOUT
            | SHUTDOWN_IN_PROGRESS
            | PRIMARY_STEPPED_DOWN
            | EXCEEDED_TIME_LIMIT
            | SOCKET_EXCEPTION
            | NOT_WRITABLE_PRIMARY
            | INTERRUPTED_AT_SHUTDOWN
            | INTERRUPTED_DUE_TO_REPL_STATE_CHANGE
            | NOT_PRIMARY_NO_SECONDARY_OK
            | NOT_PRIMARY_OR_SECONDARY
    )
}

/// Whether a server that answers with this code is stopping, losing its office or cut off from others, so
/// that another try may go better. These are the codes of the retryable writes specification.
pub fn is_of_passing_state(code: i32) -> bool {
    is_retryable_write(code)
}

/// The codes of the retryable reads specification.
pub(super) fn is_retryable_read(code: i32) -> bool {
    is_retryable_write(code) || code == READ_CONCERN_MAJORITY_NOT_AVAILABLE_YET
}

/// The codes of the change streams specification, for servers that do not label resumable errors.
pub fn is_resumable(code: i32) -> bool {
    // StaleShardVersion, FailedToSatisfyReadPreference, StaleEpoch, RetryChangeStream, StaleConfig.
    is_retryable_write(code) || matches!(code, 63 | 133 | 150 | 234 | 13388)
}

/// `DuplicateKey` and the two other codes that servers have for it.
pub fn is_duplicate_key(code: i32) -> bool {
    matches!(code, 11000 | 11001 | 12582)
}

/// Codes that a server gives after it has looked into the session's record: had the write been
/// applied before, it would have answered from the record instead.
pub(super) fn is_after_session_record(code: i32) -> bool {
    code == DOCUMENT_VALIDATION_FAILURE || is_duplicate_key(code)
}

/// Codes of a single-document write that was not begun. Of any other command they tell nothing: an
/// aggregation expression raises `FailedToParse` for one of many documents, and an `update` command
/// checks some of its statements only when it comes to them.
pub(super) fn is_before_execution(code: i32) -> bool {
    matches!(
        code,
        9 // FailedToParse
        | 13 // Unauthorized
        | 59 // CommandNotFound
        | 72 // InvalidOptions
        | 73 // InvalidNamespace
        | 322 // APIVersionError
        | 323 // APIStrictError
        | 40415 // an unknown field
    )
}

/// Codes of a rate limiter that rejected the request before execution: `RateLimitExceeded` (449) of
/// MongoDB 8.2, whose only label is `SystemOverloadedError`, and `IngressRequestRateLimitExceeded` (462)
/// of the specification. A mongos passes on the rejection of a shard, and may have sent the command to
/// that shard before.
pub(super) fn is_rate_limit(code: i32) -> bool {
    matches!(code, 449 | 462)
}

/// Codes of one that carries a write out itself, by which it was interrupted or cannot tell, so
/// that the write may have been done.
pub(super) fn is_ambiguous(code: i32) -> bool {
    match code {
        // Refused at the door, or before the only document was touched.
        NOT_WRITABLE_PRIMARY | NOT_PRIMARY_NO_SECONDARY_OK => false,
        code if is_retryable_write(code) => true,
        0 // no code at all
        | 1 // InternalError
        | 8 // UnknownError
        | 50 // MaxTimeMSExpired
        | 64 // WriteConcernTimeout, were it ever the whole command's
        | 202 // NetworkInterfaceExceededTimeLimit
        | 217 // IncompleteTransactionHistory
        | 225 // TransactionTooOld
        | 237 // CursorKilled
        | 279 // ClientDisconnect
        | 290 // TransactionExceededLifetimeLimitSeconds
        | 11601 // Interrupted
        | 46841 // ClientMarkedKilled
        => true,
        _ => false,
    }
}
