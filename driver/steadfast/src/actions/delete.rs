//! Deleting one document or many.

use bson::Document;

use super::write;
use crate::{
    ClientSession, Collection, collection::Handle, error::Result, operation::delete,
    options::DeleteOptions, results::DeleteResult, trace,
};

impl<T: Send + Sync> Collection<T> {
    /// Deletes the first document that matches `query`.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let result = books.delete_one(doc! { "title": "1984" }).await?;
    /// println!("{} gone", result.deleted_count);
    /// # Ok(()) }
    /// ```
    pub fn delete_one(&self, query: Document) -> Delete<'_> {
        Delete { collection: &self.handle, query, multi: false, options: None, session: None }
    }

    /// Deletes every document that matches `query`.
    pub fn delete_many(&self, query: Document) -> Delete<'_> {
        Delete { collection: &self.handle, query, multi: true, options: None, session: None }
    }
}

/// Deletes documents. See [`Collection::delete_one`] and [`Collection::delete_many`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct Delete<'a> {
    collection: &'a Handle,
    query: Document,
    multi: bool,
    pub(crate) options: Option<DeleteOptions>,
    session: Option<&'a mut ClientSession>,
}

impl Delete<'_> {
    async fn execute(self) -> Result<DeleteResult> {
        let client = &self.collection.client;
        let options = self.options.as_ref();
        let command = delete::delete(self.collection, &self.query, self.multi, options)?;
        let mut command = command.in_session(self.session, client)?;
        if !command.acknowledged && options.is_some_and(|options| options.hint.is_some()) {
            let operation =
                trace::Operation { name: "delete", id: client.executor().begin_operation() };
            write::check_unheard_hint(client, operation, command.start_clock()).await?;
        }
        write::run(client, Box::new(command), delete::read).await
    }
}

awaitable!(['a] Delete<'a> => DeleteResult);
takes_session!(['a] Delete<'a>);
setters!(DeleteOptions for ['a] Delete<'a>);
