//! Inserts of many documents.

use std::borrow::Borrow;

use serde::Serialize;

use super::write;
use crate::{
    ClientSession, Collection,
    collection::CollectionHandle,
    error::Result,
    operation::{
        bulk::{InsertedIds, Statements},
        insert,
    },
    options::InsertManyOptions,
    results::InsertManyResult,
};

impl<T: Serialize + Send + Sync> Collection<T> {
    /// Inserts documents, in as few commands as the server's limits allow. See the
    /// [`insert`](https://www.mongodb.com/docs/manual/reference/command/insert/) command.
    ///
    /// A document without an `_id` gets a new `ObjectId`. An ordered insert, the default, stops
    /// after the first write error; with [`ordered(false)`](InsertMany::ordered) all documents are
    /// attempted.
    ///
    /// Documents are serialized when the method is called. Raw documents
    /// ([`RawDocumentBuf`](bson::RawDocumentBuf)) are sent without a copy.
    ///
    /// With an unacknowledged write concern (`w: 0`), the result contains the ids that were sent.
    /// In an ordered insert of several commands only the last is unacknowledged, because the reply
    /// of each decides whether the next is sent.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, error::ErrorKind};
    ///
    /// let documents = ["1984", "Animal Farm"].map(|title| doc! { "title": title });
    /// match books.insert_many(documents).ordered(false).await {
    ///     Ok(result) => println!("{} inserted", result.inserted_ids.len()),
    ///     Err(error) => match &*error.kind {
    ///         ErrorKind::InsertMany(failure) => println!("only {}", failure.inserted_ids.len()),
    ///         _ => return Err(error),
    ///     },
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InsertMany`](crate::error::ErrorKind::InsertMany) if the server reports write
    ///   errors or a write concern error, or if a command fails after another succeeded. It
    ///   contains the errors and the ids of the inserted documents. The error of a failed command
    ///   is its [`source`](std::error::Error::source).
    /// - [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) if there is no
    ///   document.
    ///
    /// [`Error::outcome`](crate::error::Error::outcome) covers the whole call. See also the
    /// [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future ends the call: no further command is sent. Writes of earlier commands
    /// stay applied, and the command in progress may still be applied. See
    /// [cancellation](crate::action#cancellation).
    pub fn insert_many<'a>(
        &'a self,
        documents: impl IntoIterator<Item = impl Borrow<T> + Send + Sync + 'a>,
    ) -> InsertMany<'a> {
        InsertMany {
            collection: &self.handle,
            documents: Statements::of_documents::<T, _>(documents),
            options: None,
            session: None,
        }
    }
}

/// Action that inserts documents. See [`Collection::insert_many`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct InsertMany<'a> {
    collection: &'a CollectionHandle,
    documents: Result<Statements<'a>>,
    pub(crate) options: Option<InsertManyOptions>,
    session: Option<&'a mut ClientSession>,
}

impl InsertMany<'_> {
    async fn execute(self) -> Result<InsertManyResult> {
        let options = self.options.unwrap_or_default();
        let mut settings = insert::settings_of_many(&options);
        let documents = self.documents?;
        let inherited = self.collection.timeout;
        let deadline = write::start_deadline(options.timeout, self.session.as_deref(), inherited)?;
        let session = write::share(self.session, self.collection, &mut settings)?;
        let mut ids = InsertedIds::new(&documents);
        let run = write::run_batches(self.collection, &documents, &settings, session, deadline);
        let (tally, broken) = write::run_with_idle_work(run, || ids.collect_some()).await?;
        write::mark_limited(tally.conclude_insert_many(ids, broken), deadline)
    }
}

awaitable!(['a] InsertMany<'a> => InsertManyResult);
takes_session!(['a] InsertMany<'a>);
setters!(InsertManyOptions for ['a] InsertMany<'a>);
