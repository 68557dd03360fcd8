//! Two-phase commits during failovers: all parts are committed in the end, or none.

use std::time::Duration;

use bson::{Bson, Document, Timestamp, doc};
use tokio::time::sleep;

use super::cluster::{TestCluster, V8_0, batch, ids, message, zoned};
use blackpipe_base::rng::Rng;

const LATENCY: Duration = Duration::from_secs(1);

fn insert(id: i32, datacenter: &str) -> Document {
    doc! { "insert": "messages", "documents": [message(id, datacenter, id)] }
}

fn is_labelled(reply: &Document, label: &str) -> bool {
    reply.get_array("errorLabels").is_ok_and(|labels| labels.contains(&label.into()))
}

impl TestCluster {
    /// Starts a transaction with a document for each shard.
    async fn begin(&self) {
        self.ok(self.in_transaction(insert(1, "alfa"), true)).await;
        self.ok(self.in_transaction(insert(2, "bravo"), false)).await;
    }

    /// Commits with `w: "majority"` and retries while the error is retryable. Returns `false` if
    /// the transaction was aborted.
    async fn commit(&self) -> bool {
        let mut commit = self.in_transaction(doc! { "commitTransaction": 1 }, false);
        commit.insert("writeConcern", doc! { "w": "majority" });
        loop {
            let reply = self.run_on(&self.mongos, "admin", commit.clone()).await;
            if is_labelled(&reply, "TransientTransactionError") {
                return false;
            }
            let clean = !reply.contains_key("writeConcernError");
            if reply.get_f64("ok").unwrap() == 1.0 && clean {
                return true;
            }
            let retryable = is_labelled(&reply, "RetryableWriteError") || !clean;
            assert!(retryable, "{reply}");
            sleep(Duration::from_millis(7)).await;
        }
    }

    fn secondaries(&self, shard: &str) -> Vec<usize> {
        let primary = self.set(shard).primary().unwrap();
        (0..3).filter(|member| *member != primary).collect()
    }

    fn hold(&self, shard: &str) {
        for member in self.secondaries(shard) {
            self.set(shard).hold_replication(member);
        }
    }

    fn slow_down(&self, shard: &str) {
        for member in self.secondaries(shard) {
            self.set(shard).replication_latency(member, LATENCY);
        }
    }

    /// Kills the primary. Entries that were not replicated by now are lost.
    fn lose_primary(&self, shard: &str) {
        let set = self.set(shard);
        (0..3).for_each(|member| set.restart(member));
        set.kill(set.primary().unwrap());
        for member in 0..3 {
            set.release_replication(member);
            set.replication_latency(member, Duration::ZERO);
        }
    }

    /// Waits for a primary of both shards and returns their documents.
    async fn found(&self) -> (Vec<i32>, Vec<i32>) {
        for shard in ["alfa", "bravo"] {
            self.set(shard).wait_for_primary().await;
        }
        (ids(&self.on("alfa")), ids(&self.on("bravo")))
    }
}

