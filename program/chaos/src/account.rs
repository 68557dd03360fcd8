//! History of a run: operations with their results, faults, and the writes found in the database at the end. The
//! verdict, the figures and the report are computed from it.
//!
//! Times are relative to the beginning of the load.

use std::{collections::BTreeMap, time::Duration};

use steadfast::error::Outcome;

use super::plan::{Fault, Plan};

/// History of a run.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) plan: Plan,
    /// Description of the servers: `mongod 6.0.5`.
    pub(super) server: String,
    /// Duration of the load, which is shorter than planned after an interruption.
    pub(super) lasted: Duration,
    /// `true` if the user ended the load early.
    pub(super) interrupted: bool,
    /// Operations, ordered by their end.
    pub(super) records: Vec<Record>,
    /// Faults, ordered by their beginning.
    pub(super) incidents: Vec<Incident>,
    /// Number of times that each mark is in the database at the end.
    pub(super) census: BTreeMap<u64, u64>,
}

/// Kind of write.
///
/// Every write has marks: unique numbers that the database contains once for each time that the write was
/// applied. With a sum, a lost write and a duplicated one would cancel out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Increment,
    InsertOne,
    InsertMany,
    UpdateOne,
    ReplaceOne,
    DeleteOne,
    FindOneAndUpdate,
    FindOneAndReplace,
    FindOneAndDelete,
    BulkWrite,
    /// An update, an insert and a delete in one transaction.
    Transaction,
}

impl Kind {
    /// Number of marks that are reserved for each operation.
    pub(super) const MARKS: u64 = 3;

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Increment => "increment",
            Self::InsertOne => "insert_one",
            Self::InsertMany => "insert_many",
            Self::UpdateOne => "update_one",
            Self::ReplaceOne => "replace_one",
            Self::DeleteOne => "delete_one",
            Self::FindOneAndUpdate => "find_one_and_update",
            Self::FindOneAndReplace => "find_one_and_replace",
            Self::FindOneAndDelete => "find_one_and_delete",
            Self::BulkWrite => "bulk_write",
            Self::Transaction => "transaction",
        }
    }

    /// Returns the marks of an operation of this kind.
    pub(super) fn marks(self, operation: u64) -> impl Iterator<Item = u64> {
        let count = match self {
            Self::InsertMany | Self::BulkWrite | Self::Transaction => Self::MARKS,
            Self::Increment
            | Self::InsertOne
            | Self::UpdateOne
            | Self::ReplaceOne
            | Self::DeleteOne
            | Self::FindOneAndUpdate
            | Self::FindOneAndReplace
            | Self::FindOneAndDelete => 1,
        };
        (0..count).map(move |nth| operation * Self::MARKS + nth)
    }

    /// Returns `true` if the marks are applied together or not at all.
    pub(super) fn is_atomic(self) -> bool {
        self == Self::Transaction
    }
}

/// A completed operation.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// Number of the operation, from 0.
    pub(super) operation: u64,
    pub(super) kind: Kind,
    pub(super) began: Duration,
    pub(super) took: Duration,
    pub(super) answer: Answer,
    /// Number of attempts by the driver and by the application's strategy: commands that were sent and failed,
    /// plus one if the operation succeeded. A successful operation of several commands, such as a bulk write, has
    /// one attempt.
    pub(super) attempts: u32,
    /// Failed attempts in order of time, including those that were retried successfully.
    pub(super) failures: Vec<Failure>,
}

/// Result of a write, as the application received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Acknowledged,
    /// Acknowledged with an impossible result, such as no matched document.
    Wrong(String),
    Failed(Outcome),
    /// The caller dropped the future before it completed.
    Dropped,
}

/// Class of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultClass {
    Acknowledged,
    /// The operation failed and was certainly not applied.
    NotApplied,
    /// The operation failed or was dropped, and may have been applied.
    InDoubt,
}

impl Answer {
    pub(super) fn class(&self) -> ResultClass {
        match self {
            Self::Acknowledged | Self::Wrong(_) => ResultClass::Acknowledged,
            Self::Failed(outcome) if outcome.is_certainly_not_applied() => ResultClass::NotApplied,
            Self::Failed(_) | Self::Dropped => ResultClass::InDoubt,
        }
    }
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Failure {
    pub(super) at: Duration,
    /// Kind of the error, without addresses and times: `connection reset`, `NotWritablePrimary (10107)`.
    pub(super) what: String,
}

/// An injected fault.
#[derive(Clone, Debug)]
pub(super) struct Incident {
    pub(super) fault: Fault,
    /// Description: `the primary, 127.0.0.1:40123, is killed`.
    pub(super) what: String,
    pub(super) began: Duration,
    /// Equal to `began` for a fault without duration.
    pub(super) ended: Duration,
    /// `true` if the fault makes an election necessary.
    pub(super) is_failover: bool,
    /// Affected requests, if they are counted (cuts, rejections), or dropped calls.
    pub(super) hits: u64,
    /// Hits after which the server executed the command and the reply was lost. A retry that the server does not
    /// recognise would apply such a write twice.
    pub(super) lost_replies: u64,
}
