//! Methods of clients and sessions.

use super::{Client, ClientSession, Database};
use crate::{
    action::{
        AbortTransaction, BulkWrite, CommitTransaction, ListDatabases, ListNames, Shutdown,
        StartSession, WarmConnectionPool, Watch,
    },
    options::{DatabaseOptions, WriteModel},
    results::SummaryBulkWriteResult,
};

impl Client {
    /// Returns a handle of a database. See [`Client::database`](crate::Client::database).
    pub fn database(&self, name: &str) -> Database {
        Database::new(self.as_async().database(name))
    }

    /// Returns a handle of a database with other default options. See
    /// [`Client::database_with_options`](crate::Client::database_with_options).
    pub fn database_with_options(&self, name: &str, options: DatabaseOptions) -> Database {
        Database::new(self.as_async().database_with_options(name, options))
    }

    /// Returns a handle of the database in the connection string. See
    /// [`Client::default_database`](crate::Client::default_database).
    pub fn default_database(&self) -> Option<Database> {
        self.as_async().default_database().map(Database::new)
    }

    /// Executes write models on any collections. See [`Client::bulk_write`](crate::Client::bulk_write).
    pub fn bulk_write(
        &self,
        models: impl IntoIterator<Item = impl Into<WriteModel>>,
    ) -> BulkWrite<'_, SummaryBulkWriteResult> {
        self.as_async().bulk_write(models)
    }

    /// Lists the databases of the deployment. See [`Client::list_databases`](crate::Client::list_databases).
    pub fn list_databases(&self) -> ListDatabases<'_> {
        self.as_async().list_databases()
    }

    /// Lists the names of the databases. See [`Client::list_database_names`](crate::Client::list_database_names).
    pub fn list_database_names(&self) -> ListDatabases<'_, ListNames> {
        self.as_async().list_database_names()
    }

    /// Starts an explicit session. See [`Client::start_session`](crate::Client::start_session).
    pub fn start_session(&self) -> StartSession<'_> {
        self.as_async().start_session()
    }

    /// Opens a change stream on the deployment. See [`Client::watch`](crate::Client::watch).
    pub fn watch(&self) -> Watch<'_> {
        self.as_async().watch()
    }

    /// Fills the connection pools. See [`Client::warm_connection_pool`](crate::Client::warm_connection_pool).
    pub fn warm_connection_pool(&self) -> WarmConnectionPool<'_> {
        self.as_async().warm_connection_pool()
    }

    /// Shuts down the client. See [`Client::shutdown`](crate::Client::shutdown).
    pub fn shutdown(self) -> Shutdown {
        self.into_async().shutdown()
    }
}

impl ClientSession {
    /// Commits the transaction. See
    /// [`ClientSession::commit_transaction`](crate::ClientSession::commit_transaction).
    pub fn commit_transaction(&mut self) -> CommitTransaction<'_> {
        self.as_async_mut().commit_transaction()
    }

    /// Aborts the transaction. See [`ClientSession::abort_transaction`](crate::ClientSession::abort_transaction).
    pub fn abort_transaction(&mut self) -> AbortTransaction<'_> {
        self.as_async_mut().abort_transaction()
    }
}
