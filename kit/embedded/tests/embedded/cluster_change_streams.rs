//! Change streams through a mongos: events of all shards in order, resumable through any mongos.

use std::collections::BTreeMap;

use bson::{Bson, Timestamp};

use super::*;

const ELECTION: Duration = Duration::from_millis(50);

/// Two shards and two mongos. The documents of `db.things` are on the shard named by their `dc`.
async fn start() -> Deployment {
    let cluster = Deployment::sharded(&["alfa", "bravo"])
        .version("8.2")
        .mongos_count(2)
        .without_balancer()
        .election_timeout(ELECTION)
        .start();
    let mut admin = connect(&cluster, 0).await;
    for dc in ["alfa", "bravo"] {
        ok(&mut admin, doc! { "addShardToZone": dc, "zone": dc, "$db": "admin" }).await;
        let range = doc! {
            "updateZoneKeyRange": "db.things", "zone": dc, "$db": "admin",
            "min": { "dc": dc, "_id": Bson::MinKey }, "max": { "dc": dc, "_id": Bson::MaxKey },
        };
        ok(&mut admin, range).await;
    }
    let primary = doc! { "enableSharding": "db", "primaryShard": "alfa", "$db": "admin" };
    ok(&mut admin, primary).await;
    let key = doc! { "dc": 1, "_id": 1 };
    ok(&mut admin, doc! { "shardCollection": "db.things", "key": key, "$db": "admin" }).await;
    cluster
}

async fn ok(client: &mut Client, command: Document) -> Document {
    let reply = client.run(command.clone()).await;
    assert!(is_ok(&reply) && !reply.contains_key("writeErrors"), "{command}: {reply}");
    reply
}

fn thing(id: i32, dc: &str) -> Document {
    doc! { "insert": "things", "documents": [{ "_id": id, "dc": dc }], "$db": "db" }
}

/// A client's change stream.
struct TestChangeStream {
    client: Client,
    database: &'static str,
    collection: String,
    id: i64,
    /// Events of the first batch.
    first: Vec<Document>,
    token: Document,
}

/// Target of a change stream.
#[derive(Clone, Copy)]
enum WatchTarget {
    Collection,
    Database,
    Cluster,
}

impl TestChangeStream {
    async fn open(cluster: &Deployment, mongos: usize, options: Document) -> Self {
        Self::open_on(cluster, mongos, WatchTarget::Collection, options).await
    }

    async fn open_on(
        cluster: &Deployment,
        mongos: usize,
        what: WatchTarget,
        mut options: Document,
    ) -> Self {
        let (database, subject) = match what {
            WatchTarget::Collection => ("db", Bson::from("things")),
            WatchTarget::Database => ("db", Bson::from(1)),
            WatchTarget::Cluster => ("admin", Bson::from(1)),
        };
        if matches!(what, WatchTarget::Cluster) {
            options.insert("allChangesForCluster", true);
        }
        let command = doc! {
            "aggregate": subject, "pipeline": [{ "$changeStream": options }], "cursor": {},
            "$db": database,
        };
        let mut client = connect(cluster, mongos).await;
        let mut reply = ok(&mut client, command).await;
        let cursor = reply.get_document_mut("cursor").unwrap();
        let collection = cursor.get_str("ns").unwrap().split_once('.').unwrap().1.to_owned();
        let id = cursor.get_i64("id").unwrap();
        let token = cursor.get_document("postBatchResumeToken").unwrap().clone();
        let first = documents(cursor, "firstBatch");
        Self { client, database, collection, id, first, token }
    }

    /// The next batch, with a `maxTimeMS`. Returns the reply if it is an error.
    async fn try_more(&mut self, wait: i64) -> Result<Vec<Document>, Document> {
        let command = doc! {
            "getMore": self.id, "collection": &self.collection, "maxTimeMS": wait,
            "$db": self.database,
        };
        let mut reply = self.client.run(command).await;
        if !is_ok(&reply) {
            return Err(reply);
        }
        let cursor = reply.get_document_mut("cursor").unwrap();
        self.id = cursor.get_i64("id").unwrap();
        self.token = cursor.get_document("postBatchResumeToken").unwrap().clone();
        Ok(documents(cursor, "nextBatch"))
    }

