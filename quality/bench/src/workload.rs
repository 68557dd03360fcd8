//! What is measured: the kinds of operations, and how many documents each moves.

use serde::{Deserialize, Serialize};

/// How many documents an `insertMany` inserts and a cursor is drained of.
pub(crate) const MANY: usize = 100_000;
/// The same where instructions are counted, which takes fifty times as long.
pub(crate) const SOME: usize = 2_000;
/// How many writes a bulk write mixes.
pub(crate) const MIXED: usize = 1_000;

/// What a bulk write mixes, by the `_id`s of the documents. It leaves the collection as it was.
pub(crate) mod mixed {
    use std::ops::Range;

    pub(crate) const INSERTED: Range<i32> = 1_000_000..1_000_300;
    pub(crate) const UPDATED: Range<i32> = 0..200;
    pub(crate) const REPLACED: Range<i32> = 200..400;
    pub(crate) const DELETED: Range<i32> = INSERTED;
}

/// How many documents there are to be found and updated by `_id`, from 0 on.
pub(crate) const NUMBERED: i32 = 1_000;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// `ping`.
    Ping,
    /// One document, as a write that may be retried.
    InsertOne,
    /// One document with `retryWrites=false`.
    InsertOnePlain,
    /// `$inc` by `_id`.
    UpdateOne,
    /// By `_id`, as a struct.
    FindOne,
    /// Raw documents.
    InsertMany,
    /// Inserts, updates, replacements and deletes, unordered.
    BulkWrite,
    /// A cursor, each document as a `Document`.
    DrainDocuments,
    /// A cursor, each document as a struct.
    DrainStructs,
    /// A cursor, each document as its bytes.
    DrainRaw,
    /// A document of two megabytes.
    InsertLarge,
    /// The same, read.
    FindLarge,
}

impl Workload {
    pub(crate) const ALL: [Self; 12] = [
        Self::Ping,
        Self::InsertOne,
        Self::InsertOnePlain,
        Self::UpdateOne,
        Self::FindOne,
        Self::InsertMany,
        Self::BulkWrite,
        Self::DrainDocuments,
        Self::DrainStructs,
        Self::DrainRaw,
        Self::InsertLarge,
        Self::FindLarge,
    ];

    /// As it is called on the command line and in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::InsertOne => "insert-one",
            Self::InsertOnePlain => "insert-one-plain",
            Self::UpdateOne => "update-one",
            Self::FindOne => "find-one",
            Self::InsertMany => "insert-many",
            Self::BulkWrite => "bulk-write",
            Self::DrainDocuments => "drain-documents",
            Self::DrainStructs => "drain-structs",
            Self::DrainRaw => "drain-raw",
            Self::InsertLarge => "insert-large",
            Self::FindLarge => "find-large",
        }
    }

    /// How many units a call counts for: documents or writes if it moves many, else one operation.
    pub(crate) fn units(self, documents: usize) -> u64 {
        match self {
            Self::InsertMany | Self::DrainDocuments | Self::DrainStructs | Self::DrainRaw => {
                documents as u64
            }
            Self::BulkWrite => MIXED as u64,
            Self::Ping
            | Self::InsertOne
            | Self::InsertOnePlain
            | Self::UpdateOne
            | Self::FindOne
            | Self::InsertLarge
            | Self::FindLarge => 1,
        }
    }

    /// Whether a call moves many documents.
    pub(crate) fn moves_many(self) -> bool {
        self.units(MANY) > 1
    }

    /// Whether its writes name themselves, so that they can be retried.
    pub(crate) fn retries(self) -> bool {
        self != Self::InsertOnePlain
    }

    /// The collection that it works on.
    pub(crate) fn collection(self) -> &'static str {
        match self {
            Self::Ping | Self::InsertOne | Self::InsertOnePlain => "written",
            Self::InsertMany | Self::InsertLarge => "written_many",
            Self::UpdateOne | Self::FindOne | Self::BulkWrite => "numbered",
            Self::DrainDocuments | Self::DrainStructs | Self::DrainRaw => "many",
            Self::FindLarge => "large",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_has_one_name_everywhere() {
        for workload in Workload::ALL {
            assert_eq!(serde_json::to_value(workload).unwrap(), workload.name());
        }
    }
}
