//! Inserting one document.

use std::borrow::Borrow;

use bson::Bson;
use serde::Serialize;

use super::write;
use crate::{
    ClientSession, Collection,
    collection::Handle,
    command::Command,
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

    /// Made before the future is, which is then as small as what it needs from there on.
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
