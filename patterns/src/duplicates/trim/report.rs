//! Report of a trim.

use std::fmt;

use bson::{Bson, Document, oid::ObjectId};

use steadfast::error::Error;

/// Report of a trim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrimReport {
    /// `true` if it was a dry run, which deletes nothing.
    pub dry_run: bool,
    /// Documents that were read.
    pub examined: u64,
    /// Events with several copies.
    pub duplicated: u64,
    /// Copies equal to the one to keep. A dry run keeps them.
    pub surplus: u64,
    /// Deleted copies. Fewer than `surplus` if another trim ran at the same time.
    pub deleted: u64,
    /// Copies that differ from the one to keep, and were kept.
    pub differing: u64,
    /// Events that were skipped because a copy is younger than [`older_than`](super::Trim::older_than).
    pub too_young: u64,
    /// Copies that no longer existed when they were read again, or whose copy to keep did not.
    pub missing: u64,
    /// Copies that were kept because another copy has the same `_id` and the same datacenter.
    pub indistinguishable: u64,
    /// Events with more than a thousand copies, which were skipped: check the key.
    pub too_many_copies: u64,
    /// Documents without a key.
    pub missing_key: u64,
    /// Documents whose key is an array.
    pub array_key: u64,
    /// Documents with a key whose `_id` is not an ObjectId.
    pub not_object_id: u64,
}

/// A copy other than the one to keep.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Surplus {
    /// Fields of the key, with their values.
    pub key: Document,
    /// The copy to keep.
    pub kept: CopyLocation,
    /// This copy.
    pub copy: CopyLocation,
    /// Finding.
    pub finding: Finding,
}

/// Location of a copy.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CopyLocation {
    /// Index of the collection, as listed in [`Duplicates::over`](super::super::Duplicates::over), from 0.
    pub deployment: usize,
    /// `_id` of the copy.
    pub id: ObjectId,
    /// Value of the datacenter's field.
    pub datacenter: Option<Bson>,
}

/// Finding of a trim about a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Finding {
    /// Equal to the one to keep. It is deleted unless this is a dry run.
    Surplus,
    /// Different from the one to keep.
    Differs,
    /// A copy of the event is younger than [`older_than`](super::Trim::older_than).
    TooYoung,
    /// It no longer existed when it was read again, or the copy to keep did not.
    Missing,
    /// Another copy has the same `_id` and the same datacenter.
    Indistinguishable,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Surplus => "surplus",
            Self::Differs => "differs",
            Self::TooYoung => "too young",
            Self::Missing => "missing",
            Self::Indistinguishable => "indistinguishable",
        })
    }
}

/// Error of a trim that ended early, or that had to keep copies that could not be marked. Its deletions are
/// done, and it can be repeated.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the trim is not complete")]
#[non_exhaustive]
pub struct TrimError {
    /// Error of the driver.
    #[source]
    pub source: Error,
    /// `true` if it ended early. Otherwise all documents were read, and `source` is the error of copies that
    /// could not be marked.
    pub ended_early: bool,
    /// Report so far, without a deletion in progress.
    pub report: Box<TrimReport>,
}

impl From<TrimError> for Error {
    fn from(error: TrimError) -> Self {
        error.source
    }
}
