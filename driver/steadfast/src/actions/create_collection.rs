//! Making collections.

use bson::Document;

use crate::{
    ClientSession, Database,
    error::Result,
    operation::{collections, read_nothing, reading},
    options::CreateCollectionOptions,
};

impl Database {
    /// Makes a collection or a view. Without options there is no need to: the first insert makes
    /// the collection.
    pub fn create_collection(&self, name: impl Into<String>) -> CreateCollection<'_> {
        CreateCollection { database: self, name: name.into(), options: None, session: None }
    }
}

/// Makes a collection. See [`Database::create_collection`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct CreateCollection<'a> {
    database: &'a Database,
    name: String,
    pub(crate) options: Option<CreateCollectionOptions>,
    session: Option<&'a mut ClientSession>,
}

impl CreateCollection<'_> {
    async fn execute(self) -> Result<()> {
        let collection = self.database.collection::<Document>(&self.name);
        let command = collections::create(&collection.handle, self.options.as_ref())?;
        let command = command.in_session(self.session, &self.database.client)?;
        let reply = self.database.client.executor().run(command).await?;
        reading(&reply, read_nothing)
    }
}

awaitable!(['a] CreateCollection<'a> => ());
takes_session!(['a] CreateCollection<'a>);
setters!(CreateCollectionOptions for ['a] CreateCollection<'a>);
