//! Deleting one certain document.

use bson::Document;

use super::{USUAL_RETRIES, filter, refuse_chance, refuse_unanswered, repeatable};
use crate::{
    Collection,
    error::{Error, Result},
    options::DeleteOptions,
    patterns::again::Sendings,
};

/// Deletes the one document that `filter` is about.
///
/// The filter must say which: by its `_id`, or by fields that are [`unique`](DeleteOne::unique). With any
/// other, a second sending might delete a second document. More conditions may stand beside that.
///
/// If somebody inserts such a document again between two sendings, that is deleted, as it would be by a
/// single sending that comes late.
///
/// ```no_run
/// # async fn run(users: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::{bson::doc, patterns::idempotent::{self, Deletion}};
///
/// let ian = doc! { "email": "ian@example.com" };
/// match idempotent::delete_one(&users, ian).unique(["email"]).await? {
///     Deletion::Now => println!("gone"),
///     Deletion::Nothing => println!("there was none"),
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
        retries: USUAL_RETRIES,
    }
}

/// Deletes one document. See [`delete_one`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct DeleteOne {
    collection: Collection<Document>,
    filter: Document,
    unique: Vec<String>,
    pub(crate) options: Option<DeleteOptions>,
    retries: u32,
}

/// What became of a document that was to be deleted. In each case it is not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Deletion {
    /// It was deleted, and the server said so.
    Now,
    /// There was none.
    Nothing,
    /// There was none; but a sending before was in doubt, and may have deleted it.
    PerhapsBefore,
}

impl DeleteOne {
    /// These fields together are unique, by an index of yours: a filter that says what they equal is
    /// about one document, too. A null does not count: a unique index may leave such documents out.
    pub fn unique(mut self, fields: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.unique = fields.into_iter().map(Into::into).collect();
        self
    }

    async fn execute(self) -> Result<Deletion> {
        let options = self.options.clone().unwrap_or_default();
        self.check(&options)?;
        let mut sendings =
            Sendings::begin(self.retries, options.timeout, self.collection.timeout());
        let send = |timeout| {
            let options = DeleteOptions { timeout, ..options.clone() };
            self.collection.delete_one(self.filter.clone()).with_options(options)
        };
        let result = sendings.until_answered(send).await?;
        Ok(match result.deleted_count {
            0 if sendings.in_doubt() => Deletion::PerhapsBefore,
            0 => Deletion::Nothing,
            _ => Deletion::Now,
        })
    }

    fn check(&self, options: &DeleteOptions) -> Result<()> {
        refuse_unanswered(&self.collection, options.write_concern.as_ref())?;
        refuse_chance(&self.filter, options.let_vars.as_ref())?;
        let collated = filter::is_collated(options.collation.as_ref());
        if filter::pins_id(&self.filter, collated)
            || filter::pins_unique(&self.filter, &self.unique, collated)
        {
            return Ok(());
        }
        Err(Error::invalid_argument(if self.unique.is_empty() {
            "this delete_one cannot be sent again safely: its filter does not say which _id the document \
             has, so that a second document may be deleted the second time; say the _id, or which \
             fields are unique (.unique([\"email\"])), or delete all that match (many::delete_many)"
                .to_owned()
        } else {
            format!(
                "this delete_one cannot be sent again safely: its filter does not say what each of the \
                 unique fields {:?} equals (null does not count, nor a string by a collation)",
                self.unique
            )
        }))
    }
}

repeatable!([] DeleteOne => Deletion, Error);
setters!(DeleteOptions for [] DeleteOne);
