//! Handle of a database.

use std::{fmt, time::Duration};

use bson::{Document, RawDocumentBuf};
use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use super::{Client, Collection, gridfs::GridFsBucket};
use crate::{
    action::{
        Aggregate, CreateCollection, DropDatabase, ListCollections, ListNames, RunCommand,
        RunCursorCommand, Watch,
    },
    options::{CollectionOptions, GridFsBucketOptions},
};

/// Handle of a database, with a blocking API. See the async [`Database`](crate::Database).
///
/// ```no_run
/// # fn run(client: steadfast::sync::Client) -> steadfast::error::Result<()> {
/// for name in client.database("library").list_collection_names().run()? {
///     println!("{name}");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Database {
    inner: crate::Database,
}

impl Database {
    pub(super) fn new(inner: crate::Database) -> Self {
        Self { inner }
    }

    /// Returns the client. See [`Database::client`](crate::Database::client).
    pub fn client(&self) -> Client {
        self.inner.client().clone().into()
    }

    /// Returns the name. See [`Database::name`](crate::Database::name).
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// Returns the read preference, or predicate that selects servers. See
    /// [`Database::selection_criteria`](crate::Database::selection_criteria).
    pub fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.inner.selection_criteria()
    }

    /// Returns the read concern. See [`Database::read_concern`](crate::Database::read_concern).
    pub fn read_concern(&self) -> Option<&ReadConcern> {
        self.inner.read_concern()
    }

    /// Returns the write concern. See [`Database::write_concern`](crate::Database::write_concern).
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.inner.write_concern()
    }

    /// Returns the default time-out of a whole call. See [`Database::timeout`](crate::Database::timeout).
    pub fn timeout(&self) -> Option<Duration> {
        self.inner.timeout()
    }

    /// Returns a handle of a collection. See [`Database::collection`](crate::Database::collection).
    pub fn collection<T: Send + Sync>(&self, name: &str) -> Collection<T> {
        Collection::new(self.inner.collection(name))
    }

    /// Returns a handle of a collection with other default options. See
    /// [`Database::collection_with_options`](crate::Database::collection_with_options).
    pub fn collection_with_options<T: Send + Sync>(
        &self,
        name: &str,
        options: CollectionOptions,
    ) -> Collection<T> {
        Collection::new(self.inner.collection_with_options(name, options))
    }

    /// Returns a handle of a GridFS bucket. See [`Database::gridfs_bucket`](crate::Database::gridfs_bucket).
    pub fn gridfs_bucket(&self, options: impl Into<Option<GridFsBucketOptions>>) -> GridFsBucket {
        GridFsBucket::new(self.inner.gridfs_bucket(options))
    }

    /// Runs an aggregation pipeline on the database. See [`Database::aggregate`](crate::Database::aggregate).
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate<'_> {
        self.inner.aggregate(pipeline)
    }

    /// Creates a collection. See [`Database::create_collection`](crate::Database::create_collection).
    pub fn create_collection(&self, name: impl Into<String>) -> CreateCollection<'_> {
        self.inner.create_collection(name)
    }

    /// Drops the database. See [`Database::drop`](crate::Database::drop).
    pub fn drop(&self) -> DropDatabase<'_> {
        self.inner.drop()
    }

    /// Lists the collections. See [`Database::list_collections`](crate::Database::list_collections).
    pub fn list_collections(&self) -> ListCollections<'_> {
        self.inner.list_collections()
    }

    /// Lists the names of the collections. See
    /// [`Database::list_collection_names`](crate::Database::list_collection_names).
    pub fn list_collection_names(&self) -> ListCollections<'_, ListNames> {
        self.inner.list_collection_names()
    }

    /// Runs a command. See [`Database::run_command`](crate::Database::run_command).
    pub fn run_command(&self, command: Document) -> RunCommand<'_> {
        self.inner.run_command(command)
    }

    /// Runs a command given as raw BSON. See [`Database::run_raw_command`](crate::Database::run_raw_command).
    pub fn run_raw_command(&self, command: RawDocumentBuf) -> RunCommand<'_> {
        self.inner.run_raw_command(command)
    }

    /// Runs a command that returns a cursor. See
    /// [`Database::run_cursor_command`](crate::Database::run_cursor_command).
    pub fn run_cursor_command(&self, command: Document) -> RunCursorCommand<'_> {
        self.inner.run_cursor_command(command)
    }

    /// Runs a command given as raw BSON that returns a cursor. See
    /// [`Database::run_raw_cursor_command`](crate::Database::run_raw_cursor_command).
    pub fn run_raw_cursor_command(&self, command: RawDocumentBuf) -> RunCursorCommand<'_> {
        self.inner.run_raw_cursor_command(command)
    }

    /// Opens a change stream on the database. See [`Database::watch`](crate::Database::watch).
    pub fn watch(&self) -> Watch<'_> {
        self.inner.watch()
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
