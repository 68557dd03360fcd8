//! Clusters, read from their `config` database.

use std::collections::BTreeMap;

use bson::{Bson, Document, Uuid, doc};

use super::{
    cluster::{
        Balancer, Chunk, Cluster, CollectionIndex, CollectionKind, CollectionState, Shard,
        ZoneRange,
    },
    error::ZonesError,
    layout::Layout,
};
use crate::hello::hello;
use steadfast::{
    Client, Collection, Database, IndexModel,
    error::{Error, Result},
    options::{DatabaseOptions, ReadConcern, ReadPreference, SelectionCriteria},
};

/// Wire version of MongoDB 5.0, whose chunks have the UUID of their collection.
const CHUNKS_BY_UUID: i32 = 13;
/// Wire version of MongoDB 6.0, which does not need `enableSharding`.
const SHARDING_ALWAYS_ENABLED: i32 = 17;

impl Cluster {
    /// Reads the parts of a cluster that a layout concerns.
    ///
    /// The client must be connected to a mongos, with a user who may read the `config` database. The
    /// [`members`](Self::members) are read from the shards with the same credential; those that are not
    /// reachable within three seconds, or reject the credential, are not read.
    ///
    /// # Errors
    ///
    /// [`ZonesError::NotMongos`] if the server is not a mongos, [`ZonesError::Failed`] if a command failed.
    pub async fn read(client: &Client, layout: &Layout) -> std::result::Result<Self, ZonesError> {
        let mut cluster = Self::read_config(client, layout).await?;
        cluster.read_members(client).await;
        Ok(cluster)
    }

    /// Reads all except the members of the shards.
    pub(super) async fn read_config(
        client: &Client,
        layout: &Layout,
    ) -> std::result::Result<Self, ZonesError> {
        let hello = hello(client).await?;
        if !hello.get_str("msg").is_ok_and(|it| it == "isdbgrid") {
            return Err(ZonesError::NotMongos { found: described(&hello) });
        }
        let wire_version = hello.get_i32("maxWireVersion").unwrap_or_default();
        let config = Config(majority(client, "config"));
        let name = layout.collection().to_string();
        let database = config.one("databases", doc! { "_id": &layout.collection().db }).await?;
        let partitioned = database.is_some_and(|it| it.get_bool("partitioned").unwrap_or(false));
        // Before 5.0, dropped collections stay listed; since 8.0, so are moved collections that were never
        // sharded.
        let listed =
            doc! { "_id": &name, "dropped": { "$ne": true }, "unsplittable": { "$ne": true } };
        let sharded = config.one("collections", listed).await?;
        let chunks = match &sharded {
            Some(sharded) => config.chunks(&name, sharded, wire_version).await?,
            None => Vec::new(),
        };
        Ok(Self {
            shards: config.all("shards", doc! { "_id": 1 }, shard).await?,
            ranges: config.all("tags", doc! { "ns": 1, "min": 1 }, range).await?,
            collection: found(client, layout, sharded.as_ref()).await?,
            chunks,
            sharding_enabled: partitioned || wire_version >= SHARDING_ALWAYS_ENABLED,
            balancer: balancer(client, &config).await?,
            members: BTreeMap::new(),
        })
    }
}

/// Database with read concern `majority`.
fn majority(client: &Client, name: &str) -> Database {
    let options = DatabaseOptions::builder()
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .read_concern(ReadConcern::majority())
        .build();
    client.database_with_options(name, options)
}

/// Describes a server that is not a mongos.
fn described(hello: &Document) -> String {
    match hello.get_str("setName") {
        Ok(set) => format!("a member of the replica set {set}"),
        Err(_) => "a standalone server".to_owned(),
    }
}

/// The `config` database.
struct Config(Database);

impl Config {
    fn named(&self, collection: &str) -> Collection<Document> {
        self.0.collection(collection)
    }

    async fn one(&self, collection: &str, filter: Document) -> Result<Option<Document>> {
        self.named(collection).find_one(filter).await
    }

    async fn all<T>(
        &self,
        collection: &str,
        sort: Document,
        read: impl Fn(&Document) -> bson::error::Result<T>,
    ) -> Result<Vec<T>> {
        self.matching(collection, doc! {}, sort, read).await
    }

    async fn matching<T>(
        &self,
        collection: &str,
        filter: Document,
        sort: Document,
        read: impl Fn(&Document) -> bson::error::Result<T>,
    ) -> Result<Vec<T>> {
        let mut cursor = self.named(collection).find(filter).sort(sort).await?;
        let mut all = Vec::new();
        while cursor.advance().await? {
            let document = cursor.deserialize_current()?;
            let unreadable = |error| {
                Error::invalid_response(format!("config.{collection}: {document}: {error}"))
            };
            all.push(read(&document).map_err(unreadable)?);
        }
        Ok(all)
    }

