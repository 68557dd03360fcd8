//! What a trim found and did.

use std::fmt;

use bson::{Bson, Document, oid::ObjectId};

use crate::error::Error;

/// What a trim found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrimReport {
    /// Whether it only looked.
    pub dry_run: bool,
    /// Documents that were looked at.
    pub examined: u64,
    /// Events that there are several copies of.
    pub duplicated: u64,
    /// Copies that are too many: equal to the one that is kept. A dry run leaves them, else they are to be
    /// deleted.
    pub surplus: u64,
    /// Copies that were deleted. Fewer than `surplus` if another trim was at it, too.
    pub deleted: u64,
    /// Copies that differ from the one that is kept, and were left alone.
    pub differing: u64,
    /// Events that were left alone because a copy is younger than
    /// [`older_than`](super::Trim::older_than).
    pub too_young: u64,
    /// Copies that were gone, or whose one to keep was gone, when they were looked at again.
    pub gone: u64,
    /// Copies that were left alone because one of them has the `_id` and the datacenter of another: nothing
    /// tells the two apart.
    pub indistinguishable: u64,
    /// Events with more than a thousand copies, which were left alone: is the key that of an event?
    pub crowded: u64,
    /// Documents without a key.
    pub missing_key: u64,
    /// Documents whose key is an array.
    pub array_key: u64,
    /// Documents with a key whose `_id` is not an ObjectId.
    pub not_object_id: u64,
}

/// A copy beside the one that is kept.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Surplus {
    /// The fields of the key, with their values.
    pub key: Document,
    /// The copy that is kept.
    pub kept: CopyAt,
    /// This copy.
    pub copy: CopyAt,
    /// What was found of it.
    pub finding: Finding,
}

/// Where a copy is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CopyAt {
    /// Which of the collections it is in, as they were listed in
    /// [`Duplicates::over`](super::super::Duplicates::over), from 0.
    pub deployment: usize,
    /// Its `_id`.
    pub id: ObjectId,
    /// What it has in the datacenter's field.
    pub datacenter: Option<Bson>,
}

/// What a trim found of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Finding {
    /// It is too many: equal to the one that is kept. Unless it is a dry run, it is to be deleted.
    Surplus,
    /// It differs from the one that is kept.
    Differs,
    /// A copy of the event is younger than [`older_than`](super::Trim::older_than).
    TooYoung,
    /// It was gone, or the one to keep was, when they were looked at again.
    Gone,
    /// It has the `_id` and the datacenter of another copy.
    Indistinguishable,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Surplus => "surplus",
            Self::Differs => "differs",
            Self::TooYoung => "too young",
            Self::Gone => "gone",
            Self::Indistinguishable => "indistinguishable",
        })
    }
}

/// A trim that ended early, or had to leave copies that could not be marked. What it did stays done, and it can
/// be run again.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the trim is not complete")]
#[non_exhaustive]
pub struct TrimError {
    /// Why.
    #[source]
    pub source: Error,
    /// Whether it ended early. If not, everything was looked at, and `source` says why some of the copies could not
    /// be marked and so were left.
    pub ended_early: bool,
    /// What was found and done. A deletion that was under way when it ended is not counted.
    pub report: Box<TrimReport>,
}

impl From<TrimError> for Error {
    fn from(error: TrimError) -> Self {
        error.source
    }
}
