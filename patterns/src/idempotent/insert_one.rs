//! Insertion of one document, once.

use std::borrow::Borrow;

use bson::{Bson, RawDocumentBuf};
use serde::Serialize;

use super::{
    DEFAULT_RETRIES, PreparedDocument,
    duplicate_key::{DuplicateKeyOwner, duplicate_key_owner, is_duplicate, not_durable},
    reject_unacknowledged, retried_action,
};
use crate::retry::{RetryState, is_in_doubt};
use steadfast::{
    Collection,
    error::{Error, ErrorKind, Result, WriteFailure},
    options::InsertOneOptions,
};

/// Inserts `document` once, with retries.
///
/// The document gets an `_id` before the first attempt if it has none. If a retry finds this `_id` in the
/// collection, an earlier attempt was applied. This conclusion requires an attempt that may have been applied,
/// and a duplicate in the index on `_id`. A duplicate key at the first attempt, or in another unique index,
/// is an error.
///
/// **The `_id` must belong to this document alone.** A generated one does. If you set one under which other
/// clients insert documents of their own (a date, a name), then after a lost reply theirs is mistaken for
/// yours.
///
/// A retry cannot be recognised:
///
/// - in time series collections, whose `_id`s are not unique;
/// - in a collection with a collation, if the `_id` is or contains a string: `"A"` may be a duplicate of `"a"`.
///   That is an error, whose [`outcome`](steadfast::error::Error::outcome) is that the document may exist;
/// - in a clustered collection, if the `_id` is a number: servers may report another key than the duplicate.
///   That is such an error, too.
///
/// If another client deletes the document between a lost reply and the retry, the retry inserts it again.
///
/// # Errors
///
/// The error of the last attempt, whose [outcome](Error::outcome) covers all attempts.
///
/// # Cancellation
///
/// A dropped insert may be applied or not. Set the `_id` yourself and repeat it with
/// [`ignore_existing`](InsertOne::ignore_existing).
///
/// ```no_run
/// # async fn run(orders: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::bson::doc;
/// use steadfast_patterns::idempotent;
///
/// let inserted = idempotent::insert_one(&orders, doc! { "item": "kettle" }).retries(3).await?;
/// println!("{} is there: {:?}", inserted.id, inserted.evidence);
/// # Ok(()) }
/// ```
pub fn insert_one<T: Serialize + Send + Sync>(
    collection: &Collection<T>,
    document: impl Borrow<T>,
) -> InsertOne {
    InsertOne {
        collection: collection.clone_with_type(),
        document: PreparedDocument::new(document.borrow()),
        options: None,
        retries: DEFAULT_RETRIES,
        ignore_existing: false,
    }
}

/// Action of [`insert_one`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct InsertOne {
    collection: Collection<RawDocumentBuf>,
    document: Result<PreparedDocument>,
    pub(crate) options: Option<InsertOneOptions>,
    retries: u32,
    ignore_existing: bool,
}

/// Result of [`insert_one`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Inserted {
    /// `_id` of the document.
    pub id: Bson,
    /// Evidence that the document exists.
    pub evidence: InsertEvidence,
}

/// Evidence that a document exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InsertEvidence {
    /// The server acknowledged the insert.
    Acknowledged,
    /// A retry failed with a duplicate of the document's own `_id`, so an earlier attempt was applied.
    DuplicateOfOwn,
    /// The `_id` existed, which was accepted ([`ignore_existing`](InsertOne::ignore_existing)): an earlier run
    /// has inserted the document, or an earlier attempt, or another client one with the same `_id`.
    PreExisting,
}

impl InsertOne {
    /// Treats a duplicate of the document's own `_id` as success, also at the first attempt, so that a second
    /// run after a crash inserts nothing twice.
    ///
    /// The document needs an `_id`, the same in every run.
    pub fn ignore_existing(mut self) -> Self {
        self.ignore_existing = true;
        self
    }

    async fn execute(self) -> Result<Inserted> {
        let PreparedDocument { bytes, id, is_given } = self.document?;
        let options = self.options.unwrap_or_default();
        reject_unacknowledged(&self.collection, options.write_concern.as_ref())?;
        if self.ignore_existing && !is_given {
            return Err(missing_id("the document"));
        }
        let mut retry = RetryState::begin(self.retries, options.timeout, self.collection.timeout());
        loop {
            let timeout = retry.time_left();
            let mut options = options.clone();
            options.timeout = timeout;
            let error = match self.collection.insert_one(&bytes).with_options(options).await {
                Ok(_) => return Ok(Inserted { id, evidence: InsertEvidence::Acknowledged }),
                Err(error) => error,
            };
            let in_doubt = retry.in_doubt() || is_in_doubt(&error);
            let evidence = match is_own_key(&error, &self.collection, &id) {
                // Any client may have inserted it.
                true if self.ignore_existing => Some(InsertEvidence::PreExisting),
                true if in_doubt => Some(InsertEvidence::DuplicateOfOwn),
                true | false => None,
            };
            match (evidence, not_durable(&error)) {
                (Some(evidence), None) => return Ok(Inserted { id, evidence }),
                // It exists, but may be rolled back.
                (Some(_), Some(failure)) => retry.retry_after(failure)?,
                (None, _) => retry.retry_after(error)?,
            }
        }
    }
}

pub(super) fn missing_id(subject: &str) -> Error {
    Error::invalid_argument(format!(
        "{subject} has no _id: with ignore_existing, each document needs an _id that is the same in every \
         run"
    ))
}

/// Returns `true` for a duplicate of the document's own `_id`.
fn is_own_key(error: &Error, collection: &Collection<RawDocumentBuf>, id: &Bson) -> bool {
    let ErrorKind::Write(WriteFailure::WriteError(write_error)) = &*error.kind else {
        return false;
    };
    is_duplicate(write_error)
        && duplicate_key_owner(write_error, &collection.namespace(), id) == DuplicateKeyOwner::Own
}

retried_action!([] InsertOne => Inserted, Error);
