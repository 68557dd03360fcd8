//! A database as the application holds it: a name and defaults.

use std::{fmt, sync::Arc, time::Duration};

use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use crate::{
    Client, Collection,
    collection::Handle,
    options::{CollectionOptions, DatabaseOptions},
};

/// A database. Cheap to clone and free to make: nothing is sent until an action is awaited.
#[derive(Clone)]
pub struct Database {
    pub(crate) client: Client,
    pub(crate) name: Arc<str>,
    pub(crate) options: Arc<DatabaseOptions>,
}

impl Database {
    pub(crate) fn new(client: Client, name: &str, options: DatabaseOptions) -> Self {
        Self { client, name: name.into(), options: Arc::new(options) }
    }

    /// The client it belongs to.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which servers its reads go to, unless a collection or an action says otherwise.
    pub fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.options.selection_criteria.as_ref()
    }

    /// What its reads may see, unless a collection or an action says otherwise.
    pub fn read_concern(&self) -> Option<&ReadConcern> {
        self.options.read_concern.as_ref()
    }

    /// How durable its writes must be, unless a collection or an action says otherwise.
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.options.write_concern.as_ref()
    }

    /// How long a call may take in all, unless something nearer says otherwise.
    pub fn timeout(&self) -> Option<Duration> {
        self.options.timeout
    }

    /// The collection `name`, its documents read and written as `T`.
    pub fn collection<T: Send + Sync>(&self, name: &str) -> Collection<T> {
        self.collection_with_options(name, CollectionOptions::default())
    }

    /// The collection `name` with defaults of its own; what is not set is as in the database.
    pub fn collection_with_options<T: Send + Sync>(
        &self,
        name: &str,
        options: CollectionOptions,
    ) -> Collection<T> {
        let options = CollectionOptions {
            selection_criteria: options
                .selection_criteria
                .or_else(|| self.options.selection_criteria.clone()),
            read_concern: options.read_concern.or_else(|| self.options.read_concern.clone()),
            write_concern: options.write_concern.or_else(|| self.options.write_concern.clone()),
            timeout: options.timeout.or(self.options.timeout),
        };
        let handle = Handle::new(self.client.clone(), Arc::clone(&self.name), name, options);
        Collection::new(Arc::new(handle))
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.name)
    }
}
