//! A database as the application holds it: a name and defaults.

use std::{fmt, sync::Arc, time::Duration};

use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use crate::{Client, options::DatabaseOptions};

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
}

impl Client {
    /// The database `name`, with the client's defaults.
    pub fn database(&self, name: &str) -> Database {
        self.database_with_options(name, DatabaseOptions::default())
    }

    /// The database `name` with defaults of its own; what is not set is as in the client.
    pub fn database_with_options(&self, name: &str, options: DatabaseOptions) -> Database {
        let ours = self.executor().options();
        let options = DatabaseOptions {
            selection_criteria: options
                .selection_criteria
                .or_else(|| ours.selection_criteria.clone()),
            read_concern: options.read_concern.or_else(|| ours.read_concern.clone()),
            write_concern: options.write_concern.or_else(|| ours.write_concern.clone()),
            timeout: options.timeout.or(ours.timeout),
        };
        Database::new(self.clone(), name, options)
    }

    /// The database that the connection string names, if it does.
    pub fn default_database(&self) -> Option<Database> {
        self.executor().options().default_database.as_deref().map(|name| self.database(name))
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.name)
    }
}
