//! A collection as the application holds it: a name, defaults, and the type of its documents.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use crate::{
    Client,
    command::Target,
    error::{Error, Result},
    operation::Concern,
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

/// Refuses names that no server takes, or that would end a string early on the wire.
pub(crate) fn check_database_name(name: &str) -> Result<()> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.contains('\0') {
        "it contains a NUL byte"
    } else if name != "$external" && name.contains(['.', '/', '\\', ' ', '"', '$']) {
        "it contains one of . / \\ \" $ or a space"
    } else {
        return Ok(());
    };
    Err(Error::invalid_argument(format!("the database name {name:?} is invalid: {reason}")))
}

fn check_collection_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid_argument("the name of a collection is empty"));
    }
    if name.contains('\0') {
        return Err(Error::invalid_argument(format!(
            "the name of a collection contains a NUL byte: {name:?}"
        )));
    }
    Ok(())
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

/// A collection's name with its database's before it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace {
    /// The database's name.
    pub db: String,
    /// The collection's name.
    pub coll: String,
}

impl Namespace {
    /// The namespace of collection `coll` in database `db`.
    pub fn new(db: impl Into<String>, coll: impl Into<String>) -> Self {
        Self { db: db.into(), coll: coll.into() }
    }

    /// Refuses it if no server could have such a collection.
    pub(crate) fn check(&self) -> Result<()> {
        check_database_name(&self.db)?;
        check_collection_name(&self.coll)
    }

    /// Reads `database.collection`; the collection's name may itself contain dots.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (db, coll) = text.split_once('.')?;
        Some(Self::new(db, coll))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.db, self.coll)
    }
}

impl Serialize for Namespace {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Namespace {
    fn deserialize<D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| serde::de::Error::custom("expected \"database.collection\""))
    }
}
