//! Failovers of shards during writes and transactions.

use bson::doc;

use super::cluster::{V8_0, batch, ids, message, zoned};
use crate::namespace::Namespace;

#[tokio::test(start_paused = true)]
async fn mongos_waits_for_new_primary_of_shard() {
    let it = zoned(V8_0).await;
    it.insert(vec![message(1, "alfa", 1)]).await;
    let alfa = it.set("alfa");
    alfa.kill(alfa.primary().unwrap());
    it.insert(vec![message(2, "alfa", 2), message(3, "bravo", 3)]).await;
    assert_eq!(ids(&it.on("alfa")), [1, 2]);
    let reply = it.ok(doc! { "count": "messages" }).await;
    assert_eq!(reply.get_i32("n").unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn writes_continue_through_failovers_and_are_executed_once() {
    let it = zoned(V8_0).await;
    let bravo = it.set("bravo");
    let failing = async {
        for _ in 0..5 {
            tokio::time::sleep(std::time::Duration::from_millis(400)).await;
            bravo.step_down();
        }
    };
    let writing = async {
        for id in 1..=60 {
            it.insert(vec![message(id, if id % 3 == 0 { "alfa" } else { "bravo" }, id)]).await;
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::join!(failing, writing);
    assert_eq!((it.on("alfa").len(), it.on("bravo").len()), (20, 40));
    assert!(bravo.executions().iter().all(|it| it.count == 1));
}

#[tokio::test(start_paused = true)]
async fn shard_without_primary_times_out_and_others_continue() {
    let it = zoned(V8_0).await;
    let alfa = it.set("alfa");
    for member in 0..3 {
        alfa.kill(member);
    }
    let insert = doc! { "insert": "messages", "documents": [message(1, "alfa", 1)] };
    let reply = it.run(it.retryable(insert)).await;
    assert_eq!(reply.get_i32("code").unwrap(), 133, "{reply}");
    let labels = reply.get_array("errorLabels").unwrap();
    assert!(labels.contains(&"RetryableWriteError".into()));
    it.insert(vec![message(1, "bravo", 1)]).await;
    let find = doc! { "find": "messages", "filter": {}, "allowPartialResults": true };
    let reply = it.ok(find).await;
    assert_eq!(ids(&batch(&reply)), [1]);
    assert!(reply.get_document("cursor").unwrap().get_bool("partialResultsReturned").unwrap());
}

#[tokio::test(start_paused = true)]
async fn write_concern_error_names_shard() {
    let it = zoned(V8_0).await;
    let bravo = it.set("bravo");
    let primary = bravo.primary().unwrap();
    for member in (0..3).filter(|member| *member != primary) {
        bravo.hold_replication(member);
    }
    let reply = it
        .ok(doc! {
            "insert": "messages",
            "documents": [message(1, "bravo", 1)],
            "writeConcern": { "w": "majority", "wtimeout": 100 },
        })
        .await;
    let error = reply.get_document("writeConcernError").unwrap();
    assert_eq!(error.get_i32("code").unwrap(), 64);
    assert!(error.get_str("errmsg").unwrap().contains("bravo"));
}

#[tokio::test(start_paused = true)]
async fn transaction_commits_on_all_shards_or_none() {
    let it = zoned(V8_0).await;
    let insert = |id, datacenter: &str| {
        doc! { "insert": "messages", "documents": [message(id, datacenter, id)] }
    };
    let reply = it.ok(it.in_transaction(insert(1, "alfa"), true)).await;
    let token = reply.get_document("recoveryToken").unwrap();
    assert_eq!(token.get_str("recoveryShardId").unwrap(), "alfa");
    it.ok(it.in_transaction(insert(2, "bravo"), false)).await;
    assert!(it.on("alfa").is_empty() && it.on("bravo").is_empty());
    let commit = it.in_transaction(doc! { "commitTransaction": 1 }, false);
    for _ in 0..2 {
        it.admin(commit.clone()).await;
        assert_eq!((ids(&it.on("alfa")), ids(&it.on("bravo"))), (vec![1], vec![2]));
    }
    it.ok(it.in_transaction(insert(3, "alfa"), true)).await;
    it.ok(it.in_transaction(insert(4, "bravo"), false)).await;
    it.admin(it.in_transaction(doc! { "abortTransaction": 1 }, false)).await;
    assert_eq!((it.on("alfa").len(), it.on("bravo").len()), (1, 1));
    let reply = it.run(it.in_transaction(insert(5, "alfa"), false)).await;
    assert_eq!(reply.get_i32("code").unwrap(), 251);
}

#[tokio::test(start_paused = true)]
async fn participant_failover_keeps_transaction_atomic() {
    let it = zoned(V8_0).await;
    let insert = |id, datacenter: &str| {
        doc! { "insert": "messages", "documents": [message(id, datacenter, id)] }
    };
    it.ok(it.in_transaction(insert(1, "alfa"), true)).await;
    it.ok(it.in_transaction(insert(2, "bravo"), false)).await;
    it.set("bravo").step_down();
    let commit = it.in_transaction(doc! { "commitTransaction": 1 }, false);
    let reply = it.run_on(&it.mongos, "admin", commit).await;
    assert_eq!(reply.get_i32("code").unwrap(), 251, "{reply}");
    let labels = reply.get_array("errorLabels").unwrap();
    assert!(labels.contains(&"TransientTransactionError".into()));
    assert!(it.on("alfa").is_empty() && it.on("bravo").is_empty());
}

#[tokio::test(start_paused = true)]
async fn recovery_token_commits_through_other_mongos() {
    let it = zoned(V8_0).await;
    let other = it.cluster.mongos("other:27017");
    let insert = |id| doc! { "insert": "messages", "documents": [message(id, "alfa", id)] };
    let reply = it.ok(it.in_transaction(insert(1), true)).await;
    let token = reply.get_document("recoveryToken").unwrap().clone();
    let commit = it.in_transaction(doc! { "commitTransaction": 1 }, false);
    it.admin(commit.clone()).await;
    let mut recover = commit;
    recover.insert("recoveryToken", token.clone());
    let reply = it.run_on(&other, "admin", recover).await;
    assert_eq!(reply.get_f64("ok").unwrap(), 1.0, "{reply}");
    it.ok(it.in_transaction(insert(2), true)).await;
    let mut recover = it.in_transaction(doc! { "commitTransaction": 1 }, false);
    recover.insert("recoveryToken", token);
    let reply = it.run_on(&other, "admin", recover).await;
    assert_eq!(reply.get_i32("code").unwrap(), 251, "what had not committed never will: {reply}");
    assert_eq!(ids(&it.on("alfa")), [1]);
}

#[tokio::test(start_paused = true)]
async fn open_transaction_blocks_chunk_migration() {
    let it = zoned(V8_0).await;
    let insert = doc! { "insert": "messages", "documents": [message(1, "alfa", 1)] };
    it.ok(it.in_transaction(insert, true)).await;
    let namespace = Namespace::new("log", "messages");
    assert!(it.cluster.has_open_transaction(&namespace));
    let moving = it.move_chunk("alfa", "bravo");
    let committing = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(it.on("bravo").len(), 0);
        it.admin(it.in_transaction(doc! { "commitTransaction": 1 }, false)).await;
    };
    tokio::join!(moving, committing);
    assert_eq!(ids(&it.on("bravo")), [1]);
}

#[tokio::test(start_paused = true)]
async fn statement_error_aborts_transaction_on_all_shards() {
    let it = zoned(V8_0).await;
    it.insert(vec![message(1, "bravo", 1)]).await;
    let insert = |id, datacenter: &str| {
        doc! { "insert": "messages", "documents": [message(id, datacenter, id)] }
    };
    it.ok(it.in_transaction(insert(2, "alfa"), true)).await;
    let reply = it.run(it.in_transaction(insert(1, "bravo"), false)).await;
    let failed = reply.contains_key("writeErrors") || reply.get_f64("ok").unwrap() == 0.0;
    assert!(failed, "{reply}");
    // The document is not reserved any more.
    it.insert(vec![message(2, "alfa", 2)]).await;
}
