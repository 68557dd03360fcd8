//! Counters in a sharded collection, whose shard key is `_id`: each is on a shard of its own, and all
//! commands go through a router.

use blackpipe::{
    embedded::Deployment,
    proxy::{Proxy, Reaction, Rule},
};
use steadfast::{
    Client,
    bson::{Bson, DateTime, doc, oid::ObjectId},
};

use super::Counting;

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
    let proxy = Proxy::before(cluster.uri()).start().await.unwrap();
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
