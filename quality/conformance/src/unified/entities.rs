//! Entities of a test by name: clients, databases, collections, cursors, values.

mod client;
mod cursor;
mod session;
mod thread;
mod uri;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bson::{Bson, Document};
use steadfast::{
    ClusterTime, Collection, Database,
    gridfs::GridFsBucket,
    options::{CollectionOptions, DatabaseOptions, GridFsBucketOptions},
};
use steadfast_core::description::TopologyDescription;

pub(super) use self::{
    client::ClientEntity,
    cursor::{HeldCursor, SharedCursor, open_cursor},
    session::{SessionEntity, SessionInUse},
    thread::TestThread,
};
use super::{
    deployment::Deployment,
    schema::{CommonOptions, EntitySpec},
    test_error::{TestError, TestResult},
};

/// An entity.
#[derive(Clone, Debug)]
pub(super) enum Entity {
    Client(ClientEntity),
    Database(Database),
    Collection(Collection<Document>),
    Bucket(GridFsBucket),
    Session(SessionEntity),
    Cursor(SharedCursor),
    Thread(TestThread),
    Topology(Arc<TopologyDescription>),
    Bson(Bson),
}

/// The entities of one test.
#[derive(Debug, Default)]
pub(super) struct Entities {
    named: Mutex<BTreeMap<String, Entity>>,
    /// Default options of clients.
    defaults: Document,
    /// Initial cluster time of new sessions.
    cluster_time: Mutex<Option<ClusterTime>>,
}

impl Entities {
    /// Creates an empty set. Clients get these default options.
    pub(super) fn new(defaults: Document) -> Self {
        Self { defaults, ..Self::default() }
    }

    /// Sets the initial cluster time of sessions that are created later.
    pub(super) fn advance_sessions_to(&self, time: Option<ClusterTime>) {
        *self.cluster_time.lock().unwrap_or_else(PoisonError::into_inner) = time;
    }

    /// Returns the entity of this name.
    pub(super) fn get(&self, name: &str) -> TestResult<Entity> {
        let found = self.lock().get(name).cloned();
        found.ok_or_else(|| TestError::failed(format!("there is no entity {name}")))
    }

