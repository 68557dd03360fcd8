//! What is kept of a run: each operation with what the application was told, each fault, and what the database
//! holds in the end. All else, the verdict, the figures and the report, is made of this.
//!
//! Times are since the load began.

use std::{collections::BTreeMap, time::Duration};

use steadfast::error::Outcome;

use super::plan::{Fault, Plan};

/// All of it.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) plan: Plan,
    /// What the servers are: `mongod 6.0.5`.
    pub(super) server: String,
    /// How long the load lasted; less than planned if it was cut short.
    pub(super) lasted: Duration,
    /// Whether it was told to end early.
    pub(super) interrupted: bool,
    /// By the time that they ended.
    pub(super) records: Vec<Record>,
    /// By the time that they began.
    pub(super) incidents: Vec<Incident>,
    /// How often each mark is found to be applied, in the end.
    pub(super) census: BTreeMap<u64, u64>,
}

/// A write that no other is like.
///
/// Every write has marks, numbers that no other has and that are seen in the database once for each time that
/// it was applied. A sum alone would let a lost write cancel out a doubled one.
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
    /// An update, an insert and a delete, which are applied together or not at all.
    Transaction,
}

impl Kind {
    /// So many marks each operation has to itself.
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

    /// The marks of an operation of this kind.
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

    /// True if its marks are applied together or not at all.
    pub(super) fn is_atomic(self) -> bool {
        self == Self::Transaction
    }
}

/// An operation that ended.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// Its number, from 0.
    pub(super) operation: u64,
    pub(super) kind: Kind,
    pub(super) began: Duration,
    pub(super) took: Duration,
    /// What the application was told.
    pub(super) answer: Answer,
    /// How often it was tried, by the driver and by the application's strategy: the commands that were sent and
    /// failed, and one more if it came to a good end. What takes several commands, as a bulk write does, is tried
    /// once if all goes well.
    pub(super) attempts: u32,
    /// Why attempts failed, in their order, those included that another one made good.
    pub(super) failures: Vec<Failure>,
}

/// What the application was told of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Acknowledged,
    /// It was, with a result that cannot be: none matched, a document that was changed already.
    Wrong(String),
    Failed(Outcome),
    /// Nothing: the caller dropped the future of the call before its end.
    Dropped,
}

/// The three things that an application can be told of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Acknowledged,
    /// It failed, and has certainly written nothing.
    NotApplied,
    /// It failed or was dropped, and may have written.
    InDoubt,
}

impl Answer {
    pub(super) fn told(&self) -> Told {
        match self {
            Self::Acknowledged | Self::Wrong(_) => Told::Acknowledged,
            Self::Failed(outcome) if outcome.is_certainly_not_applied() => Told::NotApplied,
            Self::Failed(_) | Self::Dropped => Told::InDoubt,
        }
    }
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Failure {
    /// When.
    pub(super) at: Duration,
    /// Its kind, in words that are the same for all of the kind: `connection reset`, `NotWritablePrimary (10107)`.
    pub(super) what: String,
}

/// A fault that happened.
#[derive(Clone, Debug)]
pub(super) struct Incident {
    pub(super) fault: Fault,
    /// In words: `the primary, 127.0.0.1:40123, is killed`.
    pub(super) what: String,
    pub(super) began: Duration,
    /// When it was over; as it began for what takes no time.
    pub(super) ended: Duration,
    /// Whether the set then needs another primary.
    pub(super) is_failover: bool,
    /// Requests that it has met, where that is known (cuts, rejections), or calls that were dropped.
    pub(super) hits: u64,
    /// How many of them the server had executed when the reply was lost: what an application that sends it again
    /// would do twice.
    pub(super) lost_replies: u64,
}
