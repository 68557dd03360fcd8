//! Inserting many documents.

use std::borrow::Borrow;

use serde::Serialize;

use super::write;
use crate::{
    ClientSession, Collection,
    collection::Handle,
    error::Result,
    operation::{
        bulk::{InsertedIds, Statements},
        insert,
    },
    options::InsertManyOptions,
    results::InsertManyResult,
};

impl<T: Serialize + Send + Sync> Collection<T> {
    /// Inserts `documents`, each of which gets an `_id` if it has none.
    ///
    /// However many they are, they are sent in as few commands as the server's limits allow. Unless
    /// [`ordered(false)`](InsertMany::ordered) is set, the first document that is refused ends it;
    /// the error is then an [`InsertManyError`](crate::error::InsertManyError), which tells the
    /// documents that were inserted from those that were not. If a later command cannot be carried
    /// out at all, the error is the same, and why is its
    /// [`source`](std::error::Error::source).
    ///
    /// Documents are serialized at once, but for raw ones
    /// ([`RawDocumentBuf`](bson::RawDocumentBuf)): those are sent from where they are, and nothing
    /// of them is copied.
    ///
    /// With a write concern of `w: 0` the ids are those that were sent. Of an ordered insert that
    /// takes several commands, all but the last are acknowledged even so, because each decides
    /// whether the next is sent.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, error::ErrorKind};
    ///
    /// let documents = ["1984", "Animal Farm"].map(|title| doc! { "title": title });
    /// match books.insert_many(documents).ordered(false).await {
    ///     Ok(result) => println!("{} inserted", result.inserted_ids.len()),
    ///     Err(error) => match &*error.kind {
    ///         ErrorKind::InsertMany(partly) => println!("only {}", partly.inserted_ids.len()),
    ///         _ => return Err(error),
    ///     },
    /// }
    /// # Ok(()) }
    /// ```
    pub fn insert_many<'a>(
        &'a self,
        documents: impl IntoIterator<Item = impl Borrow<T> + Send + Sync + 'a>,
    ) -> InsertMany<'a> {
        InsertMany {
            collection: &self.handle,
            documents: Statements::of_documents::<T, _>(documents),
            options: None,
            session: None,
        }
    }
}

/// Inserts many documents. See [`Collection::insert_many`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct InsertMany<'a> {
    collection: &'a Handle,
    documents: Result<Statements<'a>>,
    pub(crate) options: Option<InsertManyOptions>,
    session: Option<&'a mut ClientSession>,
}

impl InsertMany<'_> {
    async fn execute(self) -> Result<InsertManyResult> {
        let options = self.options.unwrap_or_default();
        let mut settings = insert::settings_of_many(&options);
        let documents = self.documents?;
        let inherited = self.collection.timeout;
        let deadline = write::start_clock(options.timeout, self.session.as_deref(), inherited)?;
        let session = write::share(self.session, self.collection, &mut settings)?;
        let mut ids = InsertedIds::new(&documents);
        let run = write::run_batches(self.collection, &documents, &settings, session, deadline);
        let (tally, broken) = write::meanwhile(run, || ids.collect_some()).await?;
        write::judged(tally.conclude_insert_many(ids, broken), deadline)
    }
}

awaitable!(['a] InsertMany<'a> => InsertManyResult);
takes_session!(['a] InsertMany<'a>);
setters!(InsertManyOptions for ['a] InsertMany<'a>);
