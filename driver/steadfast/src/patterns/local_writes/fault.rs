//! Cause of a failed write: the document, the datacenter, or an unknown one. Pure.
//!
//! A document that no datacenter would take must not be carried from one to the next: it would mark them
//! all down. A datacenter that cannot take anything must not pass for one that refused this document: the
//! write would be given up while another could do it. A router tells of both in the same way, as the error
//! of a statement, so the code decides. A code that is in neither list decides nothing: the next datacenter
//! is tried, so that no write is given up, and none is marked down, so that no document can take them all
//! down.

use super::Failed;
use crate::error::{Error, ErrorKind, WriteFailure};

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Any datacenter would refuse the document as this one did.
    Document,
    /// Another datacenter may take it.
    Datacenter,
    /// The code is in neither list. Another datacenter may take it, or refuse it as this one did.
    Unknown,
}

/// Whose fault the failure of an insert is.
pub(super) fn of(error: &Error) -> Fault {
    match &*error.kind {
        ErrorKind::InvalidArgument { .. } => Fault::Document,
        ErrorKind::Write(WriteFailure::WriteError(error)) => of_statement(error.code),
        ErrorKind::Command(error) => of_command(error.code),
        // The reply could not be read. What is to be sent is BSON before it comes here.
        ErrorKind::Bson(_) | ErrorKind::InvalidResponse { .. } => Fault::Datacenter,
        // Not refused: not durable in time.
        ErrorKind::Write(WriteFailure::WriteConcernError(_)) => Fault::Datacenter,
        ErrorKind::Authentication { .. }
        | ErrorKind::InsertMany(_)
        | ErrorKind::BulkWrite(_)
        | ErrorKind::DnsResolve { .. }
        | ErrorKind::GridFs(_)
        | ErrorKind::Internal { .. }
        | ErrorKind::Io(_)
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::MissingResumeToken
        | ErrorKind::ServerSelection { .. }
        | ErrorKind::SessionsNotSupported
        | ErrorKind::InvalidTlsConfig { .. }
        | ErrorKind::Timeout(_)
        | ErrorKind::Transaction { .. }
        | ErrorKind::IncompatibleServer { .. }
        | ErrorKind::Shutdown
        | ErrorKind::Custom(_) => Fault::Datacenter,
    }
}

/// Fault of a statement error with this code.
pub(super) fn of_statement(code: i32) -> Fault {
    if is_of_document(code) {
        Fault::Document
    } else if steadfast_core::retry::is_retryable_code(code) || is_of_state(code) {
        Fault::Datacenter
    } else {
        Fault::Unknown
    }
}

/// Fault of a command error with this code. A command error is seldom due to a document, so an unknown
/// code is taken to be the datacenter's.
fn of_command(code: i32) -> Fault {
    if is_of_document(code) { Fault::Document } else { Fault::Datacenter }
}

/// Returns `true` if every attempt failed for an unknown cause: every datacenter rejected the document.
pub(super) fn is_rejected_by_all(attempts: &[Failed]) -> bool {
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

/// Codes that tell of the state of a server, of a shard behind a router, or of what is between them.
fn is_of_state(code: i32) -> bool {
    matches!(
        code,
        0 // no code at all
        | 1 // InternalError
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
        | 90 // CallbackCanceled
        | 112 // WriteConflict
        | 117 // ConflictingOperationInProgress
        | 133 // FailedToSatisfyReadPreference: the shard has no primary
        | 134 // ReadConcernMajorityNotAvailableYet
        | 146 // ExceededMemoryLimit
        | 150 // StaleEpoch
        | 175 // QueryPlanKilled
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
        | 10058 // LegacyNotPrimary
        | 11601 // Interrupted
        | 13388 // StaleConfig
        | 14031 // OutOfDiskSpace
        | 46841 // ClientMarkedKilled
    )
}

/// Whether a probe that failed so was answered even so: by a server that did not even begin, because of
/// what it was asked and not because of its state. An application may have the right to insert and not to
/// delete, and some collections let nothing be deleted; the next write then shows what such an answer is
/// worth.
pub(super) fn is_answer(error: &Error) -> bool {
    match error.code() {
        Some(13 | 20) => true, // Unauthorized, IllegalOperation
        Some(_) | None => of(error) != Fault::Datacenter && !error.is_invalid_argument(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{WriteConcernError, WriteError};

    fn refused_with(code: i32) -> Error {
        let error = bson::doc! { "code": code, "errmsg": "no" };
        let error: WriteError = bson::deserialize_from_document(error).unwrap();
        Error::new(ErrorKind::Write(WriteFailure::WriteError(error)))
    }

    #[test]
    fn what_a_document_is_refused_for_is_its_own_fault() {
        for code in [2, 53, 61, 121, 171, 10334, 11000, 16755] {
            assert_eq!(of(&refused_with(code)), Fault::Document, "{code}");
        }
        assert_eq!(of(&Error::invalid_argument("too large")), Fault::Document);
    }

    #[test]
    fn a_command_that_cannot_be_read_for_its_document_is_the_documents_fault() {
        let refused = |code: i32| {
            let reply = bson::rawdoc! { "ok": 0, "code": code, "errmsg": "no" };
            crate::error::command_error::refusal(&reply).expect("it is an error")
        };
        for code in [2, 15, 22, 10334] {
            assert_eq!(of(&refused(code)), Fault::Document, "{code}");
        }
        for code in [13, 50, 91, 10107] {
            assert_eq!(of(&refused(code)), Fault::Datacenter, "{code}");
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
        for error in [Error::new(concern), Error::timed_out("a reply"), ErrorKind::Shutdown.into()]
        {
            assert_eq!(of(&error), Fault::Datacenter, "{error}");
        }
    }

    #[test]
    fn a_probe_that_is_not_allowed_was_answered() {
        assert!(is_answer(&refused_with(13)));
        assert!(!is_answer(&refused_with(133)));
        assert!(!is_answer(&Error::timed_out("a reply")));
        assert!(!is_answer(&Error::invalid_argument("no such name")));
    }
}
