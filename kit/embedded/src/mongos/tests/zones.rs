//! Zones: rejected ranges, and commands of earlier versions.

use bson::{Bson, Document, doc};

use super::cluster::{TestCluster, V6_0, V8_0, batch, start, zoned};

/// Wire versions of servers 4.2, 4.4 and 5.0.
const V4_2: i32 = 8;
const V4_4: i32 = 9;
const V5_0: i32 = 13;

async fn code(it: &TestCluster, command: Document) -> i32 {
    let reply = it.run_on(&it.mongos, "admin", command).await;
    reply.get_i32("code").unwrap_or(0)
}

fn range(collection: &str, zone: &str) -> Document {
    doc! {
        "updateZoneKeyRange": collection,
        "min": { "datacenter": "alfa", "userid": Bson::MinKey },
        "max": { "datacenter": "alfa", "userid": Bson::MaxKey },
        "zone": zone,
    }
}

#[tokio::test(start_paused = true)]
async fn zone_with_ranges_keeps_its_last_shard() {
    let it = zoned(V8_0).await;
    assert_eq!(code(&it, range("log.messages", "alfa")).await, 0, "the same again");
    assert_eq!(code(&it, range("log.messages", "bravo")).await, 178);
    let mut out = range("log.messages", "");
    out.insert("zone", Bson::Null);
    assert_eq!(code(&it, out).await, 0);
    assert_eq!(code(&it, range("log.messages", "bravo")).await, 0);
}

#[tokio::test(start_paused = true)]
async fn zone_ranges_of_other_key_prevent_sharding() {
    let it = zoned(V8_0).await;
    it.admin(range("log.others", "alfa")).await;
    let keys = [doc! { "userid": 1 }, doc! { "datacenter": 1 }];
    for key in keys {
        assert_eq!(code(&it, doc! { "shardCollection": "log.others", "key": key }).await, 72);
    }
    let key = doc! { "datacenter": 1, "userid": 1 };
    assert_eq!(code(&it, doc! { "shardCollection": "log.others", "key": key }).await, 0);
}

#[tokio::test(start_paused = true)]
async fn sharding_requires_enable_sharding_before_6_0() {
    let shard = doc! { "shardCollection": "log.messages", "key": { "datacenter": 1, "userid": 1 } };
    assert_eq!(code(&start(V6_0), shard.clone()).await, 0);
    let it = start(V5_0);
    assert_eq!(code(&it, shard.clone()).await, 20);
    it.admin(doc! { "enableSharding": "log" }).await;
    let found = doc! { "find": "databases", "filter": { "partitioned": true } };
    assert_eq!(batch(&it.run_on(&it.mongos, "config", found).await).len(), 1);
    assert_eq!(code(&it, shard).await, 0);
}

#[tokio::test(start_paused = true)]
async fn chunks_have_namespace_before_5_0() {
    for (version, field) in [(V4_4, "ns"), (V5_0, "uuid")] {
        let it = start(version);
        it.admin(doc! { "enableSharding": "log" }).await;
        it.admin(doc! { "shardCollection": "log.messages", "key": { "datacenter": 1 } }).await;
        let found = doc! { "find": "chunks", "filter": {} };
        let chunks = batch(&it.run_on(&it.mongos, "config", found).await);
        assert_eq!(chunks.len(), 1);
        assert!(chunks[0].contains_key(field), "{version}: {}", chunks[0]);
        assert_ne!(chunks[0].contains_key("ns"), chunks[0].contains_key("uuid"));
    }
}

#[tokio::test(start_paused = true)]
async fn newer_commands_are_unknown_to_older_versions() {
    let status = doc! { "balancerCollectionStatus": "log.messages" };
    assert_eq!(code(&start(V4_2), status.clone()).await, 59);
    assert_eq!(code(&start(V4_4), status).await, 118, "it is not sharded");
    let range = doc! { "moveRange": "log.messages", "min": { "x": 1 }, "toShard": "alfa" };
    assert_eq!(code(&start(V5_0), range.clone()).await, 59);
    assert_eq!(code(&start(V6_0), range).await, 118);
}
