//! Inserting one document.

use std::borrow::Borrow;

use serde::Serialize;

use super::write;
use crate::{
    ClientSession, Collection,
    collection::Handle,
    error::Result,
    operation::insert::{self, Encoded},
    options::InsertOneOptions,
    results::InsertOneResult,
};

impl<T: Serialize + Send + Sync> Collection<T> {
    /// Inserts `document`, which gets an `_id` if it has none.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let result = books.insert_one(doc! { "title": "1984" }).await?;
    /// println!("inserted as {}", result.inserted_id);
    /// # Ok(()) }
    /// ```
    pub fn insert_one(&self, document: impl Borrow<T>) -> InsertOne<'_> {
        InsertOne {
            collection: &self.handle,
            document: insert::encode(document.borrow()),
            options: None,
            session: None,
        }
    }
}

/// Inserts one document. See [`Collection::insert_one`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct InsertOne<'a> {
    collection: &'a Handle,
    document: Result<Encoded>,
    pub(crate) options: Option<InsertOneOptions>,
    session: Option<&'a mut ClientSession>,
}

impl InsertOne<'_> {
    async fn execute(self) -> Result<InsertOneResult> {
        let Encoded { bytes, id } = self.document?;
        let command = insert::one(self.collection, bytes, self.options.as_ref())?;
        let command = command.in_session(self.session, &self.collection.client)?;
        write::run(&self.collection.client, command, insert::read_one).await?;
        Ok(InsertOneResult { inserted_id: id })
    }
}

awaitable!(['a] InsertOne<'a> => InsertOneResult);
takes_session!(['a] InsertOne<'a>);
