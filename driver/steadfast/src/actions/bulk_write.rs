//! Many writes of all kinds to one collection at once.

use std::borrow::Borrow;

use bson::Document;
use serde::Serialize;

use super::write;
use crate::{
    ClientSession, Collection,
    collection::Handle,
    error::{Error, Result},
    operation::bulk::{self, Statements},
    options::{BulkWriteOptions, InsertOneModel, ReplaceOneModel, WriteModel},
    results::BulkWriteResult,
    trace,
};

impl<T: Serialize + Send + Sync> Collection<T> {
    /// Carries out many writes in as few commands as the server's limits allow.
    ///
    /// In order, which is the default, the first write that is refused ends it. With
    /// [`ordered(false)`](CollectionBulkWrite::ordered) all are tried, grouped by kind. Either way the error
    /// is a [`BulkWriteError`](crate::error::BulkWriteError), with every refusal under its index in
    /// `models`, every write concern that was not met, and what was done all the same. If a command
    /// after the first cannot be carried out at all, the error is the same, and why is its
    /// [`source`](std::error::Error::source).
    ///
    /// With a write concern of `w: 0` all that is known are the ids of the inserts. Of an ordered
    /// bulk write that takes several commands, all but the last are acknowledged even so, because
    /// each decides whether the next is sent.
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
    ///         ErrorKind::BulkWrite(partly) => println!("refused: {:?}", partly.write_errors),
    ///         _ => return Err(error),
    ///     },
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// To write to several collections at once, see [`Client::bulk_write`](crate::Client::bulk_write).
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
                "a write of {other} cannot be part of a bulk write of {}",
                self.namespace()
            ))),
        };
        CollectionBulkWrite { collection: &self.handle, statements, options: None, session: None }
    }

    /// The insert of a document, for a [`bulk_write`](crate::Client::bulk_write) of the client.
    pub fn insert_one_model(&self, document: impl Borrow<T>) -> Result<InsertOneModel> {
        let document = bson::serialize_to_document(document.borrow())?;
        Ok(InsertOneModel::new(document).namespace(self.namespace()))
    }

    /// The replacement of a document, for a [`bulk_write`](crate::Client::bulk_write) of the client.
    pub fn replace_one_model(
        &self,
        filter: Document,
        replacement: impl Borrow<T>,
    ) -> Result<ReplaceOneModel> {
        let replacement = bson::serialize_to_document(replacement.borrow())?;
        Ok(ReplaceOneModel::new(filter, replacement).namespace(self.namespace()))
    }
}

/// Carries out many writes. See [`Collection::bulk_write`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct CollectionBulkWrite<'a> {
    collection: &'a Handle,
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
        let deadline = write::start_clock(options.timeout, self.session.as_deref(), inherited)?;
        let session = write::share(self.session, self.collection, &mut settings)?;
        if statements.has_delete_hint() && !bulk::is_acknowledged(self.collection, &settings) {
            let client = &self.collection.client;
            let operation =
                trace::Operation { name: "bulkWrite", id: client.executor().begin_operation() };
            write::check_unheard_hint(client, operation, deadline).await?;
        }
        let (tally, broken) =
            write::run_batches(self.collection, &statements, &settings, session, deadline).await?;
        write::judged(tally.conclude_bulk_write(&statements, broken), deadline)
    }
}

awaitable!(['a] CollectionBulkWrite<'a> => BulkWriteResult);
takes_session!(['a] CollectionBulkWrite<'a>);
setters!(BulkWriteOptions for ['a] CollectionBulkWrite<'a>);
