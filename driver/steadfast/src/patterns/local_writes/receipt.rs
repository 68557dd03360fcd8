//! What a write that succeeded tells: where the document is, and where else it may be.

use std::{fmt, sync::Arc};

use bson::oid::ObjectId;

use crate::error::{Error, Outcome};

/// Where a document is, and where else a copy of it may be.
///
/// The document is in [`datacenter`](Self::datacenter) under [`id`](Self::id), acknowledged as the write
/// concern asks. If other datacenters were tried before, [`failed`](Self::failed) tells what became of each
/// attempt, and [`may_also_be_in`](Self::may_also_be_in) those that may have left a copy.
///
/// ```
/// use steadfast::patterns::local_writes::Receipt;
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
    failed: Vec<Failed>,
}

impl Receipt {
    pub(super) fn new(datacenter: &Arc<str>, id: ObjectId, failed: Vec<Failed>) -> Self {
        Self { datacenter: Arc::clone(datacenter), id, failed }
    }

    /// The datacenter that acknowledged the document.
    pub fn datacenter(&self) -> &str {
        &self.datacenter
    }

    /// The document's `_id` there.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// The attempts that failed before, in order; empty if the first succeeded.
    pub fn failed(&self) -> &[Failed] {
        &self.failed
    }

    /// The attempts of which it is not certain that they left nothing. Each may have left a copy of the
    /// document, with an `_id` of its own.
    pub fn may_also_be_in(&self) -> impl Iterator<Item = &Failed> {
        self.failed.iter().filter(|failed| failed.may_have_left_a_copy())
    }
}

/// An attempt to write a document to a datacenter that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failed {
    /// The datacenter that it was written to.
    pub datacenter: String,
    /// The `_id` that the copy has, if there is one.
    pub id: ObjectId,
    /// What became of it: not sent, not applied, maybe applied, or applied but not known to be durable.
    pub outcome: Outcome,
    /// Why it failed.
    pub error: Error,
}

impl Failed {
    pub(super) fn new(datacenter: &str, id: ObjectId, error: Error) -> Self {
        Self { datacenter: datacenter.to_owned(), id, outcome: error.outcome(), error }
    }

    /// Whether a copy of the document may be there.
    pub fn may_have_left_a_copy(&self) -> bool {
        !self.outcome.is_certainly_not_applied()
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}: {})", self.datacenter, self.outcome, self.error)
    }
}
