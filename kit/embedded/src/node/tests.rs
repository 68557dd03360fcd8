//! Commands on members of a replica set, as connections run them.

mod concern;
mod failover;
mod labels;
mod sessions;
mod transactions;

use std::{sync::Arc, time::Duration};

use bson::{Bson, Document, Uuid, doc};

use super::*;
use crate::{clock::Clock, set::ReplicaSet};

/// A replica set and commands for it.
struct TestMembers {
    set: Arc<ReplicaSet>,
}

impl TestMembers {
    fn new(members: usize) -> Self {
        Self::with(members, Some("rs"))
    }

    fn standalone() -> Self {
        Self::with(1, None)
    }

    fn with(members: usize, name: Option<&str>) -> Self {
        let config = SetConfig {
            name: name.map(String::from),
            addresses: (0..members).map(|index| format!("localhost:{}", 27017 + index)).collect(),
            priority_zero: Vec::new(),
            tags: Vec::new(),
            version: String::from("8.0.4"),
            max_wire_version: 25,
            election_timeout: Duration::from_millis(300),
            seed: 7,
            is_shard: false,
        };
        Self { set: ReplicaSet::start(config, Clock::system()) }
    }

    async fn run_on(&self, index: usize, database: &str, body: Document) -> Document {
        let name = body.keys().next().unwrap().clone();
        match Call::read(name, database, body) {
            Ok(call) => self.set.nodes()[index].run(call).await,
            Err(fault) => fault.to_reply(),
        }
    }

    /// Runs a command on the first member.
    async fn run(&self, body: Document) -> Document {
        self.run_on(0, "t", body).await
    }

    async fn admin(&self, body: Document) -> Document {
        self.run_on(0, "admin", body).await
    }

    /// Inserts a document, with further arguments.
    async fn insert(&self, id: i32, more: Document) -> Document {
        self.run(inserting(id, more)).await
    }

    /// The `_id`s that a `find` on a member returns.
    async fn ids_on(&self, index: usize, more: Document) -> Vec<i32> {
        let mut find = doc! { "find": "c", "$readPreference": { "mode": "nearest" } };
        find.extend(more);
        let reply = self.run_on(index, "t", find).await;
        let cursor = reply.get_document("cursor").unwrap_or_else(|_| panic!("{reply}"));
        let batch = cursor.get_array("firstBatch").unwrap();
        batch.iter().map(|it| it.as_document().unwrap().get_i32("_id").unwrap()).collect()
    }

    async fn ids(&self) -> Vec<i32> {
        self.ids_on(0, doc! {}).await
    }
}

fn inserting(id: i32, more: Document) -> Document {
    let mut insert = doc! { "insert": "c", "documents": [{ "_id": id }] };
    insert.extend(more);
    insert
}

/// Arguments of a retryable write.
fn retryable(session: u8, number: i64) -> Document {
    doc! { "lsid": { "id": Uuid::from_bytes([session; 16]) }, "txnNumber": number }
}

/// Arguments of a later command of a transaction.
fn several(session: u8, number: i64) -> Document {
    let mut arguments = retryable(session, number);
    arguments.insert("autocommit", false);
    arguments
}

/// Arguments of the first command of a transaction.
fn starting(session: u8, number: i64) -> Document {
    let mut arguments = several(session, number);
    arguments.insert("startTransaction", true);
    arguments
}

fn with(mut body: Document, more: Document) -> Document {
    body.extend(more);
    body
}

/// Error code of a reply. 0 if the command succeeded.
fn code(reply: &Document) -> i32 {
    reply.get_i32("code").unwrap_or(0)
}

fn labels(reply: &Document) -> Vec<&str> {
    let labels = reply.get_array("errorLabels").map(Vec::as_slice).unwrap_or_default();
    labels.iter().filter_map(Bson::as_str).collect()
}

fn concern_code(reply: &Document) -> i32 {
    reply.get_document("writeConcernError").map_or(0, |error| error.get_i32("code").unwrap())
}

#[track_caller]
fn assert_ok(reply: &Document) {
    assert_eq!(reply.get_f64("ok").unwrap(), 1.0, "{reply}");
    assert!(!reply.contains_key("writeErrors"), "{reply}");
}
