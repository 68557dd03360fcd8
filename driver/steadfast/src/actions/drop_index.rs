//! Removal of indexes.

use crate::{
    ClientSession, Collection,
    collection::CollectionHandle,
    error::Result,
    operation::{check_write_concern, indexes, read_reply},
    options::DropIndexOptions,
};

impl<T: Send + Sync> Collection<T> {
    /// Drops an index by name. See the
    /// [`dropIndexes`](https://www.mongodb.com/docs/manual/reference/command/dropIndexes/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// books.drop_index("title_1").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error.
    /// - [`ErrorKind::Write`](crate::error::ErrorKind::Write) if the write concern is not
    ///   satisfied.
    ///
    /// The command is not retried after a network error;
    /// [`Error::outcome`](crate::error::Error::outcome) states whether it was applied. See also the
    /// [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future after the command was sent does not stop it: the server may still execute it. See
    /// [cancellation](crate::action#cancellation).
    pub fn drop_index(&self, name: impl AsRef<str>) -> DropIndex<'_> {
        let index = Some(name.as_ref().to_owned());
        DropIndex { collection: &self.handle, index, options: None, session: None }
    }

    /// Drops all indexes except the one on `_id`. See the
    /// [`dropIndexes`](https://www.mongodb.com/docs/manual/reference/command/dropIndexes/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// books.drop_indexes().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error.
    /// - [`ErrorKind::Write`](crate::error::ErrorKind::Write) if the write concern is not
    ///   satisfied.
    ///
    /// The command is not retried after a network error;
    /// [`Error::outcome`](crate::error::Error::outcome) states whether it was applied. See also the
    /// [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future after the command was sent does not stop it: the server may still execute it. See
    /// [cancellation](crate::action#cancellation).
    pub fn drop_indexes(&self) -> DropIndex<'_> {
        DropIndex { collection: &self.handle, index: None, options: None, session: None }
    }
}

/// Action that drops indexes. See [`Collection::drop_index`] and [`Collection::drop_indexes`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct DropIndex<'a> {
    collection: &'a CollectionHandle,
    index: Option<String>,
    pub(crate) options: Option<DropIndexOptions>,
    session: Option<&'a mut ClientSession>,
}

impl DropIndex<'_> {
    async fn execute(self) -> Result<()> {
        let command = indexes::drop(self.collection, self.index.as_deref(), self.options.as_ref())?;
        let command = command.in_session(self.session, &self.collection.client)?;
        let reply = self.collection.client.executor().run(command).await?;
        read_reply(&reply, check_write_concern)
    }
}

awaitable!(['a] DropIndex<'a> => ());
takes_session!(['a] DropIndex<'a>);
setters!(DropIndexOptions for ['a] DropIndex<'a>);
