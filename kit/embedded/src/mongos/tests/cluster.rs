//! A cluster of two datacenters for the tests of a `mongos`.

use std::{sync::Arc, time::Duration};

use bson::{Bson, Document, Uuid, doc};

use super::super::{Cluster, ClusterConfig, Mongos, multi_shard};
use crate::{
    call::Call,
    clock::Clock,
    namespace::Namespace,
    set::{ReplicaSet, SetConfig},
};

/// Wire versions of servers 6.0 and 8.0.
pub(super) const V6_0: i32 = 17;
pub(super) const V8_0: i32 = 25;

pub(super) struct TestCluster {
    pub(super) cluster: Arc<Cluster>,
    pub(super) mongos: Arc<Mongos>,
    number: std::cell::Cell<i64>,
}

/// A cluster with two shards, one per datacenter, of three members each.
pub(super) fn start(max_wire_version: i32) -> TestCluster {
    let shard = |name: &str| SetConfig {
        name: Some(name.to_owned()),
        addresses: (1..=3).map(|member| format!("{name}{member}:27018")).collect(),
        priority_zero: Vec::new(),
        tags: Vec::new(),
        version: String::from("8.0.4"),
        max_wire_version,
        election_timeout: Duration::from_secs(1),
        seed: 5,
        is_shard: true,
    };
    let config = ClusterConfig {
        shards: vec![shard("alfa"), shard("bravo")],
        version: String::from("8.0.4"),
        max_wire_version,
        seed: 7,
        balancing: false,
    };
    let cluster = Cluster::start(config, Clock::system());
    let mongos = cluster.mongos("router:27017");
    TestCluster { cluster, mongos, number: std::cell::Cell::new(0) }
}

/// A cluster with zones and the sharded collection of messages.
pub(super) async fn zoned(max_wire_version: i32) -> TestCluster {
    let it = start(max_wire_version);
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
    it.admin(doc! { "shardCollection": "log.messages", "key": { "datacenter": 1, "userid": 1 } })
        .await;
    it
}

impl TestCluster {
    pub(super) async fn run_on(
        &self,
        mongos: &Arc<Mongos>,
        database: &str,
        body: Document,
    ) -> Document {
        let name = body.keys().next().unwrap().clone();
        let mut body = body;
        body.insert("$db", database);
        mongos.run(Call::read(name, database, body).unwrap()).await
    }

    /// Runs a command on the database `log`.
    pub(super) async fn run(&self, body: Document) -> Document {
        self.run_on(&self.mongos, "log", body).await
    }

    /// Runs a command that must succeed.
    pub(super) async fn ok(&self, body: Document) -> Document {
        let reply = self.run(body.clone()).await;
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{body}: {reply}");
        assert!(!reply.contains_key("writeErrors"), "{body}: {reply}");
        reply
    }

    pub(super) async fn admin(&self, body: Document) -> Document {
        let reply = self.run_on(&self.mongos, "admin", body.clone()).await;
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{body}: {reply}");
        reply
    }

    /// The command as the next retryable write of a session.
    pub(super) fn retryable(&self, mut body: Document) -> Document {
        self.number.set(self.number.get() + 1);
        body.extend(doc! { "lsid": session(1), "txnNumber": self.number.get() });
        body
    }

    /// The command in the transaction of a session. `starts` marks the first command.
    pub(super) fn in_transaction(&self, mut body: Document, starts: bool) -> Document {
        if starts {
            self.number.set(self.number.get() + 1);
            body.insert("startTransaction", true);
        }
        body.extend(doc! {
            "lsid": session(1), "txnNumber": self.number.get(), "autocommit": false,
        });
        body
    }

    /// Runs a command on a shard's primary, not through the mongos.
    pub(super) async fn ask_shard(&self, shard: &str, mut body: Document) -> Document {
        let name = body.keys().next().unwrap().clone();
        body.insert("$db", "admin");
        let set = self.set(shard);
        let primary = set.nodes()[set.primary().unwrap()].clone();
        primary.run(Call::read(name, "admin", body).unwrap()).await
    }

    pub(super) fn set(&self, shard: &str) -> Arc<ReplicaSet> {
        self.cluster.shard(shard).unwrap().set.clone()
    }

    /// Documents of a shard, in natural order.
    pub(super) fn on(&self, shard: &str) -> Vec<Document> {
        let shard = self.cluster.shard(shard).unwrap();
        let seen = multi_shard::collection(shard, &Namespace::new("log", "messages")).unwrap();
        let documents = seen.map(|it| it.documents).unwrap_or_default();
        documents.iter().map(|it| (**it).clone()).collect()
    }

    pub(super) async fn insert(&self, documents: Vec<Document>) -> Document {
        let body = doc! { "insert": "messages", "documents": documents };
        self.ok(self.retryable(body)).await
    }

    /// Moves the range of a datacenter.
    pub(super) async fn move_chunk(&self, datacenter: &str, to: &str) {
        self.admin(doc! {
            "moveChunk": "log.messages",
            "find": { "datacenter": datacenter, "userid": 1 },
            "to": to,
        })
        .await;
    }
}

pub(super) fn session(id: u8) -> Document {
    doc! { "id": Uuid::from_bytes([id; 16]) }
}

/// A message of the application.
pub(super) fn message(id: i32, datacenter: &str, user: i32) -> Document {
    doc! { "_id": id, "message_id": id, "datacenter": datacenter, "userid": user }
}

pub(super) fn batch(reply: &Document) -> Vec<Document> {
    let cursor = reply.get_document("cursor").unwrap_or_else(|_| panic!("{reply}"));
    let batch = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch")).unwrap();
    batch.iter().map(|it| it.as_document().unwrap().clone()).collect()
}

pub(super) fn ids(documents: &[Document]) -> Vec<i32> {
    documents.iter().map(|it| it.get_i32("_id").unwrap()).collect()
}
