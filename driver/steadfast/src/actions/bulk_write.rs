//! Bulk writes to one collection.

use std::borrow::Borrow;

use bson::Document;
use serde::Serialize;

use super::write;
use crate::{
    ClientSession, Collection,
    collection::CollectionHandle,
    error::{Error, Result},
    operation::bulk::{self, Statements},
    options::{BulkWriteOptions, InsertOneModel, ReplaceOneModel, WriteModel},
    results::BulkWriteResult,
    trace,
};

impl<T: Serialize + Send + Sync> Collection<T> {
    /// Executes write models on the collection, in as few commands as the server's limits allow.
    /// See [bulk write](https://github.com/mongodb/specifications/blob/master/source/crud/bulk-write.md).
    ///
    /// An ordered bulk write, the default, stops after the first write error. With
    /// [`ordered(false)`](CollectionBulkWrite::ordered), all models are attempted, grouped by kind.
    ///
    /// With an unacknowledged write concern (`w: 0`), the result contains only the ids of inserted
    /// documents. In an ordered bulk write of several commands only the last is unacknowledged,
    /// because the reply of each decides whether the next is sent.
    ///
    /// [`Client::bulk_write`](crate::Client::bulk_write) writes to several collections at once.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{
    ///     bson::doc,
    ///     error::ErrorKind,
    ///     options::{DeleteOneModel, InsertOneModel, UpdateManyModel},
    /// };
    ///
    /// let models = [
    ///     InsertOneModel::new(doc! { "_id": 1, "title": "1984" }).into(),
    ///     UpdateManyModel::new(doc! {}, doc! { "$inc": { "copies": 1 } }).into(),
    ///     DeleteOneModel::new(doc! { "title": "Lost" }).into(),
    /// ];
    /// match books.bulk_write(models).ordered(false).await {
    ///     Ok(result) => println!("{} inserted", result.inserted_count),
    ///     Err(error) => match &*error.kind {
    ///         ErrorKind::BulkWrite(failure) => println!("failed: {:?}", failure.write_errors),
    ///         _ => return Err(error),
    ///     },
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::BulkWrite`](crate::error::ErrorKind::BulkWrite) if the server reports write
    ///   errors or write concern errors, or if a command fails after another succeeded. It contains
    ///   every error with the index of its model and the partial result. The error of a failed
    ///   command is its [`source`](std::error::Error::source).
    /// - [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) if a model has
    ///   the namespace of another collection, or if there is no model.
    ///
    /// [`Error::outcome`](crate::error::Error::outcome) covers the whole call. See also the
    /// [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future ends the call: no further command is sent. Writes of earlier commands
    /// stay applied, and the command in progress may still be applied. See
    /// [cancellation](crate::action#cancellation).
    pub fn bulk_write(
        &self,
        models: impl IntoIterator<Item = WriteModel<T>>,
    ) -> CollectionBulkWrite<'_> {
        let mut elsewhere = None;
        let models = models.into_iter().inspect(|model| {
            let other = model.namespace().filter(|it| !self.handle.is_at(it));
            elsewhere = elsewhere.take().or_else(|| other.cloned());
        });
        let statements = Statements::of_models(models);
        let statements = match elsewhere {
            None => statements,
            Some(other) => Err(Error::invalid_argument(format!(
                "the model for {other} is not for {}; use Client::bulk_write for several collections",
                self.namespace()
            ))),
        };
        CollectionBulkWrite { collection: &self.handle, statements, options: None, session: None }
    }

    /// Creates a model that inserts `document`, for
    /// [`Client::bulk_write`](crate::Client::bulk_write).
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::WriteModel};
    ///
    /// let models: [WriteModel; 1] = [books.insert_one_model(doc! { "title": "1984" })?.into()];
    /// books.client().bulk_write(models).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Bson`](crate::error::ErrorKind::Bson) if the document does not serialize.
    pub fn insert_one_model(&self, document: impl Borrow<T>) -> Result<InsertOneModel> {
        let document = bson::serialize_to_document(document.borrow())?;
        Ok(InsertOneModel::new(document).namespace(self.namespace()))
    }

    /// Creates a model that replaces the first matching document, for
    /// [`Client::bulk_write`](crate::Client::bulk_write).
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::WriteModel};
    ///
    /// let model = books.replace_one_model(doc! { "_id": 1 }, doc! { "title": "1984" })?;
    /// books.client().bulk_write([WriteModel::from(model)]).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Bson`](crate::error::ErrorKind::Bson) if the replacement does not serialize.
    pub fn replace_one_model(
        &self,
        filter: Document,
        replacement: impl Borrow<T>,
    ) -> Result<ReplaceOneModel> {
        let replacement = bson::serialize_to_document(replacement.borrow())?;
        Ok(ReplaceOneModel::new(filter, replacement).namespace(self.namespace()))
    }
}

/// Action that executes a bulk write on a collection. See [`Collection::bulk_write`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct CollectionBulkWrite<'a> {
    collection: &'a CollectionHandle,
    statements: Result<Statements<'static>>,
    pub(crate) options: Option<BulkWriteOptions>,
    session: Option<&'a mut ClientSession>,
}

impl CollectionBulkWrite<'_> {
    async fn execute(self) -> Result<BulkWriteResult> {
        let options = self.options.unwrap_or_default();
        let mut settings = bulk::settings(&options);
        let statements = self.statements?;
        let inherited = self.collection.timeout;
        let deadline = write::start_deadline(options.timeout, self.session.as_deref(), inherited)?;
        let session = write::share(self.session, self.collection, &mut settings)?;
        if statements.has_delete_hint() && !bulk::is_acknowledged(self.collection, &settings) {
            let client = &self.collection.client;
            let operation =
                trace::Operation { name: "bulkWrite", id: client.executor().begin_operation() };
            write::check_unacknowledged_hint(client, operation, deadline).await?;
        }
        let (tally, broken) =
            write::run_batches(self.collection, &statements, &settings, session, deadline).await?;
        write::mark_limited(tally.conclude_bulk_write(&statements, broken), deadline)
    }
}

awaitable!(['a] CollectionBulkWrite<'a> => BulkWriteResult);
takes_session!(['a] CollectionBulkWrite<'a>);
setters!(BulkWriteOptions for ['a] CollectionBulkWrite<'a>);
