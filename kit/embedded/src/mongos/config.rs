//! The database `config`: the catalog as documents.

use bson::{Document, Timestamp, doc};

use super::{
    catalog::{Catalog, ShardedCollection},
    cluster::Cluster,
    key::ShardKey,
};
use crate::namespace::Namespace;

/// Returns `true` for collections that show the catalog.
pub(super) fn is_catalog_collection(namespace: &Namespace) -> bool {
    namespace.database == "config" && COLLECTIONS.contains(&namespace.collection.as_str())
}

/// Names of these collections.
pub(super) const COLLECTIONS: &[&str] =
    &["chunks", "collections", "databases", "settings", "shards", "tags", "version"];

/// First wire version whose `config.chunks` refers to collections by UUID (MongoDB 5.0).
const CHUNKS_BY_UUID: i32 = 13;

/// Documents of such a collection.
pub(super) fn documents(cluster: &Cluster, namespace: &Namespace) -> Vec<Document> {
    let catalog = cluster.catalog();
    match namespace.collection.as_str() {
        "shards" => shards(cluster, &catalog),
        "databases" => databases(&catalog),
        "collections" => catalog.collections.iter().map(|(ns, it)| collection(ns, it)).collect(),
        "chunks" => {
            let by_uuid = cluster.config.max_wire_version >= CHUNKS_BY_UUID;
            let all = catalog.collections.iter();
            all.flat_map(|(namespace, it)| chunks(namespace, it, by_uuid)).collect()
        }
        "tags" => tags(&catalog),
        "settings" => vec![doc! {
            "_id": "balancer",
            "mode": if cluster.is_balancing() { "full" } else { "off" },
            "stopped": !cluster.is_balancing(),
        }],
        "version" => vec![doc! { "_id": 1 }],
        _ => Vec::new(),
    }
}

/// `config.shards`, also the reply of `listShards`.
pub(super) fn shards(cluster: &Cluster, catalog: &Catalog) -> Vec<Document> {
    cluster
        .shards()
        .iter()
        .map(|shard| {
            let mut document = doc! { "_id": &shard.name, "host": shard.host(), "state": 1 };
            let zones: Vec<&String> = catalog.zones_of(&shard.name).collect();
            if !zones.is_empty() {
                document.insert("tags", zones.into_iter().cloned().collect::<Vec<_>>());
            }
            document
        })
        .collect()
}

fn databases(catalog: &Catalog) -> Vec<Document> {
    catalog
        .databases()
        .map(|(name, primary)| {
            let partitioned = catalog.is_sharding_enabled(name);
            doc! { "_id": name, "primary": primary, "partitioned": partitioned }
        })
        .collect()
}

fn collection(namespace: &Namespace, sharded: &ShardedCollection) -> Document {
    let mut document = doc! {
        "_id": namespace.to_string(),
        "lastmodEpoch": sharded.epoch,
        "timestamp": Timestamp { time: 1, increment: 1 },
        "uuid": sharded.uuid,
        "key": sharded.key.pattern(),
        "unique": sharded.unique,
        "noBalance": sharded.no_balance,
    };
    if let Some(collation) = &sharded.collation {
        document.insert("defaultCollation", collation.clone());
    }
    document
}

fn chunks(namespace: &Namespace, sharded: &ShardedCollection, by_uuid: bool) -> Vec<Document> {
    let mut documents = Vec::new();
    for (place, chunk) in sharded.chunks.iter().enumerate() {
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        let mut document = doc! { "_id": format!("{}-{place}", sharded.uuid) };
        if by_uuid {
            document.insert("uuid", sharded.uuid);
        } else {
            document.insert("ns", namespace.to_string());
        }
        document.extend(doc! {
            "min": sharded.key.document(&chunk.range.min),
            "max": sharded.key.document(&chunk.range.max),
            "shard": &chunk.shard,
            "lastmod": Timestamp { time: sharded.version, increment: place },
            "onCurrentShardSince": Timestamp { time: 1, increment: 1 },
            "history": [{ "validAfter": Timestamp { time: 1, increment: 1 }, "shard": &chunk.shard }],
        });
        documents.push(document);
    }
    documents
}

fn tags(catalog: &Catalog) -> Vec<Document> {
    let mut documents = Vec::new();
    for (namespace, ranges) in &catalog.zones {
        let key = catalog.collections.get(namespace).map(|it| &it.key);
        for range in ranges {
            let full = |bound: &Document| full_bound(key, bound);
            documents.push(doc! {
                "_id": { "ns": namespace.to_string(), "min": full(&range.min) },
                "ns": namespace.to_string(),
                "min": full(&range.min),
                "max": full(&range.max),
                "tag": &range.zone,
            });
        }
    }
    documents
}

fn full_bound(key: Option<&ShardKey>, bound: &Document) -> Document {
    let full = key.and_then(|key| Some(key.document(&key.bound(bound).ok()?)));
    full.unwrap_or_else(|| bound.clone())
}