#[tokio::test(start_paused = true)]
async fn unreplicated_prepare_keeps_transaction_atomic() {
    for shard in ["alfa", "bravo"] {
        let it = zoned(V8_0).await;
        it.begin().await;
        it.hold(shard);
        let failing = async {
            sleep(LATENCY).await;
            it.lose_primary(shard);
        };
        let (committed, ()) = tokio::join!(it.commit(), failing);
        let expected = if committed { (vec![1], vec![2]) } else { (vec![], vec![]) };
        assert_eq!(it.found().await, expected, "{shard}");
        assert!(!committed, "the primary of {shard} that prepared it is gone");
        // Documents of an aborted transaction are not reserved any more.
        it.insert(vec![message(1, "alfa", 1), message(2, "bravo", 2)]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn majority_acknowledged_commit_survives_failover() {
    let it = zoned(V8_0).await;
    it.begin().await;
    assert!(it.commit().await);
    it.lose_primary("alfa");
    it.lose_primary("bravo");
    assert_eq!(it.found().await, (vec![1], vec![2]));
}

/// Time line: both parts are prepared on a majority after one replication latency of alfa, the
/// decision is majority-committed on alfa after another.
#[tokio::test(start_paused = true)]
async fn new_primary_applies_decision_to_prepared_transaction() {
    for (shard, moment) in
        [("bravo", 500), ("bravo", 1500), ("bravo", 2500), ("alfa", 1500), ("alfa", 2500)]
    {
        let it = zoned(V8_0).await;
        it.begin().await;
        it.slow_down("alfa");
        let failing = async {
            sleep(Duration::from_millis(moment)).await;
            it.lose_primary(shard);
        };
        let (committed, ()) = tokio::join!(it.commit(), failing);
        assert!(committed, "{shard} {moment}");
        assert_eq!(it.found().await, (vec![1], vec![2]), "{shard} {moment}");
        // Bravo's commit may not have been replicated when its primary died.
        it.lose_primary("bravo");
        assert_eq!(it.found().await, (vec![1], vec![2]), "{shard} {moment}");
    }
}

#[tokio::test(start_paused = true)]
async fn rolled_back_commit_entry_is_rewritten() {
    let it = zoned(V8_0).await;
    it.begin().await;
    it.slow_down("alfa");
    let failing = async {
        sleep(Duration::from_millis(1500)).await;
        it.hold("bravo");
        sleep(LATENCY).await;
        assert_eq!(ids(&it.on("bravo")), [2], "its primary has committed, the others have not");
        it.lose_primary("bravo");
    };
    let (committed, ()) = tokio::join!(it.commit(), failing);
    assert!(committed);
    assert_eq!(it.found().await, (vec![1], vec![2]));
}

#[tokio::test(start_paused = true)]
async fn commit_continues_after_client_disconnects() {
    let it = zoned(V8_0).await;
    it.begin().await;
    it.slow_down("alfa");
    let impatient = tokio::time::timeout(LATENCY / 2, it.commit());
    assert!(impatient.await.is_err());
    // The same commit through another mongos waits for the decision.
    let other = it.cluster.mongos("other:27017");
    let mut recover = it.in_transaction(doc! { "commitTransaction": 1 }, false);
    recover.insert("recoveryToken", doc! { "recoveryShardId": "alfa" });
    let reply = it.run_on(&other, "admin", recover).await;
    assert_eq!(reply.get_f64("ok").unwrap(), 1.0, "{reply}");
    assert_eq!(it.found().await, (vec![1], vec![2]));
}

#[tokio::test(start_paused = true)]
async fn prepared_transaction_blocks_session_until_decision() {
    let it = zoned(V8_0).await;
    it.begin().await;
    it.slow_down("alfa");
    let meddling = async {
        sleep(LATENCY / 2).await;
        let lsid = super::cluster::session(1);
        let abort = it.in_transaction(doc! { "abortTransaction": 1 }, false);
        let reply = it.run_on(&it.mongos, "admin", abort).await;
        assert_eq!(reply.get_i32("code").ok(), Some(256), "{reply}");
        it.admin(doc! { "killSessions": [lsid.clone()] }).await;
        // The prepared changes are still reserved: this insert waits and exceeds its time limit.
        let mut late = insert(2, "bravo");
        late.extend(doc! { "lsid": super::cluster::session(2), "txnNumber": 1_i64 });
        let reply = it.run(late).await;
        assert_eq!(reply.get_array("writeErrors").unwrap().len(), 1, "{reply}");
    };
    let following = async {
        sleep(LATENCY / 2).await;
        let lsid = super::cluster::session(1);
        it.set("bravo").step_down();
        // The session's next write waits for the end of the transaction on each of its shards.
        let mut next = insert(3, "bravo");
        next.extend(doc! { "lsid": lsid, "txnNumber": 1000_i64 });
        it.ok(next).await;
        assert_eq!(ids(&it.on("bravo")), [2, 3]);
    };
    let (committed, (), ()) = tokio::join!(it.commit(), meddling, following);
    assert!(committed);
    assert_eq!(it.found().await, (vec![1], vec![2, 3]));
}

#[tokio::test(start_paused = true)]
async fn snapshot_shows_all_parts_of_transaction_or_none() {
    let it = zoned(V8_0).await;
    it.begin().await;
    it.slow_down("alfa");
    let reading = async {
        let mut seen = Vec::new();
        for step in 0..6 {
            sleep(Duration::from_millis(300)).await;
            // The newest cluster time, that of a no-op entry on both shards.
            for shard in ["alfa", "bravo"] {
                let note = doc! { "appendOplogNote": 1, "data": { "step": step } };
                let reply = it.ask_shard(shard, note).await;
                it.cluster.advance_cluster_time(reply.get_timestamp("operationTime").unwrap());
            }
            let concern = doc! { "level": "snapshot" };
            let reply =
                it.ok(doc! { "find": "messages", "filter": {}, "readConcern": concern }).await;
            let at = reply.get_document("cursor").unwrap().get_timestamp("atClusterTime").unwrap();
            let now = batch(&reply).len();
            assert_ne!(now, 1, "half of a transaction at step {step}");
            seen.push((at, now));
        }
        seen
    };
    let (committed, seen) = tokio::join!(it.commit(), reading);
    assert!(committed);
    // Earlier snapshots do not change.
    for (at, then) in seen {
        let reply = it.ok(snapshot(at)).await;
        assert_eq!(batch(&reply).len(), then, "at {at}");
    }
}

fn snapshot(at: Timestamp) -> Document {
    let concern = doc! { "level": "snapshot", "atClusterTime": at };
    doc! { "find": "messages", "filter": {}, "readConcern": concern }
}

#[tokio::test(start_paused = true)]
async fn shard_key_update_is_atomic_during_failovers() {
    for (shard, moment) in [("alfa", 500), ("bravo", 500), ("bravo", 1500), ("alfa", 2500)] {
        let it = zoned(V8_0).await;
        it.insert(vec![message(1, "alfa", 1)]).await;
        it.slow_down(shard);
        let failing = async {
            sleep(Duration::from_millis(moment)).await;
            it.lose_primary(shard);
        };
        let q = doc! { "datacenter": "alfa", "userid": 1 };
        let u = doc! { "$set": { "datacenter": "bravo" } };
        let body = it.retryable(doc! {
            "update": "messages", "updates": [{ "q": q, "u": u }],
            "writeConcern": { "w": "majority" },
        });
        let moving = async {
            loop {
                let reply = it.run(body.clone()).await;
                if reply.get_f64("ok").unwrap() == 1.0 && !reply.contains_key("writeConcernError") {
                    break;
                }
                sleep(Duration::from_millis(7)).await;
            }
        };
        tokio::join!(moving, failing);
        assert_eq!(it.found().await, (vec![], vec![1]), "{shard} {moment}");
        let reply = it.ok(doc! { "find": "messages", "filter": { "_id": 1 } }).await;
        let found = batch(&reply);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].get("datacenter"), Some(&Bson::from("bravo")));
    }
}

/// Transfers between two shards while primaries die with entries that were not replicated.
#[tokio::test(start_paused = true)]
async fn transfers_are_atomic_during_random_failovers() {
    for seed in 0..12 {
        let it = zoned(V8_0).await;
        let mut accounts = vec![message(1, "alfa", 1), message(2, "bravo", 1)];
        accounts.iter_mut().for_each(|it| drop(it.insert("balance", 0)));
        it.insert(accounts).await;
        let failing = async {
            let mut rng = Rng::new(seed);
            for _ in 0..12 {
                let shard = if rng.next_u64().is_multiple_of(2) { "alfa" } else { "bravo" };
                it.set(shard).wait_for_primary().await;
                if rng.next_u64().is_multiple_of(2) {
                    it.hold(shard);
                } else {
                    it.slow_down(shard);
                }
                sleep(Duration::from_millis(rng.next_u64() % 1500)).await;
                it.lose_primary(shard);
            }
        };
        let transferring = async {
            let mut committed = 0;
            for _ in 0..15 {
                let begun = it.transfer().await;
                committed += i32::from(begun && it.commit().await);
                sleep(Duration::from_millis(100)).await;
            }
            committed
        };
        let (committed, ()) = tokio::join!(transferring, failing);
        it.found().await;
        let balance = |shard| it.on(shard)[0].get_i32("balance").unwrap();
        assert_eq!((balance("alfa"), balance("bravo")), (-committed, committed), "seed {seed}");
        assert!(committed > 0, "seed {seed}");
    }
}

impl TestCluster {
    /// Runs the statements of a transfer. Returns `false` if one failed.
    async fn transfer(&self) -> bool {
        for (step, (datacenter, amount)) in [("alfa", -1), ("bravo", 1)].into_iter().enumerate() {
            let q = doc! { "datacenter": datacenter, "userid": 1 };
            let u = doc! { "$inc": { "balance": amount } };
            let body = doc! { "update": "messages", "updates": [{ "q": q, "u": u }] };
            let reply = self.run(self.in_transaction(body, step == 0)).await;
            if reply.get_f64("ok").unwrap() != 1.0 {
                assert!(is_labelled(&reply, "TransientTransactionError"), "{reply}");
                return false;
            }
        }
        true
    }
}
