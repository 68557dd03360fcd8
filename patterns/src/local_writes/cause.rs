//! Cause of a failed write: the document, the datacenter, or unknown. Pure.
//!
//! A document that every datacenter rejects must not mark all of them down. An error of the datacenter must not
//! end the insert, because another datacenter may accept the document. A mongos reports both as statement
//! errors, so the code decides. After a code in neither list the next datacenter is tried, and none is marked
//! down.

use super::FailedAttempt;
use steadfast::error::{Error, ErrorKind, WriteFailure};

/// Cause of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureCause {
    /// Any datacenter would reject the document.
    Document,
    /// Another datacenter may accept it.
    Datacenter,
    /// The code is in neither list. Another datacenter may accept or reject the document.
    Unknown,
}

/// Returns the cause of a failed insert.
pub(super) fn classify(error: &Error) -> FailureCause {
    match &*error.kind {
        ErrorKind::InvalidArgument { .. } => FailureCause::Document,
        ErrorKind::Write(WriteFailure::WriteError(error)) => classify_statement(error.code),
        ErrorKind::Command(error) => classify_command(error.code),
        // Among others: network errors, server selection errors, time-outs, write concern errors, and replies
        // that cannot be read. (The document was encoded before.)
        _ => FailureCause::Datacenter,
    }
}

/// Returns the cause of a statement error with this code.
pub(super) fn classify_statement(code: i32) -> FailureCause {
    if is_document_code(code) {
        FailureCause::Document
    } else if is_state_code(code) {
        FailureCause::Datacenter
    } else {
        FailureCause::Unknown
    }
}

/// Returns the cause of a command error with this code. Command errors seldom concern a document, so a code in
/// neither list is attributed to the datacenter.
fn classify_command(code: i32) -> FailureCause {
    if is_document_code(code) { FailureCause::Document } else { FailureCause::Datacenter }
}

/// Returns `true` if every attempt failed for an unknown cause: every datacenter rejected the document.
pub(super) fn is_rejected_by_all(attempts: &[FailedAttempt]) -> bool {
    attempts.iter().all(|failed| classify(&failed.error) == FailureCause::Unknown)
}

/// Codes of a document that does not fit the collection, its validator, its indexes or its shard key.
fn is_document_code(code: i32) -> bool {
    matches!(
        code,
        2 // BadValue
        | 9 // FailedToParse
        | 14 // TypeMismatch
        | 15 // Overflow: nested too deeply
        | 22 // InvalidBSON
        | 52 // DollarPrefixedFieldName
        | 53 // InvalidIdField
        | 56 // EmptyFieldName
        | 57 // DottedFieldName
        | 61 // ShardKeyNotFound
        | 72 // InvalidOptions
        | 73 // InvalidNamespace
        | 116 // DocTooLargeForCapped
        | 121 // DocumentValidationFailure
        | 171 // CannotIndexParallelArrays
        | 201 // CannotBuildIndexKeys
        | 10334 // BSONObjectTooLarge
        | 11000 | 11001 | 12582 // DuplicateKey
        | 16755 // a value that a 2dsphere index cannot hold
        | 17280 // KeyTooLong
    )
}

/// Codes of the state of a server, of a shard behind a mongos, or of the network.
fn is_state_code(code: i32) -> bool {
    matches!(
        code,
        0 // no code at all
        | 1 // InternalError
        | 6 // HostUnreachable
        | 7 // HostNotFound
        | 8 // UnknownError
        | 13 // Unauthorized: rights differ from one deployment to the next
        | 18 // AuthenticationFailed
        | 24 // LockTimeout
        | 46 // LockBusy
        | 50 // MaxTimeMSExpired
        | 63 // StaleShardVersion
        | 64 // WriteConcernFailed
        | 70 // ShardNotFound
        | 71 // ReplicaSetNotFound
        | 82 // NoProgressMade
        | 83 // RemoteResultsUnavailable
        | 89 // NetworkTimeout
        | 90 // CallbackCanceled
        | 91 // ShutdownInProgress
        | 112 // WriteConflict
        | 117 // ConflictingOperationInProgress
        | 133 // FailedToSatisfyReadPreference: the shard has no primary
        | 134 // ReadConcernMajorityNotAvailableYet
        | 146 // ExceededMemoryLimit
        | 150 // StaleEpoch
        | 175 // QueryPlanKilled
        | 189 // PrimarySteppedDown
        | 202 // NetworkInterfaceExceededTimeLimit
        | 203 // ShardingStateNotInitialized
        | 211 // KeyNotFound
        | 217 // IncompleteTransactionHistory
        | 225 // TransactionTooOld
        | 237 // CursorKilled
        | 246 // SnapshotUnavailable
        | 249 // StaleDbVersion
        | 250 // StaleChunkHistory
        | 251 // NoSuchTransaction
        | 262 // ExceededTimeLimit
        | 272 // MigrationConflict
        | 279 // ClientDisconnect
        | 290 // TransactionExceededLifetimeLimitSeconds
        | 314 // ObjectIsBusy
        | 317 // ConnectionPoolExpired
        | 338 // ReshardCollectionInProgress
        | 365 // TemporarilyUnavailable
        | 371 // UserWritesBlocked
        | 449 // RateLimitExceeded, of MongoDB 8.2: a shard rejected the statement
        | 462 // IngressRequestRateLimitExceeded
        | 8000 // AtlasError: over the space quota, for instance
        | 9001 // SocketException
        | 10058 // LegacyNotPrimary
        | 10107 // NotWritablePrimary
        | 11600 // InterruptedAtShutdown
        | 11601 // Interrupted
        | 11602 // InterruptedDueToReplStateChange
        | 13388 // StaleConfig
        | 13435 // NotPrimaryNoSecondaryOk
        | 13436 // NotPrimaryOrSecondary
        | 14031 // OutOfDiskSpace
        | 46841 // ClientMarkedKilled
    )
}

