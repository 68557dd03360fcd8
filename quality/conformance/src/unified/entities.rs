//! The things that a test gives names to: clients, databases, collections, cursors, values.

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
    cursor::{HeldCursor, SharedCursor, opened},
    session::{SessionEntity, SessionInUse},
    thread::Thread,
};
use super::{
    deployment::Deployment,
    schema::{self, CommonOptions},
    stop::{Step, Stop},
};

/// What a name stands for.
#[derive(Clone, Debug)]
pub(super) enum Entity {
    Client(ClientEntity),
    Database(Database),
    Collection(Collection<Document>),
    Bucket(GridFsBucket),
    Session(SessionEntity),
    Cursor(SharedCursor),
    Thread(Thread),
    Topology(Arc<TopologyDescription>),
    Bson(Bson),
}

/// The names of one test.
#[derive(Debug, Default)]
pub(super) struct Entities {
    named: Mutex<BTreeMap<String, Entity>>,
    /// Options of clients, unless the test gives them itself.
    defaults: Document,
    /// Cluster time that each session gets when it is created.
    cluster_time: Mutex<Option<ClusterTime>>,
}

impl Entities {
    /// No names yet. Clients get these options, unless the test gives them itself.
    pub(super) fn new(defaults: Document) -> Self {
        Self { defaults, ..Self::default() }
    }

    /// Advances the cluster time of every session that is created from now on.
    pub(super) fn advance_sessions_to(&self, time: Option<ClusterTime>) {
        *self.cluster_time.lock().unwrap_or_else(PoisonError::into_inner) = time;
    }

    /// What the name stands for.
    pub(super) fn get(&self, name: &str) -> Step<Entity> {
        let found = self.lock().get(name).cloned();
        found.ok_or_else(|| Stop::failed(format!("there is no entity {name}")))
    }

    /// Gives a name, which must be new.
    pub(super) fn add(&self, name: &str, entity: Entity) -> Step<()> {
        match self.lock().entry(name.to_owned()) {
            std::collections::btree_map::Entry::Occupied(_) => {
                Err(Stop::failed(format!("there is an entity {name} already")))
            }
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(entity);
                Ok(())
            }
        }
    }

    /// Makes the entities in their order.
    pub(super) async fn create(
        &self,
        deployment: &Deployment,
        specs: &[schema::Entity],
    ) -> Step<()> {
        for spec in specs {
            self.create_one(deployment, spec).await?;
        }
        Ok(())
    }

    async fn create_one(&self, deployment: &Deployment, spec: &schema::Entity) -> Step<()> {
        match spec {
            schema::Entity::Client(spec) => {
                let client = ClientEntity::open(deployment, &self.defaults, spec).await?;
                self.add(&spec.id, Entity::Client(client))
            }
            schema::Entity::Database(spec) => {
                let client = self.client(&spec.client)?.client;
                let options = database_options(&spec.database_options)?;
                let database = client.database_with_options(&spec.database_name, options);
                self.add(&spec.id, Entity::Database(database))
            }
            schema::Entity::Collection(spec) => {
                let database = self.database(&spec.database)?;
                let options = collection_options(&spec.collection_options)?;
                let collection = database.collection_with_options(&spec.collection_name, options);
                self.add(&spec.id, Entity::Collection(collection))
            }
            schema::Entity::Thread(spec) => self.add(&spec.id, Entity::Thread(Thread::start())),
            schema::Entity::Session(spec) => {
                let client = self.client(&spec.client)?;
                let session = SessionEntity::start(self, &client, &spec.session_options).await?;
                let time = self.cluster_time.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let Some(time) = time {
                    session.take().await?.session().advance_cluster_time(&time);
                }
                self.add(&spec.id, Entity::Session(session))
            }
            schema::Entity::Bucket(spec) => {
                let database = self.database(&spec.database)?;
                let options = bucket_options(&spec.bucket_options)?;
                self.add(&spec.id, Entity::Bucket(database.gridfs_bucket(options)))
            }
            schema::Entity::ClientEncryption(spec) => {
                Err(Stop::needs("client-side encryption").within(&spec.id))
            }
        }
    }

    pub(super) fn client(&self, name: &str) -> Step<ClientEntity> {
        match self.get(name)? {
            Entity::Client(client) => Ok(client),
            other => Err(mistyped(name, "client", &other)),
        }
    }

    fn database(&self, name: &str) -> Step<Database> {
        match self.get(name)? {
            Entity::Database(database) => Ok(database),
            other => Err(mistyped(name, "database", &other)),
        }
    }

    pub(super) fn thread(&self, name: &str) -> Step<Thread> {
        match self.get(name)? {
            Entity::Thread(thread) => Ok(thread),
            other => Err(mistyped(name, "thread", &other)),
        }
    }

    pub(super) fn topology(&self, name: &str) -> Step<Arc<TopologyDescription>> {
        match self.get(name)? {
            Entity::Topology(description) => Ok(description),
            other => Err(mistyped(name, "topology description", &other)),
        }
    }

    pub(super) fn bson(&self, name: &str) -> Step<Bson> {
        match self.get(name)? {
            Entity::Bson(value) => Ok(value),
            other => Err(mistyped(name, "value", &other)),
        }
    }

    pub(super) fn session(&self, name: &str) -> Step<SessionEntity> {
        match self.get(name)? {
            Entity::Session(session) => Ok(session),
            other => Err(mistyped(name, "session", &other)),
        }
    }

    /// The clients, to be closed in the end.
    pub(super) fn clients(&self) -> Vec<ClientEntity> {
        let entities = self.lock();
        let clients = entities.values().filter_map(|entity| match entity {
            Entity::Client(client) => Some(client.clone()),
            _ => None,
        });
        clients.collect()
    }

    /// Lets go of everything, cursors first.
    pub(super) fn clear(&self) {
        let mut entities = self.lock();
        entities.retain(|_, entity| !matches!(entity, Entity::Cursor(_)));
        entities.clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entity>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn mistyped(name: &str, wanted: &str, found: &Entity) -> Stop {
    Stop::failed(format!("the entity {name} is no {wanted}: {found:?}"))
}

fn database_options(spec: &CommonOptions) -> Step<DatabaseOptions> {
    Ok(bson::deserialize_from_document(common_options(spec)?)?)
}

fn collection_options(spec: &CommonOptions) -> Step<CollectionOptions> {
    Ok(bson::deserialize_from_document(common_options(spec)?)?)
}

/// A bucket's options; one that the driver does not know must not be passed over.
fn bucket_options(spec: &Document) -> Step<GridFsBucketOptions> {
    let known = ["bucketName", "chunkSizeBytes", "readConcern", "readPreference", "writeConcern"];
    match spec.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) if key == "timeoutMS" => Err(Stop::needs("timeoutMS")),
        Some(key) if key != "disableMD5" => {
            Err(Stop::failed(format!("a bucket knows no option {key}")))
        }
        _ => Ok(bson::deserialize_from_document(spec.clone())?),
    }
}

/// The defaults in the driver's own form.
fn common_options(spec: &CommonOptions) -> Step<Document> {
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
