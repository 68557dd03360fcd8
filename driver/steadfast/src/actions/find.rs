//! Queries.

use std::marker::PhantomData;

use bson::Document;
use serde::de::DeserializeOwned;

use super::{ExplicitSession, ImplicitSession, session::OpenCursor};
use crate::{
    ClientSession, Collection, Cursor, SessionCursor,
    collection::CollectionHandle,
    command::Command,
    cursor::only_document,
    decode,
    error::Result,
    operation::{find, get_more::GetMoreOptions},
    options::{FindOneOptions, FindOptions},
};

impl<T: Send + Sync> Collection<T> {
    /// Finds the documents that match `filter` and returns a [`Cursor`]. See the
    /// [`find`](https://www.mongodb.com/docs/manual/reference/command/find/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let mut cursor = books
    ///     .find(doc! { "author": "George Orwell" })
    ///     .sort(doc! { "year": 1 })
    ///     .limit(10)
    ///     .await?;
    /// while cursor.advance().await? {
    ///     println!("{}", cursor.deserialize_current()?);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error. See
    /// also the [errors of every action](crate::action#errors).
    pub fn find(&self, filter: Document) -> Find<'_, T> {
        Find {
            collection: &self.handle,
            filter,
            options: None,
            session: ImplicitSession,
            documents: PhantomData,
        }
    }
}

impl<T: DeserializeOwned + Send + Sync> Collection<T> {
    /// Finds the first document that matches `filter`, in the order of [`sort`](FindOne::sort).
    /// Returns `None` if no document matches. See the
    /// [`find`](https://www.mongodb.com/docs/manual/reference/command/find/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// if let Some(book) = books.find_one(doc! { "title": "1984" }).await? {
    ///     println!("{book}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error.
    /// - [`ErrorKind::Bson`](crate::error::ErrorKind::Bson) if the document does not deserialize as
    ///   `T`.
    ///
    /// See also the [errors of every action](crate::action#errors).
    pub fn find_one(&self, filter: Document) -> FindOne<'_, T> {
        FindOne {
            collection: &self.handle,
            filter,
            options: None,
            session: None,
            documents: PhantomData,
        }
    }
}

/// Action that finds documents. See [`Collection::find`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct Find<'a, T: Send + Sync, S = ImplicitSession> {
    collection: &'a CollectionHandle,
    filter: Document,
    pub(crate) options: Option<FindOptions>,
    session: S,
    documents: PhantomData<fn() -> T>,
}

impl<T: Send + Sync, S> Find<'_, T, S> {
    async fn execute(self) -> Result<S::Cursor<T>>
    where
        S: OpenCursor,
    {
        let (command, more) = find::find(self.collection, &self.filter, self.options.as_ref())?;
        self.session.open(&self.collection.client, command, more).await
    }

    async fn open_batches(self) -> Result<S::Batches>
    where
        S: OpenCursor,
    {
        let (command, more) = find::find(self.collection, &self.filter, self.options.as_ref())?;
        self.session.open_batches(&self.collection.client, command, more).await
    }
}

awaitable!(['a, T: Send + Sync + 'a] Find<'a, T> => Cursor<T>, sync crate::blocking::Cursor<T>);
awaitable!(['a, T: Send + Sync + 'a] Find<'a, T, ExplicitSession<'a>> => SessionCursor<T>, sync crate::blocking::SessionCursor<T>);
returns_batches!(['a, T: Send + Sync] Find<'a, T>, Find<'a, T, ExplicitSession<'a>>);
takes_session!(
    ['a, T: Send + Sync] Find { collection, filter, options, documents }:
    Find<'a, T> => Find<'a, T, ExplicitSession<'a>>
);

/// Action that finds one document. See [`Collection::find_one`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct FindOne<'a, T: Send + Sync> {
    collection: &'a CollectionHandle,
    filter: Document,
    pub(crate) options: Option<FindOneOptions>,
    session: Option<&'a mut ClientSession>,
    documents: PhantomData<fn() -> T>,
}

impl<'a, T: DeserializeOwned + Send + Sync> FindOne<'a, T> {
    fn execute(self) -> impl Future<Output = Result<Option<T>>> + Send + use<'a, T> {
        let client = &self.collection.client;
        let prepared = self.into_command();
        async move {
            let (command, more) = prepared?;
            let reply = client.executor().run(command).await?;
            match only_document(&reply)? {
                Some(Some(document)) => Ok(Some(decode::document(&document)?)),
                Some(None) => Ok(None),
                // Boxed: this rare case must not enlarge the future of the common one.
                None => Box::pin(first_of(Cursor::new(client, reply, more)?)).await,
            }
        }
    }

    /// Builds the command before the future, which is smaller without the options.
    fn into_command(self) -> Result<(Box<Command>, GetMoreOptions)> {
        let (command, more) = find::one(self.collection, &self.filter, self.options)?;
        let command = command.in_session(self.session, &self.collection.client)?;
        Ok((Box::new(command), more))
    }
}

async fn first_of<T: DeserializeOwned>(mut cursor: Cursor<T>) -> Result<Option<T>> {
    if cursor.advance().await? { cursor.deserialize_current().map(Some) } else { Ok(None) }
}

awaitable!(['a, T: DeserializeOwned + Send + Sync + 'a] FindOne<'a, T> => Option<T>);
takes_session!(['a, T: Send + Sync] FindOne<'a, T>);
setters!(FindOneOptions for ['a, T: Send + Sync] FindOne<'a, T>);
setters!(FindOptions for ['a, T: Send + Sync, S] Find<'a, T, S>);
