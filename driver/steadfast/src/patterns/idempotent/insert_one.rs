//! Inserting one document, once, however often it is sent.

use std::borrow::Borrow;

use bson::{Bson, RawDocumentBuf};
use serde::Serialize;

use super::{
    Prepared, USUAL_RETRIES,
    own_key::{Whose, is_duplicate, not_durable, whose},
    refuse_unanswered, repeatable,
};
use crate::{
    Collection,
    error::{Error, ErrorKind, Result, WriteFailure},
    options::InsertOneOptions,
    patterns::again::{Sendings, is_in_doubt},
};

/// Inserts `document`, once, however often it has to be sent.
///
/// It gets its `_id` before the first sending if it has none, and is sent again, the same, after a failure
/// that may pass. If then the server has that very `_id`, the document is there: an earlier sending was
/// carried out. That is concluded only after a sending whose outcome was in doubt, and only if it is the
/// index on `_id` that refuses the document. A duplicate key at the first sending, or on another unique
/// index, is an error as ever.
///
/// **The `_id` must be this document's alone.** One that is made here is. If you give one under which others
/// insert a document of their own (a date, a name), then after a lost reply theirs is taken for yours.
///
/// Where a repeat cannot be recognised:
///
/// - in collections whose `_id`s are not unique, which are time series;
/// - in a collection with a collation, if the `_id` is a string or has one in it: `"A"` may have been
///   refused because of `"a"`. That is an error, whose
///   [`outcome`](crate::error::Error::outcome) says that it may be there;
/// - in a clustered collection, if the `_id` is a number: servers may name another key than the one they
///   refused. That is such an error, too.
///
/// And if somebody deletes the document between a lost reply and its repeat, the repeat inserts it again.
///
/// ```no_run
/// # async fn run(orders: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::{bson::doc, patterns::idempotent};
///
/// let inserted = idempotent::insert_one(&orders, doc! { "item": "kettle" }).retries(3).await?;
/// println!("{} is there: {:?}", inserted.id, inserted.known);
/// # Ok(()) }
/// ```
pub fn insert_one<T: Serialize + Send + Sync>(
    collection: &Collection<T>,
    document: impl Borrow<T>,
) -> InsertOne {
    InsertOne {
        collection: collection.clone_with_type(),
        document: Prepared::new(document.borrow()),
        options: None,
        retries: USUAL_RETRIES,
        already_there_is_fine: false,
    }
}

/// Inserts one document. See [`insert_one`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct InsertOne {
    collection: Collection<RawDocumentBuf>,
    document: Result<Prepared>,
    pub(crate) options: Option<InsertOneOptions>,
    retries: u32,
    already_there_is_fine: bool,
}

/// A document that is there.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Inserted {
    /// Its `_id`.
    pub id: Bson,
    /// How that is known.
    pub known: Known,
}

/// How it is known that a document is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Known {
    /// The server said that it was inserted.
    Acknowledged,
    /// After a sending whose outcome was in doubt, the server had the `_id`: that sending was carried
    /// out.
    ByItsKey,
    /// The server had the `_id`, and that was fine
    /// ([`already_there_is_fine`](InsertOne::already_there_is_fine)): an earlier run has inserted it, or
    /// an earlier sending, or somebody else a document of that `_id`.
    AlreadyThere,
}

impl InsertOne {
    /// A document with this very `_id` is what was wanted, whoever has inserted it: a duplicate of it is
    /// no error, not even at the first sending. So that a second run, after a crash, adds nothing twice.
    ///
    /// The `_id` must be given; one that is made here would be another each time.
    pub fn already_there_is_fine(mut self) -> Self {
        self.already_there_is_fine = true;
        self
    }

    async fn execute(self) -> Result<Inserted> {
        let Prepared { bytes, id, is_given } = self.document?;
        let options = self.options.unwrap_or_default();
        refuse_unanswered(&self.collection, options.write_concern.as_ref())?;
        if self.already_there_is_fine && !is_given {
            return Err(id_needed("the document"));
        }
        let mut sendings =
            Sendings::begin(self.retries, options.timeout, self.collection.timeout());
        loop {
            let timeout = sendings.time_left();
            let options = InsertOneOptions { timeout, ..options.clone() };
            let error = match self.collection.insert_one(&bytes).with_options(options).await {
                Ok(_) => return Ok(Inserted { id, known: Known::Acknowledged }),
                Err(error) => error,
            };
            let in_doubt = sendings.in_doubt() || is_in_doubt(&error);
            let known = match is_own_key(&error, &self.collection, &id) {
                // It cannot be told then who has inserted it.
                true if self.already_there_is_fine => Some(Known::AlreadyThere),
                true if in_doubt => Some(Known::ByItsKey),
                true | false => None,
            };
            match (known, not_durable(&error)) {
                (Some(known), None) => return Ok(Inserted { id, known }),
                // It is there, but may be undone.
                (Some(_), Some(failure)) => sendings.again(failure)?,
                (None, _) => sendings.again(error)?,
            }
        }
    }
}

pub(super) fn id_needed(which: &str) -> Error {
    Error::invalid_argument(format!(
        "{which} has no _id: to be recognised when it is there already, it needs one that is the same \
         in every run"
    ))
}

/// Whether it is the document's own `_id` that the server has already.
fn is_own_key(error: &Error, collection: &Collection<RawDocumentBuf>, id: &Bson) -> bool {
    let ErrorKind::Write(WriteFailure::WriteError(refusal)) = &*error.kind else { return false };
    is_duplicate(refusal) && whose(refusal, &collection.namespace(), id) == Whose::Own
}

repeatable!([] InsertOne => Inserted, Error);
setters!(InsertOneOptions for [] InsertOne);
