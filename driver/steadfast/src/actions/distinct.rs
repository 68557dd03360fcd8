//! Distinct values of a field.

use bson::{Bson, Document};

use crate::{
    ClientSession, Collection,
    collection::CollectionHandle,
    error::Result,
    operation::{distinct, read_reply},
    options::DistinctOptions,
};

impl<T: Send + Sync> Collection<T> {
    /// Returns the distinct values of a field in the documents that match `filter`. See the
    /// [`distinct`](https://www.mongodb.com/docs/manual/reference/command/distinct/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let authors = books.distinct("author", doc! { "year": { "$gt": 1900 } }).await?;
    /// println!("{} authors", authors.len());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error. See
    /// also the [errors of every action](crate::action#errors).
    pub fn distinct(&self, field_name: impl AsRef<str>, filter: Document) -> Distinct<'_> {
        let field = field_name.as_ref().to_owned();
        Distinct { collection: &self.handle, field, filter, options: None, session: None }
    }
}

/// Action that finds distinct values. See [`Collection::distinct`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct Distinct<'a> {
    collection: &'a CollectionHandle,
    field: String,
    filter: Document,
    pub(crate) options: Option<DistinctOptions>,
    session: Option<&'a mut ClientSession>,
}

impl Distinct<'_> {
    async fn execute(self) -> Result<Vec<Bson>> {
        let Self { collection, field, filter, options, session } = self;
        let command = distinct::distinct(collection, &field, &filter, options.as_ref())?;
        let command = command.in_session(session, &collection.client)?;
        let reply = collection.client.executor().run(command).await?;
        read_reply(&reply, distinct::read)
    }
}

awaitable!(['a] Distinct<'a> => Vec<Bson>);
takes_session!(['a] Distinct<'a>);
setters!(DistinctOptions for ['a] Distinct<'a>);
