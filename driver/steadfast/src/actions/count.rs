//! Counting documents.

use bson::Document;

use crate::{
    ClientSession, Collection,
    collection::Handle,
    error::Result,
    operation::{collections::forgive_missing, count, reading},
    options::{CountOptions, EstimatedDocumentCountOptions},
};

impl<T: Send + Sync> Collection<T> {
    /// How many documents the collection has by its own account: fast, and after a crash or on a
    /// sharded cluster perhaps not quite right.
    pub fn estimated_document_count(&self) -> EstimatedDocumentCount<'_> {
        EstimatedDocumentCount { collection: &self.handle, options: None, session: None }
    }

    /// How many documents match `filter`: exact, and they are looked at to know.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let old = books.count_documents(doc! { "year": { "$lt": 1900 } }).await?;
    /// println!("{old} books of the nineteenth century or before");
    /// # Ok(()) }
    /// ```
    pub fn count_documents(&self, filter: Document) -> CountDocuments<'_> {
        CountDocuments { collection: &self.handle, filter, options: None, session: None }
    }
}

/// Asks how many documents there are, about. See [`Collection::estimated_document_count`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct EstimatedDocumentCount<'a> {
    collection: &'a Handle,
    pub(crate) options: Option<EstimatedDocumentCountOptions>,
    session: Option<&'a mut ClientSession>,
}

impl EstimatedDocumentCount<'_> {
    async fn execute(self) -> Result<u64> {
        let command = count::estimated(self.collection, self.options.as_ref())?;
        let command = command.in_session(self.session, &self.collection.client)?;
        match self.collection.client.executor().run(command).await {
            Ok(reply) => reading(&reply, count::read_estimated),
            // A collection that is not there has no documents.
            Err(error) => forgive_missing(error),
        }
    }
}

awaitable!(['a] EstimatedDocumentCount<'a> => u64);
takes_session!(['a] EstimatedDocumentCount<'a>);
setters!(EstimatedDocumentCountOptions for ['a] EstimatedDocumentCount<'a>);

/// Counts documents. See [`Collection::count_documents`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct CountDocuments<'a> {
    collection: &'a Handle,
    filter: Document,
    pub(crate) options: Option<CountOptions>,
    session: Option<&'a mut ClientSession>,
}

impl CountDocuments<'_> {
    async fn execute(self) -> Result<u64> {
        let command = count::documents(self.collection, &self.filter, self.options.as_ref())?;
        let command = command.in_session(self.session, &self.collection.client)?;
        let reply = self.collection.client.executor().run(command).await?;
        reading(&reply, count::read_documents)
    }
}

awaitable!(['a] CountDocuments<'a> => u64);
takes_session!(['a] CountDocuments<'a>);
setters!(CountOptions for ['a] CountDocuments<'a>);
