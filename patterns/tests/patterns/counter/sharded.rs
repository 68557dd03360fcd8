//! Counters in a sharded collection with shard key `_id`, one on each shard, through a mongos.

use std::time::Duration;

use blackpipe::proxy::{Direction, Proxy, Reaction, Rule};
use steadfast::{
    Client,
    bson::{Bson, DateTime, doc, oid::ObjectId},
};
use steadfast_embedded::Deployment;

use super::CounterFixture;
use crate::sharded_collection::ShardedCollection;

/// Counters, one on each shard.
const DAY: &str = "day";
const WEEK: &str = "week";

/// Starts a cluster in which counters below "m" are on one shard, and the others on another.
async fn cluster() -> Deployment {
    let cluster = Deployment::sharded(&["alfa", "bravo"]).start();
    let admin = Client::with_uri_str(cluster.uri()).await.unwrap().database("admin");
    let halves = [("alfa", Bson::MinKey, Bson::from("m")), ("bravo", "m".into(), Bson::MaxKey)];
    let mut commands = Vec::new();
    for (shard, min, max) in halves {
        let (min, max) = (doc! { "_id": min }, doc! { "_id": max });
        commands.push(doc! { "addShardToZone": shard, "zone": shard });
        commands.push(doc! {
            "updateZoneKeyRange": "patterns.counters", "min": min, "max": max, "zone": shard,
        });
    }
    commands.push(doc! { "enableSharding": "patterns" });
    commands.push(doc! { "shardCollection": "patterns.counters", "key": { "_id": 1 } });
    for command in commands {
        admin.run_command(command).await.unwrap();
    }
    cluster
}

#[tokio::test]
async fn counters_on_different_shards_count_once_despite_lost_messages() {
    let cluster = cluster().await;
    let proxy = Proxy::builder(cluster.uri()).start().await.unwrap();
    let uri = format!("{}/?retryWrites=false", proxy.uri().trim_end_matches('/'));
    let fixture = CounterFixture::within(&uri, "counters").await;

    for (nth, counter) in (1..).zip([DAY, WEEK, DAY, WEEK]) {
        let reaction = if nth < 3 { Reaction::lose_reply() } else { Reaction::cut_request() };
        for step in [1, 2] {
            fixture.sent();
            proxy.add(Rule::new(reaction.clone()).name("lost").command("update").nth(step));
            fixture.counters.increment(counter).await.unwrap();
            proxy.remove("lost");
            assert!(fixture.sent().len() > 2, "one was sent twice");
        }
    }

    for counter in [DAY, WEEK] {
        let value = fixture.counters.value_with_pending(counter).await.unwrap().unwrap();
        assert_eq!((value.counted, value.pending), (4, 0), "{counter}");
    }
    let chunks = cluster.chunks("patterns.counters");
    let chunk_of = |counter: &str| {
        let begins_before = |min: &Bson| min.as_str().is_none_or(|min| min <= counter);
        chunks.iter().rfind(|chunk| chunk.min.get("_id").is_some_and(begins_before)).unwrap()
    };
    assert_ne!(chunk_of(DAY).shard, chunk_of(WEEK).shard);
}

#[tokio::test]
async fn sweep_finishes_increments_on_every_shard() {
    let cluster = cluster().await;
    let fixture = CounterFixture::within(&cluster.uri(), "counters").await;
    let long_ago = DateTime::from_millis(DateTime::now().timestamp_millis() - 600_000);
    for counter in [DAY, WEEK] {
        let token = doc! { "token": ObjectId::new(), "by": 2_i64, "until": long_ago };
        let document = doc! { "_id": counter, "counter": 40_i64, "pending": [token] };
        fixture.collection.insert_one(document).await.unwrap();
    }

    let report = fixture.counters.sweep().await.unwrap();

    assert_eq!((report.documents, report.finished, report.by), (2, 2, 4));
    for counter in [DAY, WEEK] {
        let value = fixture.counters.value_with_pending(counter).await.unwrap().unwrap();
        assert_eq!((value.counted, value.pending), (42, 0), "{counter}");
    }
}

/// The reply to a step is lost, and the chunk migrates before the retry.
#[tokio::test]
async fn increment_retried_after_a_chunk_migration_counts_once() {
    testbed::require!(V8_2);
    let cluster = tokio::task::spawn_blocking(|| {
        ShardedCollection::create("patterns.counters_that_move", doc! { "_id": "hashed" })
    });
    let cluster = cluster.await.unwrap();
    let proxy = Proxy::builder(cluster.uri()).start().await.unwrap();
    let mut counted = 0;
    for retry_writes in [true, false] {
        let options = format!("retryWrites={retry_writes}&localThresholdMS=60000");
        let uri = format!("{}/?{options}", proxy.uri().trim_end_matches('/'));
        let fixture = CounterFixture::within(&uri, "counters_that_move").await;
        fixture.counters.increment(DAY).await.unwrap();
        counted += 1;
        for step in [1, 2] {
            let lost = Rule::new(Reaction::lose_reply()).name("lost").command("update").nth(step);
            let held = Rule::new(Reaction::stall(Direction::Request)).name("held");
            proxy.add(lost);
            // This rule does not count the lost command.
            proxy.add(held.command("update").nth(step));
            fixture.sent();
            let increment = fixture.counters.increment(DAY);
            let migrate = async {
                while proxy.rules().iter().any(|rule| rule.applied() == 0) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                let cluster = cluster.clone();
                tokio::task::spawn_blocking(move || cluster.move_all_chunks()).await.unwrap();
                proxy.clear_rules();
            };
            let both = async { tokio::join!(increment, migrate) };
            let both = tokio::time::timeout(Duration::from_secs(60), both).await;
            both.expect("the increment ends").0.unwrap();
            counted += 1;
            assert_eq!(fixture.sent().len(), 3, "one was sent twice");
            let value = fixture.counters.value_with_pending(DAY).await.unwrap().unwrap();
            let expected = (counted, 0);
            assert_eq!(
                (value.counted, value.pending),
                expected,
                "step {step}, retryWrites={retry_writes}"
            );
        }
    }
}
