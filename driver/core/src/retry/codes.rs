//! Server error codes, classified for retries and outcomes.

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

/// Returns `true` for the codes of the retryable writes specification.
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

/// Returns `true` for the codes of the retryable writes specification: the server shuts down, steps
/// down, or has lost its connections. A retry can succeed.
pub fn is_retryable_code(code: i32) -> bool {
    is_retryable_write(code)
}

/// Returns `true` for the codes of the retryable reads specification.
pub(super) fn is_retryable_read(code: i32) -> bool {
    is_retryable_write(code) || code == READ_CONCERN_MAJORITY_NOT_AVAILABLE_YET
}

/// Returns `true` for the codes of resumable change stream errors on servers that do not label them.
pub fn is_resumable(code: i32) -> bool {
    // StaleShardVersion, FailedToSatisfyReadPreference, StaleEpoch, RetryChangeStream, StaleConfig.
    is_retryable_write(code) || matches!(code, 63 | 133 | 150 | 234 | 13388)
}

/// Returns `true` for `DuplicateKey` and the two other codes that servers use for it.
pub fn is_duplicate_key(code: i32) -> bool {
    matches!(code, 11000 | 11001 | 12582)
}

/// Returns `true` for codes that a server returns after it has checked the session's transaction
/// record. An earlier successful attempt would have been answered from the record.
pub(super) fn is_after_session_record(code: i32) -> bool {
    code == DOCUMENT_VALIDATION_FAILURE || is_duplicate_key(code)
}

/// Returns `true` for codes of a single-document write that was rejected before execution. For
/// other commands they prove nothing: an aggregation expression returns `FailedToParse` for one of
/// many documents, and an `update` command validates some of its statements late.
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

/// Returns `true` for codes of a rate limiter that rejected the request before execution:
/// `RateLimitExceeded` (449) of MongoDB 8.2, whose only label is `SystemOverloadedError`, and
/// `IngressRequestRateLimitExceeded` (462) of the specification. A mongos forwards the rejection of
/// a shard, and may have sent the command to that shard before.
pub(super) fn is_rate_limit(code: i32) -> bool {
    matches!(code, 449 | 462)
}

/// Returns `true` for codes after which a write may have been executed: interruptions, shutdowns
/// and unknown errors of the server that executes it.
pub(super) fn is_ambiguous(code: i32) -> bool {
    match code {
        // Rejected before execution, or before the only document was modified.
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
