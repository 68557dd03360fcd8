//! Receipts: the datacenter of a document, and those that may have copies.

use std::{fmt, sync::Arc};

use bson::oid::ObjectId;

use steadfast::error::{Error, Outcome};

/// Proof of an acknowledged document, and of attempts that may have left copies.
///
/// The document is in [`datacenter`](Self::datacenter) under [`id`](Self::id), acknowledged with the write
/// concern. If other datacenters were tried before, [`failed`](Self::failed) has each attempt, and
/// [`may_also_be_in`](Self::may_also_be_in) those that may have left a copy.
///
/// ```
/// use steadfast_patterns::local_writes::Receipt;
///
/// fn explain(receipt: &Receipt) -> String {
///     let copies: Vec<_> = receipt.may_also_be_in().map(|copy| &*copy.datacenter).collect();
///     format!("it is in {}, and may also be in {copies:?}", receipt.datacenter())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Receipt {
    datacenter: Arc<str>,
    id: ObjectId,
    failed: Vec<FailedAttempt>,
}

impl Receipt {
    pub(super) fn new(datacenter: &Arc<str>, id: ObjectId, failed: Vec<FailedAttempt>) -> Self {
        Self { datacenter: Arc::clone(datacenter), id, failed }
    }

    /// Returns the datacenter that acknowledged the document.
    pub fn datacenter(&self) -> &str {
        &self.datacenter
    }

    /// Returns the document's `_id` there.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// Returns the attempts that failed before, in order.
    pub fn failed(&self) -> &[FailedAttempt] {
        &self.failed
    }

    /// Returns the failed attempts that may have left a copy, each with its own `_id`.
    pub fn may_also_be_in(&self) -> impl Iterator<Item = &FailedAttempt> {
        self.failed.iter().filter(|failed| failed.may_have_left_a_copy())
    }
}

/// Failed attempt to insert a document into a datacenter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FailedAttempt {
    /// Name of the datacenter.
    pub datacenter: String,
    /// `_id` of the copy, if there is one.
    pub id: ObjectId,
    /// Outcome of the attempt.
    pub outcome: Outcome,
    /// Error of the attempt.
    pub error: Error,
}

impl FailedAttempt {
    pub(super) fn new(datacenter: &str, id: ObjectId, error: Error) -> Self {
        Self { datacenter: datacenter.to_owned(), id, outcome: error.outcome(), error }
    }

    /// Returns `true` if a copy of the document may exist there.
    pub fn may_have_left_a_copy(&self) -> bool {
        !self.outcome.is_certainly_not_applied()
    }
}

impl fmt::Display for FailedAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}: {})", self.datacenter, self.outcome, self.error)
    }
}