    /// Adds an entity. The name must be new.
    pub(super) fn add(&self, name: &str, entity: Entity) -> TestResult<()> {
        match self.lock().entry(name.to_owned()) {
            std::collections::btree_map::Entry::Occupied(_) => {
                Err(TestError::failed(format!("there is an entity {name} already")))
            }
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(entity);
                Ok(())
            }
        }
    }

    /// Creates entities in their order.
    pub(super) async fn create(
        &self,
        deployment: &Deployment,
        specs: &[EntitySpec],
    ) -> TestResult<()> {
        for spec in specs {
            self.create_one(deployment, spec).await?;
        }
        Ok(())
    }

    async fn create_one(&self, deployment: &Deployment, spec: &EntitySpec) -> TestResult<()> {
        match spec {
            EntitySpec::Client(spec) => {
                let client = ClientEntity::open(deployment, &self.defaults, spec).await?;
                self.add(&spec.id, Entity::Client(client))
            }
            EntitySpec::Database(spec) => {
                let client = self.client(&spec.client)?.client;
                let options = database_options(&spec.database_options)?;
                let database = client.database_with_options(&spec.database_name, options);
                self.add(&spec.id, Entity::Database(database))
            }
            EntitySpec::Collection(spec) => {
                let database = self.database(&spec.database)?;
                let options = collection_options(&spec.collection_options)?;
                let collection = database.collection_with_options(&spec.collection_name, options);
                self.add(&spec.id, Entity::Collection(collection))
            }
            EntitySpec::Thread(spec) => self.add(&spec.id, Entity::Thread(TestThread::start())),
            EntitySpec::Session(spec) => {
                let client = self.client(&spec.client)?;
                let session = SessionEntity::start(self, &client, &spec.session_options).await?;
                let time = self.cluster_time.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let Some(time) = time {
                    session.lock().await?.session().advance_cluster_time(&time);
                }
                self.add(&spec.id, Entity::Session(session))
            }
            EntitySpec::Bucket(spec) => {
                let database = self.database(&spec.database)?;
                let options = bucket_options(&spec.bucket_options)?;
                self.add(&spec.id, Entity::Bucket(database.gridfs_bucket(options)))
            }
            EntitySpec::ClientEncryption(spec) => {
                Err(TestError::needs("client-side encryption").within(&spec.id))
            }
        }
    }

    pub(super) fn client(&self, name: &str) -> TestResult<ClientEntity> {
        match self.get(name)? {
            Entity::Client(client) => Ok(client),
            other => Err(mistyped(name, "client", &other)),
        }
    }

    fn database(&self, name: &str) -> TestResult<Database> {
        match self.get(name)? {
            Entity::Database(database) => Ok(database),
            other => Err(mistyped(name, "database", &other)),
        }
    }

    pub(super) fn thread(&self, name: &str) -> TestResult<TestThread> {
        match self.get(name)? {
            Entity::Thread(thread) => Ok(thread),
            other => Err(mistyped(name, "thread", &other)),
        }
    }

    pub(super) fn topology(&self, name: &str) -> TestResult<Arc<TopologyDescription>> {
        match self.get(name)? {
            Entity::Topology(description) => Ok(description),
            other => Err(mistyped(name, "topology description", &other)),
        }
    }

    pub(super) fn bson(&self, name: &str) -> TestResult<Bson> {
        match self.get(name)? {
            Entity::Bson(value) => Ok(value),
            other => Err(mistyped(name, "value", &other)),
        }
    }

    pub(super) fn session(&self, name: &str) -> TestResult<SessionEntity> {
        match self.get(name)? {
            Entity::Session(session) => Ok(session),
            other => Err(mistyped(name, "session", &other)),
        }
    }

    /// Returns all clients.
    pub(super) fn clients(&self) -> Vec<ClientEntity> {
        let entities = self.lock();
        let clients = entities.values().filter_map(|entity| match entity {
            Entity::Client(client) => Some(client.clone()),
            _ => None,
        });
        clients.collect()
    }

    /// Drops all entities, cursors first.
    pub(super) fn clear(&self) {
        let mut entities = self.lock();
        entities.retain(|_, entity| !matches!(entity, Entity::Cursor(_)));
        entities.clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entity>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn mistyped(name: &str, expected: &str, found: &Entity) -> TestError {
    TestError::failed(format!("the entity {name} is not a {expected}: {found:?}"))
}

fn database_options(spec: &CommonOptions) -> TestResult<DatabaseOptions> {
    Ok(bson::deserialize_from_document(common_options(spec)?)?)
}

fn collection_options(spec: &CommonOptions) -> TestResult<CollectionOptions> {
    Ok(bson::deserialize_from_document(common_options(spec)?)?)
}

/// Options of a GridFS bucket. An unknown option is an error.
fn bucket_options(spec: &Document) -> TestResult<GridFsBucketOptions> {
    let known = ["bucketName", "chunkSizeBytes", "readConcern", "readPreference", "writeConcern"];
    match spec.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) if key == "timeoutMS" => Err(TestError::needs("timeoutMS")),
        Some(key) if key != "disableMD5" => {
            Err(TestError::failed(format!("a bucket has no option {key}")))
        }
        _ => Ok(bson::deserialize_from_document(spec.clone())?),
    }
}

/// Options of a database or collection in the driver's form.
fn common_options(spec: &CommonOptions) -> TestResult<Document> {
    let CommonOptions { read_concern, read_preference, write_concern, timeout_ms } = spec;
    let given = [
        ("readConcern", read_concern),
        ("readPreference", read_preference),
        ("writeConcern", write_concern),
    ];
    let given = given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
    let mut given: Document = given.map(|(key, value)| (key, Bson::Document(value))).collect();
    given.extend(timeout_ms.map(|timeout| ("timeoutMS".to_owned(), Bson::Int64(timeout))));
    Ok(given)
}
