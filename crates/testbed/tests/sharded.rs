//! MongoDB 8.2 and sharded clusters: started, routed to, killed, frozen and secured.
#![allow(missing_docs)]

use bson::{Bson, Document, doc};
use testbed::{Mongos, Version, shared};

#[test]
fn servers_report_the_version_that_was_asked_for() {
    if !testbed::require(Version::V8_2) {
        return;
    }
    let standalone = shared::standalone_of(Version::V8_2).unwrap();
    let reply = standalone.run_command("admin", doc! { "buildInfo": 1 }).unwrap();
    assert_eq!(reply.get_str("version").unwrap(), "8.2.0");
}

#[test]
fn every_mongos_routes_to_both_shards() {
    if !testbed::require(Version::V8_2) {
        return;
    }
    let cluster = shared::sharded_cluster().unwrap();
    let shard = doc! { "shardCollection": "routing.things", "key": { "_id": "hashed" } };
    cluster.run_command("admin", shard).unwrap();
    for (number, mongos) in (0_i32..).zip(cluster.mongos()) {
        let documents: Vec<Document> = (0..50).map(|id| doc! { "_id": number * 50 + id }).collect();
        let reply =
            mongos.run_command("routing", doc! { "insert": "things", "documents": documents });
        assert_eq!(reply.unwrap().get_i32("n").unwrap(), 50);
    }
    for mongos in cluster.mongos() {
        assert_eq!(count(mongos), 100);
    }
    let on_shards: Vec<i32> = cluster
        .shards()
        .iter()
        .map(|shard| {
            let reply = shard.run_command(0, "routing", doc! { "count": "things" }).unwrap();
            reply.get_i32("n").unwrap()
        })
        .collect();
    assert!(on_shards.iter().all(|&count| count > 0), "{on_shards:?}");
    assert_eq!(on_shards.iter().sum::<i32>(), 100);
}

fn count(mongos: &Mongos) -> usize {
    let find = doc! { "find": "things", "batchSize": 1000 };
    let reply = mongos.run_command("routing", find).unwrap();
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    batch.iter().filter(|document| matches!(document, Bson::Document(_))).count()
}
