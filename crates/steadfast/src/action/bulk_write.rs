//! Many writes of all kinds at once.

use serde::Serialize;

use super::write;
use crate::{
    ClientSession, Collection,
    collection::Handle,
    error::Result,
    operation::bulk::{self, Statements},
    options::{BulkWriteOptions, WriteModel},
    results::BulkWriteResult,
    trace,
};

impl<T: Serialize + Send + Sync> Collection<T> {
    /// Carries out many writes in as few commands as the server's limits allow.
    ///
    /// In order, which is the default, the first write that is refused ends it. With
    /// [`ordered(false)`](BulkWrite::ordered) all are tried, grouped by kind. Either way the error
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
    pub fn bulk_write(&self, models: impl IntoIterator<Item = WriteModel<T>>) -> BulkWrite<'_> {
        BulkWrite {
            collection: &self.handle,
            statements: Statements::of_models(models),
            options: None,
            session: None,
        }
    }
}

/// Carries out many writes. See [`Collection::bulk_write`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct BulkWrite<'a> {
    collection: &'a Handle,
    statements: Result<Statements<'static>>,
    pub(crate) options: Option<BulkWriteOptions>,
    session: Option<&'a mut ClientSession>,
}

impl BulkWrite<'_> {
    async fn execute(self) -> Result<BulkWriteResult> {
        let options = self.options.unwrap_or_default();
        let mut settings = bulk::settings(&options);
        let statements = self.statements?;
        let deadline =
            write::start_clock(options.timeout, self.session.as_deref(), self.collection)?;
        let session = write::share(self.session, self.collection, &mut settings)?;
        if statements.has_delete_hint() && !bulk::is_acknowledged(self.collection, &settings) {
            let client = &self.collection.client;
            let operation = trace::Operation { name: "bulkWrite", id: client.begin_operation() };
            write::check_unheard_hint(client, operation, deadline).await?;
        }
        let (tally, broken) =
            write::run_batches(self.collection, &statements, &settings, session, deadline).await?;
        write::judged(tally.conclude_bulk_write(&statements, broken), deadline)
    }
}

awaitable!(['a] BulkWrite<'a> => BulkWriteResult);
takes_session!(['a] BulkWrite<'a>);
