//! Chunk migrations: no document is lost or duplicated, no write is executed twice.

use bson::{Bson, doc};

use super::cluster::{V6_0, V8_0, batch, ids, message, start, zoned};

#[tokio::test(start_paused = true)]
async fn migration_moves_each_document_once() {
    let it = zoned(V8_0).await;
    it.insert(
        (1..=20).map(|id| message(id, if id <= 10 { "alfa" } else { "bravo" }, id)).collect(),
    )
    .await;
    it.move_chunk("alfa", "bravo").await;
    assert!(it.on("alfa").is_empty());
    assert_eq!(it.on("bravo").len(), 20);
    let reply = it.ok(doc! { "find": "messages", "filter": {}, "sort": { "_id": 1 } }).await;
    assert_eq!(ids(&batch(&reply)), (1..=20).collect::<Vec<_>>());
    it.insert(vec![message(21, "alfa", 21)]).await;
    assert_eq!(it.on("bravo").len(), 21);
}

#[tokio::test(start_paused = true)]
async fn retry_after_chunk_migration_is_not_executed_again() {
    let it = zoned(V8_0).await;
    it.insert(vec![message(1, "alfa", 1)]).await;
    let update = it.retryable(doc! {
        "update": "messages",
        "updates": [{ "q": { "datacenter": "alfa", "userid": 1 }, "u": { "$inc": { "count": 1 } } }],
    });
    it.ok(update.clone()).await;
    it.move_chunk("alfa", "bravo").await;
    let reply = it.ok(update.clone()).await;
    assert_eq!(reply.get_i32("nModified").unwrap(), 1);
    assert_eq!(it.on("bravo")[0].get_i32("count").unwrap(), 1);
    it.move_chunk("alfa", "alfa").await;
    it.ok(update).await;
    assert_eq!(it.on("alfa")[0].get_i32("count").unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn balancer_resolves_zone_violations() {
    let it = start(V8_0);
    it.admin(doc! { "shardCollection": "log.messages", "key": { "datacenter": 1, "userid": 1 } })
        .await;
    it.insert((1..=10).map(|id| message(id, if id <= 5 { "alfa" } else { "bravo" }, id)).collect())
        .await;
    for zone in ["alfa", "bravo"] {
        it.admin(doc! { "addShardToZone": zone, "zone": zone }).await;
        it.admin(doc! {
            "updateZoneKeyRange": "log.messages",
            "min": { "datacenter": zone, "userid": Bson::MinKey },
            "max": { "datacenter": zone, "userid": Bson::MaxKey },
            "zone": zone,
        })
        .await;
    }
    let status = doc! { "balancerCollectionStatus": "log.messages" };
    let reply = it.admin(status.clone()).await;
    assert_eq!(reply.get_str("firstComplianceViolation").unwrap(), "zoneViolation");
    assert!(it.cluster.balance().await.unwrap() > 0);
    assert!(it.admin(status).await.get_bool("balancerCompliant").unwrap());
    assert!(it.on("bravo").iter().all(|it| it.get_str("datacenter").unwrap() == "bravo"));
    assert_eq!(it.on("bravo").len(), 5);
    let reply = it.ok(doc! { "count": "messages" }).await;
    assert_eq!(reply.get_i32("n").unwrap(), 10);
}

#[tokio::test(start_paused = true)]
async fn enabled_balancer_runs_in_background() {
    let it = start(V8_0);
    it.admin(doc! { "balancerStart": 1 }).await;
    it.admin(doc! { "shardCollection": "log.messages", "key": { "datacenter": 1, "userid": 1 } })
        .await;
    it.insert(vec![message(1, "bravo", 1)]).await;
    it.admin(doc! { "addShardToZone": "bravo", "zone": "bravo" }).await;
    it.admin(doc! {
        "updateZoneKeyRange": "log.messages",
        "min": { "datacenter": "bravo", "userid": Bson::MinKey },
        "max": { "datacenter": "bravo", "userid": Bson::MaxKey },
        "zone": "bravo",
    })
    .await;
    let moved = async {
        while it.on("bravo").is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), moved).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn shard_key_update_moves_document_atomically() {
    let it = zoned(V6_0).await;
    it.insert(vec![message(1, "alfa", 1)]).await;
    let update = doc! {
        "update": "messages",
        "updates": [{
            "q": { "datacenter": "alfa", "userid": 1 },
            "u": { "$set": { "datacenter": "bravo" }, "$inc": { "moves": 1 } },
        }],
    };
    let reply = it.run(update.clone()).await;
    let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap().clone();
    assert_eq!(error.get_i32("code").unwrap(), 20, "only as a retryable write or in a transaction");
    let update = it.retryable(update);
    let reply = it.ok(update.clone()).await;
    assert_eq!((reply.get_i32("n").unwrap(), reply.get_i32("nModified").unwrap()), (1, 1));
    assert!(it.on("alfa").is_empty());
    assert_eq!(it.on("bravo")[0].get_i32("moves").unwrap(), 1);
    let reply = it.run(update).await;
    let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap().clone();
    assert_eq!(error.get_i32("code").unwrap(), 217, "a retry is not executed");
    assert_eq!(it.on("bravo")[0].get_i32("moves").unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn find_and_modify_of_shard_key_returns_document() {
    let it = zoned(V6_0).await;
    it.insert(vec![message(1, "alfa", 1)]).await;
    let modify = it.retryable(doc! {
        "findAndModify": "messages",
        "query": { "datacenter": "alfa", "userid": 1 },
        "update": { "$set": { "datacenter": "bravo" } },
        "new": true,
    });
    let reply = it.ok(modify.clone()).await;
    let value = reply.get_document("value").unwrap();
    assert_eq!(value.get_str("datacenter").unwrap(), "bravo");
    let reply = it.run(modify).await;
    assert_eq!(reply.get_i32("code").unwrap(), 217, "a retry is not executed");
    assert_eq!((it.on("alfa").len(), it.on("bravo").len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn multi_update_of_shard_key_is_rejected() {
    let it = zoned(V8_0).await;
    it.insert(vec![message(1, "alfa", 1), message(2, "bravo", 1)]).await;
    let update = |u| doc! { "update": "messages", "updates": [{ "q": {}, "u": u, "multi": true }] };
    let reply = it.run(update(doc! { "$set": { "datacenter": "bravo" } })).await;
    let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap().clone();
    assert_eq!(error.get_i32("code").unwrap(), 72);
    let reply = it.ok(update(doc! { "$set": { "seen": true } })).await;
    assert_eq!(reply.get_i32("nModified").unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn write_without_shard_key_changes_one_document_since_7_0() {
    let it = zoned(V8_0).await;
    it.insert(
        (1..=4).map(|id| message(id, if id % 2 == 0 { "alfa" } else { "bravo" }, 9)).collect(),
    )
    .await;
    let update = it.retryable(doc! {
        "update": "messages",
        "updates": [{ "q": { "userid": 9, "seen": null }, "u": { "$set": { "seen": 1 } } }],
    });
    for _ in 0..3 {
        assert_eq!(it.ok(update.clone()).await.get_i32("nModified").unwrap(), 1);
    }
    let reply = it.ok(doc! { "count": "messages", "query": { "seen": 1 } }).await;
    assert_eq!(reply.get_i32("n").unwrap(), 1, "the retries changed no other");
    let delete = it.retryable(doc! {
        "delete": "messages", "deletes": [{ "q": { "userid": 9 }, "limit": 1 }],
    });
    for _ in 0..2 {
        assert_eq!(it.ok(delete.clone()).await.get_i32("n").unwrap(), 1);
    }
    assert_eq!(it.on("alfa").len() + it.on("bravo").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn upsert_without_shard_key_targets_owner() {
    let it = zoned(V8_0).await;
    let update = it.retryable(doc! {
        "update": "messages",
        "updates": [{
            "q": { "_id": 5 },
            "u": { "$set": { "datacenter": "bravo", "userid": 1 } },
            "upsert": true,
        }],
    });
    for _ in 0..2 {
        let reply = it.ok(update.clone()).await;
        let upserted = reply.get_array("upserted").unwrap()[0].as_document().unwrap();
        assert_eq!(upserted.get_i32("_id").unwrap(), 5);
    }
    assert_eq!((it.on("alfa").len(), ids(&it.on("bravo"))), (0, vec![5]));
}

#[tokio::test(start_paused = true)]
async fn migrated_session_record_is_not_a_second_execution() {
    let it = zoned(V8_0).await;
    it.insert(vec![message(1, "alfa", 1)]).await;
    for to in ["bravo", "alfa", "bravo"] {
        it.move_chunk("alfa", to).await;
    }
    assert_eq!(it.set("alfa").executions().len(), 1);
    assert!(it.set("bravo").executions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn write_waiting_for_shard_does_not_block_other_shard() {
    let it = zoned(V8_0).await;
    it.insert(vec![message(1, "alfa", 1), message(2, "bravo", 2)]).await;
    for member in 0..3 {
        it.set("bravo").kill(member);
    }
    let without_key = |u| doc! { "update": "messages", "updates": [{ "q": { "a": 1 }, "u": u }] };
    let looks = it.run(without_key(doc! { "$set": { "seen": 1 } }));
    let moves = it.run(without_key(doc! { "$set": { "datacenter": "alfa" } }));
    let writes = async {
        let began = tokio::time::Instant::now();
        it.insert(vec![message(3, "alfa", 3)]).await;
        assert!(began.elapsed() < std::time::Duration::from_secs(1));
    };
    let (looked, moved, ()) = tokio::join!(looks, moves, writes);
    for reply in [looked, moved] {
        assert_eq!(reply.get_i32("code").unwrap(), 133, "{reply}");
    }
}