/// Returns `true` if a failed probe shows that the datacenter is up: the server rejected the command because of
/// its content, not because of its state. An application may be allowed to insert and not to delete, and some
/// collections forbid deletes; the next write then shows whether the datacenter is up.
pub(super) fn shows_that_it_is_up(error: &Error) -> bool {
    match error.code() {
        Some(13 | 20) => true, // Unauthorized, IllegalOperation
        Some(_) | None => {
            classify(error) != FailureCause::Datacenter && !error.is_invalid_argument()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use steadfast::error::{WriteConcernError, WriteError};

    fn write_error_with(code: i32) -> Error {
        let error = bson::doc! { "code": code, "errmsg": "no" };
        let error: WriteError = bson::deserialize_from_document(error).unwrap();
        Error::from(ErrorKind::Write(WriteFailure::WriteError(error)))
    }

    fn timed_out() -> Error {
        io::Error::new(io::ErrorKind::TimedOut, "no reply").into()
    }

    #[test]
    fn document_codes_are_attributed_to_the_document() {
        for code in [2, 53, 61, 121, 171, 10334, 11000, 16755] {
            assert_eq!(classify(&write_error_with(code)), FailureCause::Document, "{code}");
        }
        assert_eq!(classify(&Error::invalid_argument("too large")), FailureCause::Document);
    }

    #[test]
    fn command_errors_with_document_codes_are_attributed_to_the_document() {
        for code in [2, 15, 22, 10334] {
            assert_eq!(classify_command(code), FailureCause::Document, "{code}");
        }
        for code in [13, 50, 91, 10107] {
            assert_eq!(classify_command(code), FailureCause::Datacenter, "{code}");
        }
    }

    #[test]
    fn statement_errors_of_a_shards_state_are_attributed_to_the_datacenter() {
        for code in [6, 50, 91, 133, 189, 202, 449, 462, 8000, 10107, 13388, 14031] {
            assert_eq!(classify(&write_error_with(code)), FailureCause::Datacenter, "{code}");
        }
    }

    #[test]
    fn unlisted_statement_codes_have_an_unknown_cause() {
        for code in [3, 8001, 99_999] {
            assert_eq!(classify(&write_error_with(code)), FailureCause::Unknown, "{code}");
        }
    }

    #[test]
    fn time_outs_shutdowns_and_write_concern_errors_are_attributed_to_the_datacenter() {
        let concern = bson::doc! { "code": 64, "errmsg": "late" };
        let concern: WriteConcernError = bson::deserialize_from_document(concern).unwrap();
        let concern = ErrorKind::Write(WriteFailure::WriteConcernError(concern));
        for error in [Error::from(concern), timed_out(), ErrorKind::Shutdown.into()] {
            assert_eq!(classify(&error), FailureCause::Datacenter, "{error}");
        }
    }

    #[test]
    fn unauthorized_probe_shows_that_the_datacenter_is_up() {
        assert!(shows_that_it_is_up(&write_error_with(13)));
        assert!(!shows_that_it_is_up(&write_error_with(133)));
        assert!(!shows_that_it_is_up(&timed_out()));
        assert!(!shows_that_it_is_up(&Error::invalid_argument("no such name")));
    }
}
