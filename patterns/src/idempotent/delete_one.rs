//! Deletion of one document.

use bson::Document;

use super::{DEFAULT_RETRIES, filter, reject_random, reject_unacknowledged, retried_action};
use crate::retry::RetryState;
use steadfast::{
    Collection,
    error::{Error, Result},
    options::DeleteOptions,
};

/// Deletes the document that `filter` identifies.
///
/// The filter must contain the `_id`, or fields that are [`unique`](DeleteOne::unique). With any other filter,
/// a retry might delete a second document. Further conditions are allowed.
///
/// If another client inserts such a document again between two attempts, it is deleted, as by a single late
/// request.
///
/// # Errors
///
/// An [invalid argument](Error::is_invalid_argument) if the filter does not identify a document; otherwise the
/// error of the last attempt, whose [outcome](Error::outcome) covers all attempts.
///
/// # Cancellation
///
/// A dropped delete may be applied or not. Repeat it.
///
/// ```no_run
/// # async fn run(users: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::bson::doc;
/// use steadfast_patterns::idempotent::{self, DeleteOutcome};
///
/// let ian = doc! { "email": "ian@example.com" };
/// match idempotent::delete_one(&users, ian).unique(["email"]).await? {
///     DeleteOutcome::Deleted => println!("gone"),
///     DeleteOutcome::NotFound => println!("there was none"),
///     _ => println!("gone, or there was none"),
/// }
/// # Ok(()) }
/// ```
pub fn delete_one<T: Send + Sync>(collection: &Collection<T>, filter: Document) -> DeleteOne {
    DeleteOne {
        collection: collection.clone_with_type(),
        filter,
        unique: Vec::new(),
        options: None,
        retries: DEFAULT_RETRIES,
    }
}

/// Action of [`delete_one`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct DeleteOne {
    collection: Collection<Document>,
    filter: Document,
    unique: Vec<String>,
    pub(crate) options: Option<DeleteOptions>,
    retries: u32,
}

/// Result of [`delete_one`]. In each case the document does not exist any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeleteOutcome {
    /// The document was deleted, and the server acknowledged it.
    Deleted,
    /// No document matched.
    NotFound,
    /// No document matched, but an earlier attempt may have deleted it.
    Unknown,
}

impl DeleteOne {
    /// Declares that these fields together are unique, by an index of yours: a filter with their values
    /// identifies a document as well. Null does not count, because a unique index may leave out such documents.
    pub fn unique(mut self, fields: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.unique = fields.into_iter().map(Into::into).collect();
        self
    }

    async fn execute(self) -> Result<DeleteOutcome> {
        let options = self.options.clone().unwrap_or_default();
        self.check(&options)?;
        let mut retry = RetryState::begin(self.retries, options.timeout, self.collection.timeout());
        let send = |timeout| {
            let mut options = options.clone();
            options.timeout = timeout;
            self.collection.delete_one(self.filter.clone()).with_options(options)
        };
        let result = retry.run(send).await?;
        Ok(match result.deleted_count {
            0 if retry.in_doubt() => DeleteOutcome::Unknown,
            0 => DeleteOutcome::NotFound,
            _ => DeleteOutcome::Deleted,
        })
    }

    fn check(&self, options: &DeleteOptions) -> Result<()> {
        reject_unacknowledged(&self.collection, options.write_concern.as_ref())?;
        reject_random(&self.filter, options.let_vars.as_ref())?;
        let collated = filter::is_collated(options.collation.as_ref());
        if filter::pins_id(&self.filter, collated)
            || filter::pins_unique(&self.filter, &self.unique, collated)
        {
            return Ok(());
        }
        Err(Error::invalid_argument(if self.unique.is_empty() {
            "this delete_one cannot be retried safely: its filter does not contain the _id, so a retry may \
             delete a second document; add the _id, declare unique fields (.unique([\"email\"])), or delete \
             all documents that match (many::delete_many)"
                .to_owned()
        } else {
            format!(
                "this delete_one cannot be retried safely: its filter has no equality on each of the unique \
                 fields {:?} (null does not count, nor a string with a collation)",
                self.unique
            )
        }))
    }
}

retried_action!([] DeleteOne => DeleteOutcome, Error);
