//! Inserts of one document.

use std::borrow::Borrow;

use bson::Bson;
use serde::Serialize;

use super::write;
use crate::{
    ClientSession, Collection,
    collection::CollectionHandle,
    command::Command,
    error::Result,
    operation::insert::{self, Encoded},
    options::InsertOneOptions,
    results::InsertOneResult,
};

impl<T: Serialize + Send + Sync> Collection<T> {
    /// Inserts a document. See the
    /// [`insert`](https://www.mongodb.com/docs/manual/reference/command/insert/) command.
    ///
    /// A document without an `_id` gets a new `ObjectId`, returned as
    /// [`inserted_id`](crate::results::InsertOneResult::inserted_id).
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let result = books.insert_one(doc! { "title": "1984" }).await?;
    /// println!("inserted as {}", result.inserted_id);
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
    pub fn insert_one(&self, document: impl Borrow<T>) -> InsertOne<'_> {
        InsertOne {
            collection: &self.handle,
            document: insert::encode(document.borrow()),
            options: None,
            session: None,
        }
    }
}

/// Action that inserts a document. See [`Collection::insert_one`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct InsertOne<'a> {
    collection: &'a CollectionHandle,
    document: Result<Encoded>,
    pub(crate) options: Option<InsertOneOptions>,
    session: Option<&'a mut ClientSession>,
}

impl<'a> InsertOne<'a> {
    fn execute(self) -> impl Future<Output = Result<InsertOneResult>> + Send + use<'a> {
        let client = &self.collection.client;
        let prepared = self.into_command();
        async move {
            let (command, inserted_id) = prepared?;
            write::run(client, command, insert::read_one).await?;
            Ok(InsertOneResult { inserted_id })
        }
    }

    /// Builds the command before the future, which is smaller without the options.
    fn into_command(self) -> Result<(Box<Command>, Bson)> {
        let Encoded { bytes, id } = self.document?;
        let command = insert::one(self.collection, bytes, self.options.as_ref())?;
        let command = command.in_session(self.session, &self.collection.client)?;
        Ok((Box::new(command), id))
    }
}

awaitable!(['a] InsertOne<'a> => InsertOneResult);
takes_session!(['a] InsertOne<'a>);
setters!(InsertOneOptions for ['a] InsertOne<'a>);
