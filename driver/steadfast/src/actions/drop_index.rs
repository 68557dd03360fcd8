//! Dropping indexes.

use crate::{
    ClientSession, Collection,
    collection::Handle,
    error::Result,
    operation::{indexes, read_nothing, reading},
    options::DropIndexOptions,
};

impl<T: Send + Sync> Collection<T> {
    /// Drops the index of this name.
    pub fn drop_index(&self, name: impl AsRef<str>) -> DropIndex<'_> {
        let index = Some(name.as_ref().to_owned());
        DropIndex { collection: &self.handle, index, options: None, session: None }
    }

    /// Drops all indexes but that on `_id`.
    pub fn drop_indexes(&self) -> DropIndex<'_> {
        DropIndex { collection: &self.handle, index: None, options: None, session: None }
    }
}

/// Drops indexes. See [`Collection::drop_index`] and [`Collection::drop_indexes`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct DropIndex<'a> {
    collection: &'a Handle,
    index: Option<String>,
    pub(crate) options: Option<DropIndexOptions>,
    session: Option<&'a mut ClientSession>,
}

impl DropIndex<'_> {
    async fn execute(self) -> Result<()> {
        let command = indexes::drop(self.collection, self.index.as_deref(), self.options.as_ref())?;
        let command = command.in_session(self.session, &self.collection.client)?;
        let reply = self.collection.client.executor().run(command).await?;
        reading(&reply, read_nothing)
    }
}

awaitable!(['a] DropIndex<'a> => ());
takes_session!(['a] DropIndex<'a>);
setters!(DropIndexOptions for ['a] DropIndex<'a>);
