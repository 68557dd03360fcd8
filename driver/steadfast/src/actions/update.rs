//! Updates.

use bson::Document;

use super::write;
use crate::{
    ClientSession, Collection,
    collection::CollectionHandle,
    command::Command,
    error::Result,
    operation::{update, write::Change},
    options::{UpdateModifications, UpdateOptions},
    results::UpdateResult,
};

impl<T: Send + Sync> Collection<T> {
    /// Updates the first document that matches `query`. See the
    /// [`update`](https://www.mongodb.com/docs/manual/reference/command/update/) command.
    ///
    /// `update` is a document of update operators, or an aggregation pipeline as a `Vec` of stages.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let result = books
    ///     .update_one(doc! { "title": "1984" }, doc! { "$inc": { "copies": 1 } })
    ///     .upsert(true)
    ///     .await?;
    /// println!("{} matched, upserted {:?}", result.matched_count, result.upserted_id);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Write`](crate::error::ErrorKind::Write) if the server reports a write error,
    ///   such as a duplicate key, or does not satisfy the write concern.
    /// - [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the command as a whole fails.
    ///
    /// [`Error::outcome`](crate::error::Error::outcome) states whether the write was applied. See
    /// also the [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future before the command is sent has no effect on the data. Afterwards the
    /// write may still be applied; see [cancellation](crate::action#cancellation).
    pub fn update_one(
        &self,
        query: Document,
        update: impl Into<UpdateModifications>,
    ) -> Update<'_> {
        let update = update.into();
        Update {
            collection: &self.handle,
            query,
            update,
            multi: false,
            options: None,
            session: None,
        }
    }

    /// Updates all documents that match `query`. See the
    /// [`update`](https://www.mongodb.com/docs/manual/reference/command/update/) command.
    ///
    /// `update` is a document of update operators, or an aggregation pipeline as a `Vec` of stages.
    /// It is not retried after a network error.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let lent = doc! { "$set": { "lent": true } };
    /// let result = books.update_many(doc! { "copies": 0 }, lent).await?;
    /// println!("{} modified", result.modified_count);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Write`](crate::error::ErrorKind::Write) if the server reports a write error,
    ///   such as a duplicate key, or does not satisfy the write concern.
    /// - [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the command as a whole fails.
    ///
    /// [`Error::outcome`](crate::error::Error::outcome) states whether the write was applied. See
    /// also the [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future before the command is sent has no effect on the data. Afterwards the
    /// write may still be applied; see [cancellation](crate::action#cancellation).
    pub fn update_many(
        &self,
        query: Document,
        update: impl Into<UpdateModifications>,
    ) -> Update<'_> {
        let update = update.into();
        Update {
            collection: &self.handle,
            query,
            update,
            multi: true,
            options: None,
            session: None,
        }
    }
}

/// Action that updates documents. See [`Collection::update_one`] and [`Collection::update_many`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct Update<'a> {
    collection: &'a CollectionHandle,
    query: Document,
    update: UpdateModifications,
    multi: bool,
    pub(crate) options: Option<UpdateOptions>,
    session: Option<&'a mut ClientSession>,
}

impl<'a> Update<'a> {
    fn execute(self) -> impl Future<Output = Result<UpdateResult>> + Send + use<'a> {
        let client = &self.collection.client;
        let command = self.into_command();
        async move { write::run(client, command?, update::read).await }
    }

    /// Builds the command before the future, which is smaller without the options.
    fn into_command(self) -> Result<Box<Command>> {
        let change = (Change::Update, &self.update);
        let options = self.options.as_ref();
        let command = update::update(self.collection, &self.query, change, self.multi, options)?;
        command.in_session(self.session, &self.collection.client).map(Box::new)
    }
}

awaitable!(['a] Update<'a> => UpdateResult);
takes_session!(['a] Update<'a>);
setters!(UpdateOptions for ['a] Update<'a>);
