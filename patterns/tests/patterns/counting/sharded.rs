//! Counters in a sharded collection, whose shard key is `_id`: each is on a shard of its own, and all
//! commands go through a router.

use std::time::Duration;

use blackpipe::proxy::{Direction, Proxy, Reaction, Rule};
use steadfast::{
    Client,
    bson::{Bson, DateTime, doc, oid::ObjectId},
};
use steadfast_embedded::Deployment;

use super::Counting;
use crate::sharded_collection::ShardedCollection;

/// The counters, one on each shard.
const DAY: &str = "day";
const WEEK: &str = "week";

/// A cluster with a collection of which the counters up to "m" are on one shard, the others on another.
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
async fn counters_on_different_shards_count_once_whatever_is_lost() {
    let cluster = cluster().await;
    let proxy = Proxy::builder(cluster.uri()).start().await.unwrap();
    let uri = format!("{}/?retryWrites=false", proxy.uri().trim_end_matches('/'));
    let counting = Counting::within(&uri, "counters").await;

    for (nth, counter) in (1..).zip([DAY, WEEK, DAY, WEEK]) {
        let reaction = if nth < 3 { Reaction::lose_reply() } else { Reaction::cut_request() };
        for step in [1, 2] {
            counting.sent();
            proxy.add(Rule::new(reaction.clone()).name("lost").command("update").nth(step));
            counting.counters.increment(counter).await.unwrap();
            proxy.remove("lost");
            assert!(counting.sent().len() > 2, "one was sent twice");
        }
    }

    for counter in [DAY, WEEK] {
        let value = counting.counters.value_with_pending(counter).await.unwrap().unwrap();
        assert_eq!((value.counted, value.pending), (4, 0), "{counter}");
    }
    let chunks = cluster.chunks("patterns.counters");
    let home = |counter: &str| {
        let begins_before = |min: &Bson| min.as_str().is_none_or(|min| min <= counter);
        chunks.iter().rfind(|chunk| chunk.min.get("_id").is_some_and(begins_before)).unwrap()
    };
    assert_ne!(home(DAY).shard, home(WEEK).shard);
}

#[tokio::test]
async fn a_sweep_finishes_what_is_left_on_every_shard() {
    let cluster = cluster().await;
    let counting = Counting::within(&cluster.uri(), "counters").await;
    let long_ago = DateTime::from_millis(DateTime::now().timestamp_millis() - 600_000);
    for counter in [DAY, WEEK] {
        let token = doc! { "token": ObjectId::new(), "by": 2_i64, "until": long_ago };
        let document = doc! { "_id": counter, "counter": 40_i64, "pending": [token] };
        counting.collection.insert_one(document).await.unwrap();
    }

    let report = counting.counters.sweep().await.unwrap();

    assert_eq!((report.documents, report.finished, report.by), (2, 2, 4));
    for counter in [DAY, WEEK] {
        let value = counting.counters.value_with_pending(counter).await.unwrap().unwrap();
        assert_eq!((value.counted, value.pending), (42, 0), "{counter}");
    }
}

/// The reply to a step is lost, and the retry comes to the shard that has the counter's chunk since then.
#[tokio::test]
async fn an_increment_whose_chunk_moves_before_its_retry_counts_once_on_real_servers() {
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
        let counting = Counting::within(&uri, "counters_that_move").await;
        counting.counters.increment(DAY).await.unwrap();
        counted += 1;
        for step in [1, 2] {
            let lost = Rule::new(Reaction::lose_reply()).name("lost").command("update").nth(step);
            let held = Rule::new(Reaction::stall(Direction::Request)).name("held");
            proxy.add(lost);
            // It is not asked about the one that is lost.
            proxy.add(held.command("update").nth(step));
            counting.sent();
            let increment = counting.counters.increment(DAY);
            let migrate = async {
                while proxy.rules().iter().any(|rule| rule.applied() == 0) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                let cluster = cluster.clone();
                tokio::task::spawn_blocking(move || cluster.swap_shards()).await.unwrap();
                proxy.clear_rules();
            };
            let both = async { tokio::join!(increment, migrate) };
            let both = tokio::time::timeout(Duration::from_secs(60), both).await;
            both.expect("it ends in time").0.unwrap();
            counted += 1;
            assert_eq!(counting.sent().len(), 3, "one was sent twice");
            let value = counting.counters.value_with_pending(DAY).await.unwrap().unwrap();
            let expected = (counted, 0);
            assert_eq!(
                (value.counted, value.pending),
                expected,
                "step {step}, retryWrites={retry_writes}"
            );
        }
    }
}