    async fn chunks(
        &self,
        name: &str,
        sharded: &Document,
        wire_version: i32,
    ) -> Result<Vec<Chunk>> {
        let sort = doc! { "min": 1 };
        if let (Some(uuid), true) = (uuid(sharded), wire_version >= CHUNKS_BY_UUID) {
            let chunks =
                self.matching("chunks", doc! { "uuid": uuid }, sort.clone(), chunk).await?;
            // None: the cluster is being upgraded and still has the namespace.
            if !chunks.is_empty() {
                return Ok(chunks);
            }
        }
        self.matching("chunks", doc! { "ns": name }, sort, chunk).await
    }
}

fn uuid(sharded: &Document) -> Option<Uuid> {
    match sharded.get("uuid") {
        Some(Bson::Binary(uuid)) => uuid.to_uuid().ok(),
        _ => None,
    }
}

fn shard(document: &Document) -> bson::error::Result<Shard> {
    let zones = document.get_array("tags").map(Vec::as_slice).unwrap_or_default();
    Ok(Shard {
        name: document.get_str("_id")?.to_owned(),
        host: document.get_str("host")?.to_owned(),
        zones: zones.iter().filter_map(Bson::as_str).map(str::to_owned).collect(),
        draining: document.get_bool("draining").unwrap_or(false),
    })
}

fn range(document: &Document) -> bson::error::Result<ZoneRange> {
    Ok(ZoneRange {
        collection: document.get_str("ns")?.to_owned(),
        min: document.get_document("min")?.clone(),
        max: document.get_document("max")?.clone(),
        zone: document.get_str("tag")?.to_owned(),
    })
}

fn chunk(document: &Document) -> bson::error::Result<Chunk> {
    Ok(Chunk {
        min: document.get_document("min")?.clone(),
        max: document.get_document("max")?.clone(),
        shard: document.get_str("shard")?.to_owned(),
    })
}

/// Returns the state of the layout's collection.
async fn found(
    client: &Client,
    layout: &Layout,
    sharded: Option<&Document>,
) -> Result<CollectionState> {
    let name = layout.collection();
    let database = majority(client, &name.db);
    let command = doc! { "listCollections": 1, "filter": { "name": &name.coll }, "cursor": {} };
    let mut cursor = database.run_cursor_command(command).await?;
    let listed = if cursor.advance().await? { Some(cursor.deserialize_current()?) } else { None };
    let Some(listed) = listed else { return Ok(CollectionState::default()) };
    let options = listed.get_document("options").cloned().unwrap_or_default();
    let kind = match listed.get_str("type") {
        Ok("view") => CollectionKind::View,
        Ok("timeseries") => CollectionKind::TimeSeries,
        _ if options.get_bool("capped").unwrap_or(false) => CollectionKind::Capped,
        _ => CollectionKind::Collection,
    };
    let mut found = CollectionState { kind: Some(kind), ..CollectionState::default() };
    if matches!(kind, CollectionKind::View | CollectionKind::TimeSeries) {
        return Ok(found);
    }
    let collection: Collection<Document> = database.collection(&name.coll);
    let locale = options.get_document("collation").and_then(|it| it.get_str("locale"));
    found.has_collation = locale.is_ok_and(|it| it != "simple");
    found.shard_key = sharded.and_then(|it| it.get_document("key").ok()).cloned();
    found.balancing_disabled = sharded.is_some_and(|it| it.get_bool("noBalance").unwrap_or(false));
    // Including a document that a majority does not have yet.
    let newest = collection.find_one(doc! {}).read_concern(ReadConcern::local());
    found.has_documents = newest.projection(doc! { "_id": 1 }).await?.is_some();
    let mut indexes = collection.list_indexes().await?;
    while indexes.advance().await? {
        found.indexes.push(index(&indexes.deserialize_current()?));
    }
    Ok(found)
}

fn index(model: &IndexModel) -> CollectionIndex {
    let options = model.options.clone().unwrap_or_default();
    CollectionIndex {
        name: options.name.unwrap_or_default(),
        keys: model.keys.clone(),
        unique: options.unique.unwrap_or(false),
        special: options.sparse.unwrap_or(false)
            || options.partial_filter_expression.is_some()
            || options.collation.is_some(),
    }
}

async fn balancer(client: &Client, config: &Config) -> Result<Balancer> {
    let status = client.database("admin").run_command(doc! { "balancerStatus": 1 }).await?;
    let settings = config.one("settings", doc! { "_id": "balancer" }).await?.unwrap_or_default();
    let window = settings.get_document("activeWindow").ok().and_then(|window| {
        let at = |field| window.get_str(field).ok().map(str::to_owned);
        Some((at("start")?, at("stop")?))
    });
    // The third mode, of earlier versions, splits chunks and moves none.
    Ok(Balancer { on: status.get_str("mode").is_ok_and(|mode| mode == "full"), window })
}