    /// Waits for this many events.
    async fn take(&mut self, count: usize) -> Vec<Document> {
        let mut events = std::mem::take(&mut self.first);
        let all = async {
            while events.len() < count {
                events.extend(self.try_more(1_000).await.unwrap());
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, all).await.expect("the events come");
        events
    }
}

fn documents(cursor: &mut Document, field: &str) -> Vec<Document> {
    let Some(Bson::Array(batch)) = cursor.remove(field) else { panic!("no {field}: {cursor}") };
    batch.into_iter().map(|it| it.as_document().unwrap().clone()).collect()
}

fn keys(events: &[Document]) -> Vec<i32> {
    let key = |event: &Document| event.get_document("documentKey").unwrap().get_i32("_id").unwrap();
    events.iter().map(key).collect()
}

fn kinds(events: &[Document]) -> Vec<&str> {
    events.iter().map(|event| event.get_str("operationType").unwrap()).collect()
}

fn data(token: &Document) -> &str {
    token.get_str("_data").unwrap()
}

/// Checks that times do not go back and that tokens increase.
fn assert_ordered(events: &[Document]) {
    let times = events.iter().map(|event| event.get_timestamp("clusterTime").unwrap());
    assert!(times.map(|time| (time.time, time.increment)).is_sorted(), "{events:?}");
    let tokens: Vec<_> = events.iter().map(|it| data(it.get_document("_id").unwrap())).collect();
    assert!(tokens.is_sorted_by(|one, other| one < other), "{tokens:?}");
}

#[tokio::test]
async fn events_of_all_shards_are_ordered() {
    let cluster = start().await;
    let mut watches = Vec::new();
    for (mongos, what) in [WatchTarget::Collection, WatchTarget::Database, WatchTarget::Cluster]
        .into_iter()
        .enumerate()
    {
        watches.push(TestChangeStream::open_on(&cluster, mongos % 2, what, doc! {}).await);
    }
    let mut client = connect(&cluster, 1).await;
    for id in 0..20 {
        ok(&mut client, thing(id, if id % 3 == 0 { "alfa" } else { "bravo" })).await;
    }
    for watch in &mut watches {
        let events = watch.take(20).await;
        assert_eq!(keys(&events), (0..20).collect::<Vec<_>>());
        assert_ordered(&events);
        let token = events[19].get_document("_id").unwrap();
        assert!(data(&watch.token) >= data(token), "a resume after the batch repeats nothing");
        let key = events[0].get_document("documentKey").unwrap();
        assert_eq!(*key, doc! { "dc": "alfa", "_id": 0 });
    }
}

#[tokio::test]
async fn idle_shard_does_not_delay_events() {
    let cluster = start().await;
    let mut watch = TestChangeStream::open(&cluster, 0, doc! {}).await;
    let mut client = connect(&cluster, 0).await;
    for id in 0..5 {
        let (events, _) = tokio::join!(watch.take(1), ok(&mut client, thing(id, "bravo")));
        assert_eq!(keys(&events), [id]);
    }
    // Only no-op entries were written to alfa, and an idle stream writes none.
    let before = watch.try_more(20).await.unwrap();
    let token = watch.token.clone();
    assert!(before.is_empty());
    assert!(watch.try_more(20).await.unwrap().is_empty());
    assert_eq!(watch.token, token);
}

#[tokio::test]
async fn frozen_shard_delays_events_until_thaw() {
    let cluster = start().await;
    let mut watch = TestChangeStream::open(&cluster, 0, doc! {}).await;
    let alfa = cluster.shard("alfa");
    let primary = alfa.primary().unwrap();
    // The stream stays on the member on which it was opened, whichever member is primary meanwhile.
    alfa.faults().freeze(primary);
    let mut client = connect(&cluster, 1).await;
    ok(&mut client, thing(1, "bravo")).await;
    assert!(watch.try_more(30).await.unwrap().is_empty(), "an event of alfa's may be older");
    alfa.faults().thaw(primary);
    assert_eq!(keys(&watch.take(1).await), [1]);
}

#[tokio::test]
async fn token_resumes_stream_through_other_mongos() {
    let cluster = start().await;
    let mut watch = TestChangeStream::open(&cluster, 0, doc! {}).await;
    let mut client = connect(&cluster, 0).await;
    for id in 0..12 {
        ok(&mut client, thing(id, if id % 2 == 0 { "alfa" } else { "bravo" })).await;
    }
    let events = watch.take(12).await;
    for (place, event) in events.iter().enumerate() {
        let token = event.get_document("_id").unwrap().clone();
        for option in ["resumeAfter", "startAfter"] {
            let resumed = doc! { option: token.clone() };
            let rest = TestChangeStream::open(&cluster, 1, resumed).await.take(11 - place).await;
            assert_eq!(rest, events[place + 1..]);
        }
        let time: Timestamp = event.get_timestamp("clusterTime").unwrap();
        let options = doc! { "startAtOperationTime": time };
        let rest = TestChangeStream::open(&cluster, 1, options).await.take(12 - place).await;
        assert_eq!(rest, events[place..]);
    }
    let options = doc! { "resumeAfter": watch.token.clone() };
    let mut resumed = TestChangeStream::open(&cluster, 1, options).await;
    assert!(resumed.first.is_empty());
    ok(&mut client, thing(12, "bravo")).await;
    assert_eq!(keys(&resumed.take(1).await), [12]);
}

#[tokio::test]
async fn stream_resumes_after_shard_failover() {
    let cluster = start().await;
    let mut watch = TestChangeStream::open(&cluster, 0, doc! {}).await;
    let mut client = connect(&cluster, 0).await;
    ok(&mut client, thing(1, "alfa")).await;
    ok(&mut client, thing(2, "bravo")).await;
    assert_eq!(keys(&watch.take(2).await), [1, 2]);
    let bravo = cluster.shard("bravo");
    bravo.faults().kill(bravo.primary().unwrap());
    let error = watch.try_more(30_000).await.unwrap_err();
    assert_eq!(labels(&error), ["ResumableChangeStreamError"], "{error}");
    bravo.wait_for_primary().await;
    ok(&mut client, thing(3, "alfa")).await;
    ok(&mut client, thing(4, "bravo")).await;
    let options = doc! { "resumeAfter": watch.token.clone() };
    let mut resumed = TestChangeStream::open(&cluster, 1, options).await;
    assert_eq!(keys(&resumed.take(2).await), [3, 4]);
}

#[tokio::test]
async fn drop_invalidates_once_and_start_after_continues() {
    let cluster = start().await;
    let mut watch = TestChangeStream::open(&cluster, 0, doc! {}).await;
    let mut all = TestChangeStream::open_on(&cluster, 0, WatchTarget::Database, doc! {}).await;
    let mut client = connect(&cluster, 0).await;
    ok(&mut client, thing(1, "bravo")).await;
    ok(&mut client, doc! { "drop": "things", "$db": "db" }).await;
    let events = watch.take(3).await;
    assert_eq!(kinds(&events), ["insert", "drop", "invalidate"]);
    assert_eq!(watch.id, 0);
    ok(&mut client, thing(2, "alfa")).await;
    let events = all.take(3).await;
    assert_eq!(kinds(&events), ["insert", "drop", "insert"], "every shard dropped it");
    assert_eq!(*events[0].get_document("documentKey").unwrap(), doc! { "dc": "bravo", "_id": 1 });
    assert_eq!(*events[2].get_document("documentKey").unwrap(), doc! { "_id": 2 });
    let mut client = connect(&cluster, 1).await;
    let resume = doc! {
        "aggregate": "things", "cursor": {}, "$db": "db",
        "pipeline": [{ "$changeStream": { "resumeAfter": watch.token.clone() } }],
    };
    assert_eq!(code(&client.run(resume).await), 260);
    let options = doc! { "startAfter": watch.token.clone() };
    let mut started = TestChangeStream::open(&cluster, 1, options).await;
    assert_eq!(keys(&started.take(1).await), [2]);
    ok(&mut client, doc! { "dropDatabase": 1, "$db": "db" }).await;
    assert_eq!(kinds(&all.take(3).await), ["drop", "dropDatabase", "invalidate"]);
}

#[tokio::test]
async fn transaction_over_shards_has_one_commit_timestamp() {
    let cluster = start().await;
    let mut watch = TestChangeStream::open(&cluster, 0, doc! {}).await;
    let mut client = connect(&cluster, 0).await;
    let session = Binary { subtype: BinarySubtype::Uuid, bytes: vec![9; 16] };
    for (id, dc) in [(1, "alfa"), (2, "bravo")] {
        let mut part = thing(id, dc);
        part.extend(doc! {
            "lsid": { "id": session.clone() }, "txnNumber": 1_i64, "autocommit": false,
        });
        if id == 1 {
            part.insert("startTransaction", true);
        }
        ok(&mut client, part).await;
    }
    let commit = doc! {
        "commitTransaction": 1, "lsid": { "id": session.clone() }, "txnNumber": 1_i64,
        "autocommit": false, "$db": "admin",
    };
    ok(&mut client, commit).await;
    let events = watch.take(2).await;
    assert_eq!(keys(&events), [1, 2]);
    let [one, two] = [0, 1].map(|at| events[at].get_timestamp("commitTimestamp").unwrap());
    assert_eq!(one, two);
    for event in &events {
        assert_eq!(event.get_i64("txnNumber").unwrap(), 1);
        assert_eq!(event.get_document("lsid").unwrap().get("id"), Some(&session.clone().into()));
    }
}

#[tokio::test]
async fn update_lookup_reads_current_owner() {
    let cluster = start().await;
    let options = doc! { "fullDocument": "updateLookup" };
    let mut watch = TestChangeStream::open(&cluster, 0, options).await;
    let mut client = connect(&cluster, 0).await;
    ok(&mut client, thing(1, "alfa")).await;
    for dc in ["alfa", "bravo"] {
        let update = doc! {
            "update": "things", "$db": "db",
            "updates": [{ "q": { "dc": "alfa", "_id": 1 }, "u": { "$set": { "seen": dc } } }],
        };
        ok(&mut client, update).await;
        let find = doc! { "dc": "alfa", "_id": 1 };
        let to = if dc == "alfa" { "bravo" } else { "alfa" };
        ok(&mut client, doc! { "moveChunk": "db.things", "find": find, "to": to, "$db": "admin" })
            .await;
    }
    let events = watch.take(3).await;
    assert_eq!(kinds(&events), ["insert", "update", "update"], "a moved chunk is no event");
    for event in &events[1..] {
        let full = event.get_document("fullDocument").unwrap();
        assert_eq!(*full, doc! { "_id": 1, "dc": "alfa", "seen": "bravo" });
    }
}

/// A client that resumes through the other mongos after each error sees every write once.
#[tokio::test]
async fn resumed_stream_has_no_gaps_or_duplicates() {
    const WRITES: i32 = 120;
    let cluster = start().await;
    let mut watch = TestChangeStream::open(&cluster, 0, doc! {}).await;
    let writing = async {
        let mut client = connect(&cluster, 1).await;
        let session = Binary { subtype: BinarySubtype::Uuid, bytes: vec![3; 16] };
        for id in 0..WRITES {
            let mut write = thing(id, if id % 2 == 0 { "alfa" } else { "bravo" });
            let number = i64::from(id) + 1;
            write.extend(doc! { "lsid": { "id": session.clone() }, "txnNumber": number });
            loop {
                let reply = client.run(write.clone()).await;
                if is_ok(&reply) && !reply.contains_key("writeErrors") {
                    break;
                }
                assert!(labels(&reply).contains(&"RetryableWriteError"), "{reply}");
            }
            if id % 40 == 20 {
                let shard = cluster.shard(if id % 80 == 20 { "alfa" } else { "bravo" });
                let primary = shard.primary().unwrap();
                shard.faults().kill(primary);
                shard.wait_for_primary().await;
                shard.faults().restart(primary);
            }
        }
    };
    let watching = async {
        let mut seen: BTreeMap<i32, usize> = BTreeMap::new();
        let (mut events, mut resumed) = (Vec::new(), 0);
        while seen.len() < usize::try_from(WRITES).unwrap() {
            match watch.try_more(1_000).await {
                Ok(batch) => {
                    for id in keys(&batch) {
                        *seen.entry(id).or_default() += 1;
                    }
                    events.extend(batch);
                }
                Err(error) => {
                    assert_eq!(labels(&error), ["ResumableChangeStreamError"], "{error}");
                    resumed += 1;
                    let token = watch.token.clone();
                    let options = doc! { "resumeAfter": token };
                    watch = TestChangeStream::open(&cluster, resumed % 2, options).await;
                    let first = std::mem::take(&mut watch.first);
                    for id in keys(&first) {
                        *seen.entry(id).or_default() += 1;
                    }
                    events.extend(first);
                }
            }
        }
        assert!(seen.values().all(|times| *times == 1), "{seen:?}");
        assert_ordered(&events);
        assert!(resumed > 0, "a shard's primary died");
    };
    let both = async { tokio::join!(writing, watching) };
    tokio::time::timeout(TEST_TIMEOUT, both).await.expect("all writes are seen");
}
