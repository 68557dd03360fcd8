//! Retryable writes to a sharded collection whose chunks move between the attempts, on a real cluster.

use std::time::Duration;

use blackpipe::proxy::{Direction, Proxy, Reaction, Rule};
use steadfast::{
    Client, Collection,
    bson::{Document, doc},
    options::{DeleteOneModel, InsertOneModel, ReplaceOneModel, UpdateOneModel, WriteModel},
};

use crate::{common::bounded, sharded_collection::ShardedCollection};

/// Sharded collection behind a proxy.
struct Sharded {
    servers: ShardedCollection,
    proxy: Proxy,
    documents: Collection<Document>,
}

impl Sharded {
    /// Creates a collection with 20 documents `{ _id, k, n: 0 }` and the shard key `k`.
    async fn create(namespace: &'static str) -> Option<Self> {
        testbed::found_or_skip(testbed::servers(testbed::Version::V8_2))?;
        let create = move || ShardedCollection::create(namespace, doc! { "k": "hashed" });
        let servers = tokio::task::spawn_blocking(create).await.unwrap();
        let proxy = Proxy::builder(servers.uri()).start().await.unwrap();
        let uri = format!("{}/?localThresholdMS=60000", proxy.uri().trim_end_matches('/'));
        let client = Client::with_uri_str(uri).await.unwrap();
        let (database, collection) = namespace.split_once('.').unwrap();
        let documents = client.database(database).collection(collection);
        documents.insert_many((0..20).map(|id| doc! { "_id": id, "k": id, "n": 0 })).await.unwrap();
        Some(Self { servers, proxy, documents })
    }

    /// Drops the reply to a write, and moves all chunks before its retry.
    async fn migrate_before_retry<T>(
        &self,
        command: &str,
        write: impl IntoFuture<Output = steadfast::error::Result<T>>,
    ) -> T {
        let rule = |reaction| Rule::new(reaction).command(command).times(1);
        self.proxy.add(rule(Reaction::lose_reply()));
        self.proxy.add(rule(Reaction::stall(Direction::Request)));
        let migrate = async {
            while self.proxy.rules().iter().any(|rule| rule.applied() == 0) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let servers = self.servers.clone();
            tokio::task::spawn_blocking(move || servers.move_all_chunks()).await.unwrap();
            self.proxy.clear_rules();
        };
        let (written, ()) = bounded(async { tokio::join!(write.into_future(), migrate) }).await;
        written.unwrap()
    }

    /// Returns the field `n` of a document, or `None` if the document does not exist.
    async fn number(&self, id: i32) -> Option<i32> {
        let found = self.documents.find_one(doc! { "_id": id }).await.unwrap();
        found.map(|found| found.get_i32("n").unwrap())
    }
}

#[tokio::test]
async fn a_write_whose_chunk_moves_before_its_retry_is_applied_once() {
    let Some(sharded) = Sharded::create("sharded.single").await else { return };
    let documents = &sharded.documents;
    let increment = || doc! { "$inc": { "n": 1 } };
    for filter in [doc! { "_id": 0, "k": 0 }, doc! { "_id": 1 }] {
        let id = filter.get_i32("_id").unwrap();
        let update = documents.update_one(filter, increment());
        let updated = sharded.migrate_before_retry("update", update).await;
        assert_eq!((updated.matched_count, updated.modified_count), (1, 1));
        assert_eq!(sharded.number(id).await, Some(1));
    }
    let delete = documents.delete_one(doc! { "_id": 2 });
    assert_eq!(sharded.migrate_before_retry("delete", delete).await.deleted_count, 1);
    assert_eq!(sharded.number(2).await, None);
    let update = documents.find_one_and_update(doc! { "_id": 3, "k": 3 }, increment());
    let before = sharded.migrate_before_retry("findAndModify", update).await;
    assert_eq!(before, Some(doc! { "_id": 3, "k": 3, "n": 0 }));
    assert_eq!(sharded.number(3).await, Some(1));
    let insert = documents.insert_many((100..110).map(|id| doc! { "_id": id, "k": id, "n": 0 }));
    assert_eq!(sharded.migrate_before_retry("insert", insert).await.inserted_ids.len(), 10);
    assert_eq!(documents.count_documents(doc! { "_id": { "$gte": 100 } }).await.unwrap(), 10);
}

/// In an unordered write by `_id`, which goes to both shards, the counts of the reply are too high after a
/// migration (SERVER-54019). The data is correct.
#[tokio::test]
async fn an_unordered_bulk_write_whose_chunks_move_before_its_retry_is_applied_once() {
    let Some(sharded) = Sharded::create("sharded.bulk").await else { return };
    let increment = |id: i32| UpdateOneModel::new(doc! { "_id": id }, doc! { "$inc": { "n": 1 } });
    let updates = (0..10).map(|id| WriteModel::from(increment(id)));
    let update = sharded.documents.bulk_write(updates).ordered(false);
    let updated = sharded.migrate_before_retry("update", update).await;
    assert!(updated.matched_count >= 10, "{updated:?}");
    for id in 0..10 {
        assert_eq!(sharded.number(id).await, Some(1), "document {id}");
    }
    let models: [WriteModel; 3] = [
        InsertOneModel::new(doc! { "_id": 100, "k": 100, "n": 7 }).into(),
        ReplaceOneModel::new(doc! { "_id": 11 }, doc! { "k": 11, "n": 8 }).into(),
        DeleteOneModel::new(doc! { "_id": 12 }).into(),
    ];
    let mixed = sharded.documents.bulk_write(models).ordered(false);
    sharded.migrate_before_retry("delete", mixed).await;
    let expected = [(100, Some(7)), (11, Some(8)), (12, None)];
    for (id, number) in expected {
        assert_eq!(sharded.number(id).await, number, "document {id}");
    }
}
