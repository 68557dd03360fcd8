//! `findAndModify`: atomic changes that return the document.

use std::{borrow::Borrow, marker::PhantomData};

use bson::{Document, RawDocumentBuf};
use serde::{Serialize, de::DeserializeOwned};

use super::write;
use crate::{
    ClientSession, Collection,
    collection::CollectionHandle,
    command::Command,
    error::Result,
    operation::find_and_modify,
    options::{
        FindOneAndDeleteOptions, FindOneAndReplaceOptions, FindOneAndUpdateOptions,
        UpdateModifications,
    },
    trace,
};

impl<T: DeserializeOwned + Send + Sync> Collection<T> {
    /// Updates the first document that matches `filter` and returns it. See the
    /// [`findAndModify`](https://www.mongodb.com/docs/manual/reference/command/findAndModify/)
    /// command.
    ///
    /// Returns the document before the update, or after it with
    /// [`return_document`](FindOneAndUpdate::return_document); `None` if no document matches.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::ReturnDocument};
    ///
    /// let book = books
    ///     .find_one_and_update(doc! { "title": "1984" }, doc! { "$inc": { "copies": -1 } })
    ///     .return_document(ReturnDocument::After)
    ///     .await?;
    /// println!("now {book:?}");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error,
    ///   such as a duplicate key.
    /// - [`ErrorKind::Write`](crate::error::ErrorKind::Write) if the write concern is not
    ///   satisfied.
    /// - [`ErrorKind::Bson`](crate::error::ErrorKind::Bson) if the returned document does not
    ///   deserialize as `T`. The write is applied then.
    ///
    /// [`Error::outcome`](crate::error::Error::outcome) states whether the write was applied. See
    /// also the [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future before the command is sent has no effect on the data. Afterwards the
    /// write may still be applied; see [cancellation](crate::action#cancellation).
    pub fn find_one_and_update(
        &self,
        filter: Document,
        update: impl Into<UpdateModifications>,
    ) -> FindOneAndUpdate<'_, T> {
        FindOneAndUpdate {
            collection: &self.handle,
            filter,
            update: update.into(),
            options: None,
            session: None,
            returned: PhantomData,
        }
    }

    /// Deletes the first document that matches `filter` and returns it; `None` if no document
    /// matches. See the
    /// [`findAndModify`](https://www.mongodb.com/docs/manual/reference/command/findAndModify/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let oldest = books.find_one_and_delete(doc! {}).sort(doc! { "year": 1 }).await?;
    /// println!("deleted {oldest:?}");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error,
    ///   such as a duplicate key.
    /// - [`ErrorKind::Write`](crate::error::ErrorKind::Write) if the write concern is not
    ///   satisfied.
    /// - [`ErrorKind::Bson`](crate::error::ErrorKind::Bson) if the returned document does not
    ///   deserialize as `T`. The write is applied then.
    ///
    /// [`Error::outcome`](crate::error::Error::outcome) states whether the write was applied. See
    /// also the [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future before the command is sent has no effect on the data. Afterwards the
    /// write may still be applied; see [cancellation](crate::action#cancellation).
    pub fn find_one_and_delete(&self, filter: Document) -> FindOneAndDelete<'_, T> {
        FindOneAndDelete {
            collection: &self.handle,
            filter,
            options: None,
            session: None,
            returned: PhantomData,
        }
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync> Collection<T> {
    /// Replaces the first document that matches `filter` and returns it. See the
    /// [`findAndModify`](https://www.mongodb.com/docs/manual/reference/command/findAndModify/)
    /// command.
    ///
    /// Returns the document before the replacement, or after it with
    /// [`return_document`](FindOneAndReplace::return_document); `None` if no document matches.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let book = doc! { "title": "1984", "copies": 2 };
    /// let old = books.find_one_and_replace(doc! { "title": "1984" }, book).await?;
    /// println!("was {old:?}");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error,
    ///   such as a duplicate key.
    /// - [`ErrorKind::Write`](crate::error::ErrorKind::Write) if the write concern is not
    ///   satisfied.
    /// - [`ErrorKind::Bson`](crate::error::ErrorKind::Bson) if the returned document does not
    ///   deserialize as `T`. The write is applied then.
    ///
    /// [`Error::outcome`](crate::error::Error::outcome) states whether the write was applied. See
    /// also the [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future before the command is sent has no effect on the data. Afterwards the
    /// write may still be applied; see [cancellation](crate::action#cancellation).
    pub fn find_one_and_replace(
        &self,
        filter: Document,
        replacement: impl Borrow<T>,
    ) -> FindOneAndReplace<'_, T> {
        let replacement =
            bson::serialize_to_raw_document_buf(replacement.borrow()).map_err(Into::into);
        FindOneAndReplace {
            collection: &self.handle,
            filter,
            replacement,
            options: None,
            session: None,
            returned: PhantomData,
        }
    }
}

