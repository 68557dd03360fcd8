//! Cause of a failed write: the document, the datacenter, or unknown. Pure.
//!
//! A document that no datacenter accepts must not mark them all down. A datacenter that cannot accept any
//! document must not reject this one, because another could accept it. A mongos reports both as errors of a
//! statement, so the code decides. A code in neither list decides nothing: the next datacenter is tried, and
//! none is marked down.

use super::FailedAttempt;
use steadfast::error::{Error, ErrorKind, WriteFailure};

/// Cause of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Any datacenter would reject the document.
    Document,
    /// Another datacenter may accept it.
    Datacenter,
    /// The code is in neither list. Another datacenter may accept it or reject it.
    Unknown,
}

/// Returns the cause of a failed insert.
pub(super) fn of(error: &Error) -> Fault {
    match &*error.kind {
        ErrorKind::InvalidArgument { .. } => Fault::Document,
        ErrorKind::Write(WriteFailure::WriteError(error)) => of_statement(error.code),
        ErrorKind::Command(error) => of_command(error.code),
        // Among others: network errors, server selection errors, time-outs, write concern errors, and replies
        // that cannot be read. (The document was encoded before.)
        _ => Fault::Datacenter,
    }
}

/// Returns the cause of a statement error with this code.
pub(super) fn of_statement(code: i32) -> Fault {
    if is_of_document(code) {
        Fault::Document
    } else if is_of_state(code) {
        Fault::Datacenter
    } else {
        Fault::Unknown
    }
}

/// Returns the cause of a command error with this code. A command error is seldom about a document, so an
/// unknown code is that of the datacenter.
fn of_command(code: i32) -> Fault {
    if is_of_document(code) { Fault::Document } else { Fault::Datacenter }
}

/// Returns `true` if every attempt failed for an unknown cause: every datacenter rejected the document.
pub(super) fn is_rejected_by_all(attempts: &[FailedAttempt]) -> bool {
    attempts.iter().all(|failed| of(&failed.error) == Fault::Unknown)
}

/// Codes of a document that does not fit the collection, its validator, its indexes or its shard key.
fn is_of_document(code: i32) -> bool {
    matches!(
        code,
        2 // BadValue
        | 9 // FailedToParse
        | 14 // TypeMismatch
        | 15 // Overflow: documents within documents, more than a command can have
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
fn is_of_state(code: i32) -> bool {
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
pub(super) fn is_answer(error: &Error) -> bool {
    match error.code() {
        Some(13 | 20) => true, // Unauthorized, IllegalOperation
        Some(_) | None => of(error) != Fault::Datacenter && !error.is_invalid_argument(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use steadfast::error::{WriteConcernError, WriteError};

    fn refused_with(code: i32) -> Error {
        let error = bson::doc! { "code": code, "errmsg": "no" };
        let error: WriteError = bson::deserialize_from_document(error).unwrap();
        Error::from(ErrorKind::Write(WriteFailure::WriteError(error)))
    }

    fn timed_out() -> Error {
        io::Error::new(io::ErrorKind::TimedOut, "no reply").into()
    }

    #[test]
    fn what_a_document_is_refused_for_is_its_own_fault() {
        for code in [2, 53, 61, 121, 171, 10334, 11000, 16755] {
            assert_eq!(of(&refused_with(code)), Fault::Document, "{code}");
        }
        assert_eq!(of(&Error::invalid_argument("too large")), Fault::Document);
    }

    #[test]
    fn a_command_error_about_the_document_is_the_documents_fault() {
        for code in [2, 15, 22, 10334] {
            assert_eq!(of_command(code), Fault::Document, "{code}");
        }
        for code in [13, 50, 91, 10107] {
            assert_eq!(of_command(code), Fault::Datacenter, "{code}");
        }
    }

    #[test]
    fn a_statement_that_a_router_refuses_for_a_shards_state_is_the_datacenters_fault() {
        for code in [6, 50, 91, 133, 189, 202, 449, 462, 8000, 10107, 13388, 14031] {
            assert_eq!(of(&refused_with(code)), Fault::Datacenter, "{code}");
        }
    }

    #[test]
    fn an_unlisted_statement_code_blames_neither_the_document_nor_the_datacenter() {
        for code in [3, 8001, 99_999] {
            assert_eq!(of(&refused_with(code)), Fault::Unknown, "{code}");
        }
    }

    #[test]
    fn what_is_late_broken_or_not_durable_is_the_datacenters_fault() {
        let concern = bson::doc! { "code": 64, "errmsg": "late" };
        let concern: WriteConcernError = bson::deserialize_from_document(concern).unwrap();
        let concern = ErrorKind::Write(WriteFailure::WriteConcernError(concern));
        for error in [Error::from(concern), timed_out(), ErrorKind::Shutdown.into()] {
            assert_eq!(of(&error), Fault::Datacenter, "{error}");
        }
    }

    #[test]
    fn a_probe_that_is_not_allowed_was_answered() {
        assert!(is_answer(&refused_with(13)));
        assert!(!is_answer(&refused_with(133)));
        assert!(!is_answer(&timed_out()));
        assert!(!is_answer(&Error::invalid_argument("no such name")));
    }
}
