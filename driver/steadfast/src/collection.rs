//! Handle of a collection: name, default options and document type.

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

/// Handle of a collection whose documents are serialized and deserialized as `T`.
///
/// It is cheap to create and to clone. Nothing is sent until an action is awaited.
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
    pub(crate) handle: Arc<CollectionHandle>,
    documents: PhantomData<fn() -> T>,
}

/// Collection without its document type, so that actions are compiled once.
#[derive(Clone, Debug)]
pub(crate) struct CollectionHandle {
    pub(crate) client: Client,
    pub(crate) database: Arc<str>,
    pub(crate) name: String,
    criteria: Option<SelectionCriteria>,
    read_concern: Option<ReadConcern>,
    write_concern: Option<WriteConcern>,
    /// Default time-out of a whole call.
    pub(crate) timeout: Option<Duration>,
    /// `true` if the names of the database and the collection are valid.
    is_well_named: bool,
}

impl CollectionHandle {
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

    /// Returns `true` if this is the namespace of the collection.
    pub(crate) fn is_at(&self, namespace: &Namespace) -> bool {
        *self.database == *namespace.db && *self.name == *namespace.coll
    }

    /// Returns the name of the collection, or an error if a server would reject the namespace
    /// (pitfall 41).
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

    /// Returns the target of a read: the criteria of the action, else of the collection, else the
    /// primary.
    pub(crate) fn read_target(&self, action: Option<&SelectionCriteria>) -> Target {
        Target::Read(action.or(self.criteria.as_ref()).cloned().unwrap_or_default())
    }

    /// Returns the read concern of the action and of the collection.
    pub(crate) fn read_concern<'r>(
        &'r self,
        action: Option<&'r ReadConcern>,
    ) -> Concern<'r, ReadConcern> {
        Concern { own: action, inherited: self.read_concern.as_ref() }
    }

    /// Returns the write concern of the action and of the collection.
    pub(crate) fn write_concern<'w>(
        &'w self,
        action: Option<&'w WriteConcern>,
    ) -> Concern<'w, WriteConcern> {
        Concern { own: action, inherited: self.write_concern.as_ref() }
    }
}

impl<T: Send + Sync> Collection<T> {
    pub(crate) fn new(handle: Arc<CollectionHandle>) -> Self {
        Self { handle, documents: PhantomData }
    }

    /// Returns a handle of the same collection with another document type.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::RawDocumentBuf;
    ///
    /// let raw = books.clone_with_type::<RawDocumentBuf>();
    /// # Ok(()) }
    /// ```
    pub fn clone_with_type<U: Send + Sync>(&self) -> Collection<U> {
        Collection::new(Arc::clone(&self.handle))
    }

    /// Returns a handle of the same collection with another default time-out.
    pub(crate) fn with_timeout(&self, timeout: Option<Duration>) -> Self {
        Self::new(Arc::new(CollectionHandle { timeout, ..CollectionHandle::clone(&self.handle) }))
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.handle.client
    }

    /// Returns the name of the collection.
    pub fn name(&self) -> &str {
        &self.handle.name
    }

    /// Returns the namespace: the names of the database and the collection.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// println!("{}", books.namespace());
    /// # Ok(()) }
    /// ```
    pub fn namespace(&self) -> Namespace {
        Namespace { db: self.handle.database.to_string(), coll: self.handle.name.clone() }
    }

    /// Returns the default time-out of a whole call (`timeoutMS`).
    pub fn timeout(&self) -> Option<Duration> {
        self.handle.timeout
    }

    /// Returns the default read preference, or predicate that selects servers.
    pub fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.handle.criteria.as_ref()
    }

    /// Returns the default read concern.
    pub fn read_concern(&self) -> Option<&ReadConcern> {
        self.handle.read_concern.as_ref()
    }

    /// Returns the default write concern.
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.handle.write_concern.as_ref()
    }
}

impl Database {
    /// Returns a handle of a collection, with the default options of the database.
    ///
    /// The name is checked when an operation runs.
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// use steadfast::bson::Document;
    ///
    /// let books = database.collection::<Document>("books");
    /// # Ok(()) }
    /// ```
    pub fn collection<T: Send + Sync>(&self, name: &str) -> Collection<T> {
        self.collection_with_options(name, CollectionOptions::default())
    }

    /// Returns a handle of a collection with its own default options. An option that is not set is
    /// inherited from the database.
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::Document, options::{CollectionOptions, ReadConcern}};
    ///
    /// let options = CollectionOptions::builder().read_concern(ReadConcern::majority()).build();
    /// let books = database.collection_with_options::<Document>("books", options);
    /// # Ok(()) }
    /// ```
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
        let handle =
            CollectionHandle::new(self.client.clone(), Arc::clone(&self.name), name, options);
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
