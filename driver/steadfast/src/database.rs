//! Handle of a database: name and default options.

use std::{fmt, sync::Arc, time::Duration};

use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use crate::{Client, options::DatabaseOptions};

/// Handle of a database.
///
/// It is cheap to create and to clone. Nothing is sent until an action is awaited.
///
/// ```no_run
/// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
/// let library = client.database("library");
/// println!("{:?}", library.list_collection_names().await?);
/// # Ok(()) }
/// ```
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

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the name of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the default read preference, or predicate that selects servers.
    pub fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.options.selection_criteria.as_ref()
    }

    /// Returns the default read concern.
    pub fn read_concern(&self) -> Option<&ReadConcern> {
        self.options.read_concern.as_ref()
    }

    /// Returns the default write concern.
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.options.write_concern.as_ref()
    }

    /// Returns the default time-out of a whole call (`timeoutMS`).
    pub fn timeout(&self) -> Option<Duration> {
        self.options.timeout
    }
}

impl Client {
    /// Returns a handle of a database, with the default options of the client.
    ///
    /// The name is checked when an operation runs.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// let library = client.database("library");
    /// # Ok(()) }
    /// ```
    pub fn database(&self, name: &str) -> Database {
        self.database_with_options(name, DatabaseOptions::default())
    }

    /// Returns a handle of a database with its own default options. An option that is not set is
    /// inherited from the client.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use std::time::Duration;
    /// use steadfast::options::DatabaseOptions;
    ///
    /// let options = DatabaseOptions::builder().timeout(Duration::from_secs(5)).build();
    /// let library = client.database_with_options("library", options);
    /// # Ok(()) }
    /// ```
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

    /// Returns a handle of the database in the path of the connection string (`defaultauthdb`), if
    /// there is one.
    ///
    /// ```no_run
    /// # async fn run() -> steadfast::error::Result<()> {
    /// use steadfast::Client;
    ///
    /// let client = Client::with_uri_str("mongodb://localhost/library").await?;
    /// assert_eq!(client.default_database().unwrap().name(), "library");
    /// # Ok(()) }
    /// ```
    pub fn default_database(&self) -> Option<Database> {
        self.executor().options().default_database.as_deref().map(|name| self.database(name))
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.name)
    }
}
