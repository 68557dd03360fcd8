//! Deletes.

use bson::Document;

use super::write;
use crate::{
    ClientSession, Collection, collection::CollectionHandle, error::Result, operation::delete,
    options::DeleteOptions, results::DeleteResult, trace,
};

impl<T: Send + Sync> Collection<T> {
    /// Deletes the first document that matches `query`. See the
    /// [`delete`](https://www.mongodb.com/docs/manual/reference/command/delete/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let result = books.delete_one(doc! { "title": "1984" }).await?;
    /// println!("{} deleted", result.deleted_count);
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
    pub fn delete_one(&self, query: Document) -> Delete<'_> {
        Delete { collection: &self.handle, query, multi: false, options: None, session: None }
    }

    /// Deletes all documents that match `query`. See the
    /// [`delete`](https://www.mongodb.com/docs/manual/reference/command/delete/) command.
    ///
    /// It is not retried after a network error.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let result = books.delete_many(doc! { "year": { "$lt": 1900 } }).await?;
    /// println!("{} deleted", result.deleted_count);
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
    pub fn delete_many(&self, query: Document) -> Delete<'_> {
        Delete { collection: &self.handle, query, multi: true, options: None, session: None }
    }
}

/// Action that deletes documents. See [`Collection::delete_one`] and [`Collection::delete_many`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct Delete<'a> {
    collection: &'a CollectionHandle,
    query: Document,
    multi: bool,
    pub(crate) options: Option<DeleteOptions>,
    session: Option<&'a mut ClientSession>,
}

impl Delete<'_> {
    async fn execute(self) -> Result<DeleteResult> {
        let client = &self.collection.client;
        let options = self.options.as_ref();
        let command = delete::delete(self.collection, &self.query, self.multi, options)?;
        let mut command = command.in_session(self.session, client)?;
        if !command.acknowledged && options.is_some_and(|options| options.hint.is_some()) {
            let operation =
                trace::Operation { name: "delete", id: client.executor().begin_operation() };
            write::check_unacknowledged_hint(client, operation, command.start_clock()).await?;
        }
        write::run(client, Box::new(command), delete::read).await
    }
}

awaitable!(['a] Delete<'a> => DeleteResult);
takes_session!(['a] Delete<'a>);
setters!(DeleteOptions for ['a] Delete<'a>);
