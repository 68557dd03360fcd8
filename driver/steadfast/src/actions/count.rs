//! Counts of documents.

use bson::Document;

use crate::{
    ClientSession, Collection,
    collection::CollectionHandle,
    error::Result,
    operation::{collections::ignore_missing, count, read_reply},
    options::{CountOptions, EstimatedDocumentCountOptions},
};

impl<T: Send + Sync> Collection<T> {
    /// Returns the number of documents according to the collection's metadata. See the
    /// [`count`](https://www.mongodb.com/docs/manual/reference/command/count/) command.
    ///
    /// The count is fast. After an unclean shutdown, and on sharded clusters with orphaned
    /// documents, it may be inaccurate. A collection that does not exist has 0 documents.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// let about = books.estimated_document_count().await?;
    /// println!("about {about} books");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error. See
    /// also the [errors of every action](crate::action#errors).
    pub fn estimated_document_count(&self) -> EstimatedDocumentCount<'_> {
        EstimatedDocumentCount { collection: &self.handle, options: None, session: None }
    }

    /// Returns the exact number of documents that match `filter`, by an aggregation.
    /// See [`$group`](https://www.mongodb.com/docs/manual/reference/operator/aggregation/group/).
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let old = books.count_documents(doc! { "year": { "$lt": 1900 } }).await?;
    /// println!("{old} books of the nineteenth century or before");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error. See
    /// also the [errors of every action](crate::action#errors).
    pub fn count_documents(&self, filter: Document) -> CountDocuments<'_> {
        CountDocuments { collection: &self.handle, filter, options: None, session: None }
    }
}

/// Action that estimates the number of documents. See [`Collection::estimated_document_count`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct EstimatedDocumentCount<'a> {
    collection: &'a CollectionHandle,
    pub(crate) options: Option<EstimatedDocumentCountOptions>,
    session: Option<&'a mut ClientSession>,
}

impl EstimatedDocumentCount<'_> {
    async fn execute(self) -> Result<u64> {
        let command = count::estimated(self.collection, self.options.as_ref())?;
        let command = command.in_session(self.session, &self.collection.client)?;
        match self.collection.client.executor().run(command).await {
            Ok(reply) => read_reply(&reply, count::read_estimated),
            // The CRUD specification: `NamespaceNotFound` means 0 documents.
            Err(error) => ignore_missing(error),
        }
    }
}

awaitable!(['a] EstimatedDocumentCount<'a> => u64);
takes_session!(['a] EstimatedDocumentCount<'a>);
setters!(EstimatedDocumentCountOptions for ['a] EstimatedDocumentCount<'a>);

/// Action that counts documents. See [`Collection::count_documents`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct CountDocuments<'a> {
    collection: &'a CollectionHandle,
    filter: Document,
    pub(crate) options: Option<CountOptions>,
    session: Option<&'a mut ClientSession>,
}

impl CountDocuments<'_> {
    async fn execute(self) -> Result<u64> {
        let command = count::documents(self.collection, &self.filter, self.options.as_ref())?;
        let command = command.in_session(self.session, &self.collection.client)?;
        let reply = self.collection.client.executor().run(command).await?;
        read_reply(&reply, count::read_documents)
    }
}

awaitable!(['a] CountDocuments<'a> => u64);
takes_session!(['a] CountDocuments<'a>);
setters!(CountOptions for ['a] CountDocuments<'a>);
