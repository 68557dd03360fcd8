//! A collection as the application holds it: a name, defaults, and the type of its documents.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use crate::{
    Client, Database,
    command::{Concern, Target},
    error::Result,
    namespace::{Namespace, check_collection_name, check_database_name},
    options::CollectionOptions,
};

/// A collection whose documents are read and written as `T`.
///
/// Cheap to clone and free to make: nothing is sent until an action is awaited.
///
/// ```no_run
/// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
/// use serde::{Deserialize, Serialize};
/// use steadfast::{Collection, bson::doc};
///
/// #[derive(Serialize, Deserialize)]
/// struct Book {
///     title: String,
/// }
///
/// let books: Collection<Book> = database.collection("books");
/// books.insert_one(Book { title: "1984".to_owned() }).await?;
/// assert!(books.find_one(doc! { "title": "1984" }).await?.is_some());
/// # Ok(()) }
/// ```
pub struct Collection<T: Send + Sync> {
    pub(crate) handle: Arc<Handle>,
    documents: PhantomData<fn() -> T>,
}

/// All of a collection but the type of its documents, so that actions are compiled once.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(crate) client: Client,
    pub(crate) database: Arc<str>,
    pub(crate) name: String,
    criteria: Option<SelectionCriteria>,
    read_concern: Option<ReadConcern>,
    write_concern: Option<WriteConcern>,
    /// How long a call may take, unless it says otherwise itself.
    pub(crate) timeout: Option<Duration>,
    /// Whether a server could have such a collection.
    is_well_named: bool,
}

impl Handle {
    pub(crate) fn new(
        client: Client,
        database: Arc<str>,
        name: &str,
        options: CollectionOptions,
    ) -> Self {
        let CollectionOptions { selection_criteria, timeout, read_concern, write_concern } =
            options;
        let mut handle = Self {
            client,
            database,
            name: name.to_owned(),
            criteria: selection_criteria,
            read_concern,
            write_concern,
            timeout,
            is_well_named: false,
        };
        handle.is_well_named = handle.check_name().is_ok();
        handle
    }

    /// Whether this is its name and that of its database.
    pub(crate) fn is_at(&self, namespace: &Namespace) -> bool {
        *self.database == *namespace.db && *self.name == *namespace.coll
    }

    /// The collection's name, if a server could have such a collection (pitfall 41).
    pub(crate) fn checked_name(&self) -> Result<&str> {
        if !self.is_well_named {
            self.check_name()?;
        }
        Ok(&self.name)
    }

    fn check_name(&self) -> Result<()> {
        check_database_name(&self.database)?;
        check_collection_name(&self.name)
    }

    /// Where a read goes: what the action says, else the collection's, else the primary.
    pub(crate) fn read_target(&self, action: Option<&SelectionCriteria>) -> Target {
        Target::Read(action.or(self.criteria.as_ref()).cloned().unwrap_or_default())
    }

    /// What a read may see: what the action says, else what the collection says.
    pub(crate) fn read_concern<'r>(
        &'r self,
        action: Option<&'r ReadConcern>,
    ) -> Concern<'r, ReadConcern> {
        Concern { own: action, inherited: self.read_concern.as_ref() }
    }

    /// How durable a write must be: what the action says, else what the collection says.
    pub(crate) fn write_concern<'w>(
        &'w self,
        action: Option<&'w WriteConcern>,
    ) -> Concern<'w, WriteConcern> {
        Concern { own: action, inherited: self.write_concern.as_ref() }
    }
}

impl<T: Send + Sync> Collection<T> {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self { handle, documents: PhantomData }
    }

    /// The same collection, its documents read and written as `U`.
    pub fn clone_with_type<U: Send + Sync>(&self) -> Collection<U> {
        Collection::new(Arc::clone(&self.handle))
    }

    /// The same collection with another time limit for calls.
    pub(crate) fn with_timeout(&self, timeout: Option<Duration>) -> Self {
        Self::new(Arc::new(Handle { timeout, ..Handle::clone(&self.handle) }))
    }

    /// The client it belongs to.
    pub fn client(&self) -> &Client {
        &self.handle.client
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.handle.name
    }

    /// Its name with the database's before it.
    pub fn namespace(&self) -> Namespace {
        Namespace { db: self.handle.database.to_string(), coll: self.handle.name.clone() }
    }

    /// How long a call may take in all, unless the action says otherwise.
    pub fn timeout(&self) -> Option<Duration> {
        self.handle.timeout
    }

    /// Which servers its reads go to, unless an action says otherwise.
    pub fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.handle.criteria.as_ref()
    }

    /// What its reads may see, unless an action says otherwise.
    pub fn read_concern(&self) -> Option<&ReadConcern> {
        self.handle.read_concern.as_ref()
    }

    /// How durable its writes must be, unless an action says otherwise.
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.handle.write_concern.as_ref()
    }
}

impl Database {
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

impl<T: Send + Sync> Clone for Collection<T> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.handle))
    }
}

impl<T: Send + Sync> fmt::Debug for Collection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collection({})", self.namespace())
    }
}
