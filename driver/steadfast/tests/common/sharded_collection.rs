//! Sharded collection on the shared cluster of real servers, with chunk migrations.

use std::sync::{Mutex, PoisonError};

use steadfast::bson::{Bson, Document, doc};
use testbed::{ShardedCluster, shared};

/// A collection of the shared sharded cluster with chunks on both of its shards.
#[derive(Clone, Debug)]
pub(crate) struct ShardedCollection {
    cluster: &'static ShardedCluster,
    namespace: &'static str,
}

impl ShardedCollection {
    /// Creates a collection with this shard key, which begins with a hashed field.
    pub(crate) fn create(namespace: &'static str, key: Document) -> Self {
        let cluster = shared::sharded_cluster().expect("a sharded cluster");
        let admin = |command| cluster.run_command("admin", command).expect("the command succeeds");
        // Only the test moves chunks.
        admin(doc! { "balancerStop": 1 });
        for shard in cluster.shards() {
            // A shard receives a chunk again only after its orphaned documents are deleted.
            let at_once = doc! { "setParameter": 1, "orphanCleanupDelaySecs": 0 };
            shard.run_command(0, "admin", at_once).expect("the parameter is set");
        }
        admin(doc! { "shardCollection": namespace, "key": key });
        let collection = Self { cluster, namespace };
        let chunks = collection.chunks();
        let first = chunks[0].shard.clone();
        assert!(
            chunks.iter().any(|chunk| chunk.shard != first),
            "both shards have some: {chunks:?}"
        );
        collection
    }

    /// Returns a connection string that names every mongos.
    pub(crate) fn uri(&self) -> String {
        self.cluster.uri()
    }

    /// Moves every chunk to the other shard.
    pub(crate) fn move_all_chunks(&self) {
        // A shard donates one chunk at a time, over all collections.
        static MIGRATIONS: Mutex<()> = Mutex::new(());
        let _migration = MIGRATIONS.lock().unwrap_or_else(PoisonError::into_inner);
        for Chunk { min, max, shard } in self.chunks() {
            let to = if shard == "shard0" { "shard1" } else { "shard0" };
            let command = doc! { "moveChunk": self.namespace, "bounds": [min, max], "to": to };
            self.cluster.run_command("admin", command).expect("the chunk moves");
        }
    }

    fn chunks(&self) -> Vec<Chunk> {
        let collections = self.find("collections", doc! { "_id": self.namespace });
        let uuid = collections[0].get("uuid").expect("a UUID").clone();
        let chunk = |chunk: Document| Chunk {
            min: chunk.get_document("min").expect("bounds").clone(),
            max: chunk.get_document("max").expect("bounds").clone(),
            shard: chunk.get_str("shard").expect("a shard").to_owned(),
        };
        self.find("chunks", doc! { "uuid": uuid }).into_iter().map(chunk).collect()
    }

    fn find(&self, collection: &str, filter: Document) -> Vec<Document> {
        let find = doc! { "find": collection, "filter": filter, "batchSize": 1000 };
        let reply = self.cluster.run_command("config", find).expect("config is read");
        let batch = reply.get_document("cursor").and_then(|it| it.get_array("firstBatch"));
        let documents = batch.expect("a batch").iter().filter_map(Bson::as_document);
        documents.cloned().collect()
    }
}

#[derive(Debug)]
struct Chunk {
    min: Document,
    max: Document,
    shard: String,
}
