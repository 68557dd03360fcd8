//! Replacement of one document.

use std::borrow::Borrow;

use bson::{Document, RawDocumentBuf};
use serde::Serialize;

use super::write;
use crate::{
    ClientSession, Collection,
    collection::CollectionHandle,
    error::Result,
    operation::{update, write::Change},
    options::{ReplaceOptions, UpdateOptions},
    results::UpdateResult,
};

impl<T: Serialize + Send + Sync> Collection<T> {
    /// Replaces the first document that matches `query`. The `_id` does not change. See the
    /// [`update`](https://www.mongodb.com/docs/manual/reference/command/update/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// books.replace_one(doc! { "title": "1984" }, doc! { "title": "1984", "copies": 2 }).await?;
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
    pub fn replace_one(&self, query: Document, replacement: impl Borrow<T>) -> ReplaceOne<'_> {
        let replacement =
            bson::serialize_to_raw_document_buf(replacement.borrow()).map_err(Into::into);
        ReplaceOne { collection: &self.handle, query, replacement, options: None, session: None }
    }
}

/// Action that replaces a document. See [`Collection::replace_one`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct ReplaceOne<'a> {
    collection: &'a CollectionHandle,
    query: Document,
    replacement: Result<RawDocumentBuf>,
    pub(crate) options: Option<ReplaceOptions>,
    session: Option<&'a mut ClientSession>,
}

impl ReplaceOne<'_> {
    async fn execute(self) -> Result<UpdateResult> {
        let replacement = self.replacement?;
        let change = (Change::Replacement, &replacement);
        let options = self.options.map(UpdateOptions::from);
        let command =
            update::update(self.collection, &self.query, change, false, options.as_ref())?;
        let command = command.in_session(self.session, &self.collection.client)?;
        write::run(&self.collection.client, Box::new(command), update::read).await
    }
}

awaitable!(['a] ReplaceOne<'a> => UpdateResult);
takes_session!(['a] ReplaceOne<'a>);
setters!(ReplaceOptions for ['a] ReplaceOne<'a>);