/// Action that updates a document and returns it. See [`Collection::find_one_and_update`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct FindOneAndUpdate<'a, T: Send + Sync> {
    collection: &'a CollectionHandle,
    filter: Document,
    update: UpdateModifications,
    pub(crate) options: Option<FindOneAndUpdateOptions>,
    session: Option<&'a mut ClientSession>,
    returned: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + Send + Sync> FindOneAndUpdate<'_, T> {
    async fn execute(self) -> Result<Option<T>> {
        let options = self.options.as_ref();
        let command =
            find_and_modify::update(self.collection, &self.filter, &self.update, options)?;
        let command = command.in_session(self.session, &self.collection.client)?;
        run(self.collection, command, options.is_some_and(|options| options.hint.is_some())).await
    }
}

/// Action that replaces a document and returns it. See [`Collection::find_one_and_replace`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct FindOneAndReplace<'a, T: Send + Sync> {
    collection: &'a CollectionHandle,
    filter: Document,
    replacement: Result<RawDocumentBuf>,
    pub(crate) options: Option<FindOneAndReplaceOptions>,
    session: Option<&'a mut ClientSession>,
    returned: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + Send + Sync> FindOneAndReplace<'_, T> {
    async fn execute(self) -> Result<Option<T>> {
        let options = self.options.as_ref();
        let replacement = self.replacement?;
        let command =
            find_and_modify::replace(self.collection, &self.filter, &replacement, options)?;
        let command = command.in_session(self.session, &self.collection.client)?;
        run(self.collection, command, options.is_some_and(|options| options.hint.is_some())).await
    }
}

/// Action that deletes a document and returns it. See [`Collection::find_one_and_delete`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct FindOneAndDelete<'a, T: Send + Sync> {
    collection: &'a CollectionHandle,
    filter: Document,
    pub(crate) options: Option<FindOneAndDeleteOptions>,
    session: Option<&'a mut ClientSession>,
    returned: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + Send + Sync> FindOneAndDelete<'_, T> {
    async fn execute(self) -> Result<Option<T>> {
        let options = self.options.as_ref();
        let command = find_and_modify::delete(self.collection, &self.filter, options)?;
        let command = command.in_session(self.session, &self.collection.client)?;
        run(self.collection, command, options.is_some_and(|options| options.hint.is_some())).await
    }
}

async fn run<T: DeserializeOwned>(
    collection: &CollectionHandle,
    mut command: Command,
    has_hint: bool,
) -> Result<Option<T>> {
    let client = &collection.client;
    if has_hint && !command.acknowledged {
        let operation =
            trace::Operation { name: "findAndModify", id: client.executor().begin_operation() };
        write::check_unacknowledged_hint(client, operation, command.start_clock()).await?;
    }
    write::run(client, Box::new(command), find_and_modify::read).await
}

awaitable!(['a, T: DeserializeOwned + Send + Sync + 'a] FindOneAndUpdate<'a, T> => Option<T>);
takes_session!(['a, T: DeserializeOwned + Send + Sync + 'a] FindOneAndUpdate<'a, T>);
setters!(FindOneAndUpdateOptions for ['a, T: Send + Sync] FindOneAndUpdate<'a, T>);
awaitable!(['a, T: DeserializeOwned + Send + Sync + 'a] FindOneAndReplace<'a, T> => Option<T>);
takes_session!(['a, T: DeserializeOwned + Send + Sync + 'a] FindOneAndReplace<'a, T>);
setters!(FindOneAndReplaceOptions for ['a, T: Send + Sync] FindOneAndReplace<'a, T>);
awaitable!(['a, T: DeserializeOwned + Send + Sync + 'a] FindOneAndDelete<'a, T> => Option<T>);
takes_session!(['a, T: DeserializeOwned + Send + Sync + 'a] FindOneAndDelete<'a, T>);
setters!(FindOneAndDeleteOptions for ['a, T: Send + Sync] FindOneAndDelete<'a, T>);
