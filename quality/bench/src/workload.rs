//! Workloads: kinds of operations and their numbers of documents.

use serde::{Deserialize, Serialize};

/// Documents per `insertMany` and per drained cursor.
pub(crate) const MANY_DOCUMENTS: usize = 100_000;
/// The same for counted instructions: valgrind is about fifty times slower.
pub(crate) const COUNTED_DOCUMENTS: usize = 2_000;
/// Writes per bulk write.
pub(crate) const BULK_WRITES: usize = 1_000;

/// `_id`s of the documents of a bulk write. It leaves the collection unchanged.
pub(crate) mod mixed {
    use std::ops::Range;

    pub(crate) const INSERTED: Range<i32> = 1_000_000..1_000_300;
    pub(crate) const UPDATED: Range<i32> = 0..200;
    pub(crate) const REPLACED: Range<i32> = 200..400;
    pub(crate) const DELETED: Range<i32> = INSERTED;
}

/// Documents that are found and updated by `_id`, numbered from 0.
pub(crate) const NUMBERED_DOCUMENTS: i32 = 1_000;

/// Kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// `ping`.
    Ping,
    /// Inserts one document as a retryable write.
    InsertOne,
    /// Inserts one document with `retryWrites=false`.
    InsertOnePlain,
    /// Updates one document by `_id` with `$inc`.
    UpdateOne,
    /// Finds one document by `_id`, as a struct.
    FindOne,
    /// Inserts many raw documents.
    InsertMany,
    /// Unordered bulk write of inserts, updates, replacements and deletes.
    BulkWrite,
    /// Reads a cursor as `Document`s.
    DrainDocuments,
    /// Reads a cursor as structs.
    DrainStructs,
    /// Reads a cursor as raw documents.
    DrainRaw,
    /// Inserts a document of two megabytes.
    InsertLarge,
    /// Finds a document of two megabytes.
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

    /// Name on the command line and in the table.
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

    /// Returns the units of a call: documents or writes if it has many, else one operation.
    pub(crate) fn units(self, documents: usize) -> u64 {
        match self {
            Self::InsertMany | Self::DrainDocuments | Self::DrainStructs | Self::DrainRaw => {
                documents as u64
            }
            Self::BulkWrite => BULK_WRITES as u64,
            Self::Ping
            | Self::InsertOne
            | Self::InsertOnePlain
            | Self::UpdateOne
            | Self::FindOne
            | Self::InsertLarge
            | Self::FindLarge => 1,
        }
    }

    /// Returns `true` if a call has many documents.
    pub(crate) fn has_many_documents(self) -> bool {
        self.units(MANY_DOCUMENTS) > 1
    }

    /// Returns `true` if its writes are retryable.
    pub(crate) fn has_retryable_writes(self) -> bool {
        self != Self::InsertOnePlain
    }

    /// Returns the name of its collection.
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
    fn workload_name_is_its_serialized_form() {
        for workload in Workload::ALL {
            assert_eq!(serde_json::to_value(workload).unwrap(), workload.name());
        }
    }
}
